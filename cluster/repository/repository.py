# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Model repositories: finds models and reads them up to the point where a backend is needed.

A model is a directory of a repository. Reading it means: its config.pbtxt (or none), what its
files tell about the backend, the defaults, the checks that need no backend, and the versions its
policy selects. Nothing is cached: each read sees the repository as it is now. But the names of its
models are kept for a repository that cannot be listed: an error is not an absence.

Triton: core/src/model_repository_manager/model_repository_manager.cc @73aad7c
"""

import shutil
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

from backends.api.errors import (
    InternalError,
    InvalidArgumentError,
    NotFoundError,
    TritonError,
    UnavailableError,
)
from backends.api.model_config import ModelConfig
from backends.api.model_identifier import key_of, name_of, namespace_of
from backends.config.pbtxt import empty_config, to_json
from cluster.repository.agents.contracts import KEYS, VERIFY, AgentModel
from cluster.repository.agents.policy import AgentPolicy
from cluster.repository.agents.prepared import PreparedFiles, PreparedModels
from cluster.repository.agents.registry import find_agent
from cluster.repository.agents.verify import verify_stand_in
from cluster.repository.configs import ModelConfigs, read_labels
from cluster.repository.contents import (
    SILENT_REASON,
    Listings,
    PackedFiles,
    RepositoryModel,
    RepositoryScan,
)
from cluster.repository.filesystem import FileSystem
from cluster.repository.manifest import version_files
from cluster.repository.model_directory import (
    ModelDirectory,
    Place,
    file_digests,
    has_manifest,
    polling,
)
from cluster.repository.override_files import check_override_places, write_override
from cluster.repository.remote import RemoteModel, open_filesystem
from cluster.repository.stores.local import LocalFileSystem
from cluster.repository.version_policy import find_versions, select_versions
from deployments.model_files.contracts import FileChangedError, ModelFiles, digest_of_lines

# In a version's directory while it is written to a store, or removed.
INCOMPLETE_FILE: Final = ".incomplete"
# Of a model that changes while it is read.
_READS: Final = 3


class ModelRepository:
    """Models of several repositories, by their keys (`backends.api.model_identifier`).

    Args:
        locations: Repository paths, as given on the command line.
        model_config_name: ``--model-config-name``; empty for config.pbtxt.
        auto_complete: False with ``--disable-auto-complete-config``.
        has_namespaces: ``--model-namespacing``: whether each repository has its own names.
        temporary_root: Where directories for files of load requests are made; None for the
            system's place.
        open_location: Opens a repository path.
        agents: Runs repository agents; None where models are only looked at.
        policy: Which agents run.

    Attributes:
        listings: Lists them one by one.
        silent: Of `paths`, those that do not answer: no model is looked for there.

    Raises:
        InvalidArgumentError: ``model_config_name`` is no plain name.
        UnsupportedError: A location has an unknown scheme.
    """

    def __init__(
        self,
        locations: Sequence[str],
        *,
        model_config_name: str = "",
        auto_complete: bool = True,
        has_namespaces: bool = False,
        temporary_root: str | None = None,
        open_location: Callable[[str], tuple[FileSystem, str]] = open_filesystem,
        agents: PreparedModels | None = None,
        policy: AgentPolicy = AgentPolicy(),  # noqa: B008 - a frozen value
    ) -> None:
        self._has_namespaces = has_namespaces
        self._roots = {
            location: Place(*open_location(location)) for location in dict.fromkeys(locations)
        }
        self._configs = ModelConfigs(model_config_name, auto_complete=auto_complete)
        self._auto_complete = auto_complete
        self._temporary_root = temporary_root
        self._agents = agents
        self._policy = policy
        self.listings = Listings(self._roots, has_namespaces=has_namespaces)
        self.silent: Collection[str] = ()

    @property
    def paths(self) -> tuple[str, ...]:
        """The repositories as `RepositoryScan.errors` names them, without credentials."""
        return tuple(root.path for root in self._roots.values())

    def scan(self) -> RepositoryScan:
        """List the models of all repositories; hidden directories are no models.

        Of a repository that cannot be listed they are those of its last listing.
        """
        return self.listings.gathered({path: self.listings.look(path) for path in self.paths})

    def keys_of(self, name: str) -> tuple[str, ...]:
        """Return the key of each model of a name, in the order of the repositories.

        Without namespacing the one key is the name, whether there is such a model or not.

        Raises:
            InvalidArgumentError: The name is no name.
            InternalError: A repository cannot be looked at; the message says why.
        """
        if not self._has_namespaces:
            return (name,)
        with polling(name):
            return tuple(
                key_of(location, name)
                for location, root in self._roots.items()
                if root.path not in self.silent and _holds(root, name)
            )

    def read_model(
        self,
        key: str,
        *,
        override_config_json: str | None = None,
        override_files: Mapping[str, bytes] | None = None,
        directory: ModelDirectory | None = None,
    ) -> RepositoryModel:
        """Read a model.

        Args:
            key: The model's key.
            override_config_json: Config to use in place of the model's own, as JSON.
            override_files: Files to use in place of the model's directory, by the parameter's name
                ``file:<path in the model's directory>``; they need ``override_config_json``.
            directory: Its directory, where that has been opened already.

        Raises:
            InvalidArgumentError: The name is no name.
            InternalError: The model cannot be read; the message says why.
        """
        name = name_of(key) if self._has_namespaces else key
        with polling(name):
            if override_files:
                return self._read_override(name, override_config_json, override_files)
            changed = ""
            for _ in range(_READS):
                directory = directory or ModelDirectory(name, self._find(key))
                try:
                    model = self._read(directory, override_config_json)
                    return replace(model, namespace=namespace_of(key))
                except FileChangedError as error:
                    changed, directory = str(error), None
            raise InternalError(
                f"{changed}, {_READS} times in a row; it is read again once its upload is complete"
            )

    def open_directory(self, key: str) -> ModelDirectory:
        """List a model's directory as it is now.

        Raises:
            InvalidArgumentError: The name is no name.
            InternalError: The directory cannot be read; the message says why.
        """
        name = name_of(key) if self._has_namespaces else key
        with polling(name):
            return ModelDirectory(name, self._find(key))

    def _read_override(
        self, name: str, config_json: str | None, files: Mapping[str, bytes]
    ) -> RepositoryModel:
        path = write_override(config_json, files, self._temporary_root)
        try:
            made = ModelDirectory(name, Place(LocalFileSystem(), path))
            model = self._read(made, config_json, is_made_of_request=True)
        except BaseException:
            shutil.rmtree(path, ignore_errors=True)
            raise
        if model.model_dir != path:
            # Agents have made a copy of their own.
            shutil.rmtree(path, ignore_errors=True)
        return replace(model, is_temporary=True)

    def _find(self, key: str) -> Place:
        namespace, name = namespace_of(key), name_of(key)
        paths = [
            (root.filesystem, f"{root.path}/{name}")
            for location, root in self._roots.items()
            if (not self._has_namespaces or location == namespace) and root.path not in self.silent
        ]
        views = [Place(filesystem.view(path), path) for filesystem, path in paths]
        places = [place for place in views if place.filesystem.is_directory(place.path)]
        if not places and self.silent:
            away = ", ".join(sorted(self.silent))
            raise UnavailableError(f"model not found, and {SILENT_REASON}: {away}")
        if not places:
            raise NotFoundError("model not found in any model repository")
        if len(places) > 1:
            found = ", ".join(place.path for place in places)
            raise InvalidArgumentError(f"not unique across all model repositories: {found}")
        return places[0]

    def _read(
        self,
        directory: ModelDirectory,
        config_json: str | None,
        *,
        is_made_of_request: bool = False,
    ) -> RepositoryModel:
        written, config_entry = self._configs.read(directory, config_json)
        if config_json is not None and not is_made_of_request and self._policy.require_signed:
            raise InvalidArgumentError(
                f"model '{directory.name}' cannot be loaded with a config that comes with the load:"
                " only signed models are (--require-signed-models); sign a model with that config"
            )
        if config_json is not None and written is not None:

            def own() -> Mapping[str, str]:
                return {} if is_made_of_request else self._own_parameters(directory)

            check_override_places(directory.name, written.parameters, own)
        prepared = self._prepare(directory, written)
        if prepared is None:
            return self._describe(directory, written, config_entry)
        try:
            if prepared.is_copy:
                place = Place(LocalFileSystem(), str(prepared.directory))
                directory = ModelDirectory(directory.name, place)
                written, config_entry = self._configs.read(directory, config_json)
            model = self._describe(directory, written, config_entry)
        except BaseException:
            if self._agents is not None:
                self._agents.release(prepared)
            raise
        if not prepared.is_copy:
            return replace(model, prepared=prepared)
        # What the copy was made of tells when to load anew, not where it is.
        digests = dict.fromkeys(model.versions, prepared.key)
        return replace(model, file_digests=digests, is_temporary=True, prepared=prepared)

    def _own_parameters(self, directory: ModelDirectory) -> Mapping[str, str]:
        try:
            own, _ = self._configs.read(directory, None)
        except TritonError:
            # A config that comes with a load may stand in for one that is broken.
            return {}
        return {} if own is None else own.parameters

    def _prepare(
        self, directory: ModelDirectory, written: ModelConfig | None
    ) -> PreparedFiles | None:
        """Have repository agents look at, or change, local files; None when there are none."""
        if self._agents is None:
            return None
        if not isinstance(directory.place.filesystem, LocalFileSystem):
            # They run on the nodes that fetch the files.
            return None
        calls = self._policy.calls_of(written, has_manifest=has_manifest(directory))
        if not calls:
            return None
        config = written or empty_config(directory.name)
        path = directory.place.path
        key = digest_of_lines(
            [path, repr(calls), config.message.hex(), *directory.lines(lambda _: True)]
        )
        return self._agents.prepare(
            directory.name, calls, Path(path), key, lambda: to_json(config).decode()
        )

    def _describe(
        self, directory: ModelDirectory, written: ModelConfig | None, config_entry: str
    ) -> RepositoryModel:
        name, place, entries = directory.name, directory.place, directory.entries
        config = self._configs.complete(name, written or empty_config(name), place, entries)
        present, warnings = find_versions(entry.name for entry in entries if entry.is_directory)
        partial = _incomplete(place, present)
        whole = [version for version in present if version not in partial]
        versions, missing = select_versions(name, config.version_policy, whole)
        missing += tuple(
            f"version {version} of model '{name}' is left out: it is being written, or that was "
            "broken off"
            for version in partial
        )
        remote = place.filesystem if isinstance(place.filesystem, RemoteModel) else None
        digests = file_digests(directory, config_entry, versions)
        files = {} if remote is None else self._files(name, remote, place.path, written, versions)
        for version, agents in ((v, each.agents) for v, each in files.items() if each.agents):
            digests[version] = digest_of_lines([digests[version], repr(agents)])
        made = RepositoryModel(
            name=name,
            config=config,
            model_dir=place.filesystem.localise(place.path),
            versions=versions,
            labels=read_labels(config, place.filesystem, place.path),
            needs_auto_complete=self._auto_complete and not config.has_ensemble_scheduling,
            file_digests=digests,
            warnings=warnings + missing,
            files=None if remote is None else PackedFiles(files),
            agent_keys=tuple(each.key() for each in files.values() if each.agents),
            digest=b"" if remote is None else remote.digest,
        )
        if remote is not None:
            remote.confirm()
        return made

    def _files(
        self,
        name: str,
        model: RemoteModel,
        path: str,
        written: ModelConfig | None,
        versions: Sequence[int],
    ) -> dict[int, ModelFiles]:
        """Name what nodes fetch, and the agents that they run over it."""
        made = {}
        for version in versions:
            files = version_files(model, path, version)
            agents = self._policy.calls_of_version(written, files, version)
            for call in agents if self._agents is not None else ():
                # Refused here rather than on each node.
                find_agent(call.name)
                if call.name == VERIFY and KEYS in dict(call.parameters):
                    local = Path(model.localise(path))
                    verify_stand_in(AgentModel(name, local, dict(call.parameters)), version)
            made[version] = replace(files, agents=agents)
        return made


def _holds(root: Place, name: str) -> bool:
    path = f"{root.path}/{name}"
    return root.filesystem.view(path).is_directory(path)


def _incomplete(place: Place, versions: Iterable[int]) -> list[int]:
    """Return the versions that are being written or removed."""
    exists = place.filesystem.exists
    return [v for v in versions if exists(f"{place.path}/{v}/{INCOMPLETE_FILE}")]
