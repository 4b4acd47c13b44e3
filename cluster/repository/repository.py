# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Model repositories: finds models and reads them up to the point where a backend is needed.

A model is a directory of a repository. Reading it means: its config.pbtxt (or none), what its
files tell about the backend, the defaults, the checks that need no backend, and the versions its
policy selects. Nothing is cached: each read sees the repository as it is now.

Triton: core/src/model_repository_manager/model_repository_manager.cc @73aad7c
"""

import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from hashlib import blake2b

from backends.api.errors import (
    InternalError,
    InvalidArgumentError,
    NotFoundError,
    TritonError,
)
from backends.api.model_config import ModelConfig
from backends.api.model_identifier import key_of, name_of, namespace_of
from backends.config.normalisation import infer_backend, normalise_defaults
from backends.config.pbtxt import MAX_CONFIG_BYTES, edit, empty_config, from_json, parse_pbtxt
from backends.config.validation.model import validate_before_auto_complete, validate_tensors
from cluster.repository.filesystem import (
    DirectoryEntry,
    FileSystem,
    LocalFileSystem,
    open_filesystem,
    reason_of,
    tree_digest,
)
from cluster.repository.labels import read_labels
from cluster.repository.override_files import write_override
from cluster.repository.version_policy import find_versions, select_versions

CONFIG_FILE = "config.pbtxt"
CONFIGS_DIRECTORY = "configs"
DUPLICATE_REASON = "model appears in two or more repositories"


@dataclass(frozen=True, slots=True)
class RepositoryModel:
    """A model as read from its directory.

    Attributes:
        name: Model name.
        config: Config with its defaults, but without those of the instance groups.
        model_dir: Local path of the model's directory.
        versions: Versions the policy selects, ascending; may be empty.
        labels: Class labels by output name.
        needs_auto_complete: Whether the backend shall complete the config.
        file_digests: By version: digest of all files it is loaded from but the config.
        is_config_provided: Whether there was a config at all.
        warnings: What was ignored, one line each.
        is_temporary: Whether ``model_dir`` was made for this load, and is the caller's to remove.
        namespace: The repository it is in; empty without namespacing, and when its files came
            with the load.
    """

    name: str
    config: ModelConfig
    model_dir: str
    versions: tuple[int, ...]
    labels: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    needs_auto_complete: bool = True
    file_digests: Mapping[int, str] = field(default_factory=dict)
    is_config_provided: bool = True
    warnings: tuple[str, ...] = ()
    is_temporary: bool = False
    namespace: str = ""


@dataclass(frozen=True, slots=True)
class RepositoryScan:
    """What the repositories hold now.

    Attributes:
        directories: Directory of each model, by key, sorted.
        duplicates: Keys found in more than one repository; they cannot be loaded.
        errors: Repositories that could not be listed, with the reason.
    """

    directories: Mapping[str, str]
    duplicates: frozenset[str] = frozenset()
    errors: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class _Place:
    """A directory in one of the repositories."""

    filesystem: FileSystem
    path: str


class ModelDirectory:
    """A model's directory, of which each entry is listed and digested at most once.

    Args:
        name: The model.
        place: Where it is.

    Raises:
        InternalError: It cannot be listed.
    """

    def __init__(self, name: str, place: _Place) -> None:
        self.name = name
        self.place = place
        self.entries = place.filesystem.entries(place.path)
        self._digests: dict[str, str] = {}

    def digest(self) -> str:
        """Digest all files, the config included.

        Raises:
            InternalError: The directory cannot be read; the message says why.
        """
        with _polling(self.name):
            lines = [
                f"{entry.name}={self.digest_of(entry)}"
                for entry in self.entries
                if entry.name != "__pycache__"
            ]
        return _digest_of_lines(lines)

    def digest_of(self, entry: DirectoryEntry) -> str:
        """Digest one entry; a directory with all that is in it."""
        if not entry.is_directory:
            return entry.stamp
        if entry.name not in self._digests:
            path = f"{self.place.path}/{entry.name}"
            self._digests[entry.name] = tree_digest(self.place.filesystem, path)
        return self._digests[entry.name]


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
    ) -> None:
        if "/" in model_config_name or "\0" in model_config_name:
            raise InvalidArgumentError(
                f"model config name '{model_config_name}' must be the name of a file in "
                f"'{CONFIGS_DIRECTORY}' without '.pbtxt', not a path"
            )
        self._has_namespaces = has_namespaces
        self._roots = {
            location: _Place(*open_location(location)) for location in dict.fromkeys(locations)
        }
        self._config_name = model_config_name
        self._auto_complete = auto_complete
        self._temporary_root = temporary_root

    def scan(self) -> RepositoryScan:
        """List the models of all repositories; hidden directories are no models."""
        found: dict[str, str] = {}
        duplicates, errors = set(), {}
        for location, root in self._roots.items():
            namespace = location if self._has_namespaces else ""
            try:
                entries = root.filesystem.entries(root.path)
            except TritonError as error:
                errors[root.path] = error.message
                continue
            for entry in entries:
                if entry.is_directory and not entry.name.startswith("."):
                    key = key_of(namespace, entry.name)
                    if key in found:
                        duplicates.add(key)
                    found.setdefault(key, f"{root.path}/{entry.name}")
        return RepositoryScan(dict(sorted(found.items())), frozenset(duplicates), errors)

    def keys_of(self, name: str) -> tuple[str, ...]:
        """Return the key of each model of a name, in the order of the repositories.

        Without namespacing the one key is the name, whether there is such a model or not.

        Raises:
            InvalidArgumentError: The name is no name.
            InternalError: A repository cannot be looked at; the message says why.
        """
        if not self._has_namespaces:
            return (name,)
        with _polling(name):
            return tuple(
                key_of(location, name)
                for location, root in self._roots.items()
                if root.filesystem.is_directory(f"{root.path}/{name}")
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
        with _polling(name):
            if override_files:
                return self._read_override(name, override_config_json, override_files)
            directory = directory or ModelDirectory(name, self._find(key))
            model = self._read(directory, override_config_json)
            return replace(model, namespace=namespace_of(key))

    def open_directory(self, key: str) -> ModelDirectory:
        """List a model's directory as it is now.

        Raises:
            InvalidArgumentError: The name is no name.
            InternalError: The directory cannot be read; the message says why.
        """
        name = name_of(key) if self._has_namespaces else key
        with _polling(name):
            return ModelDirectory(name, self._find(key))

    def _read_override(
        self, name: str, config_json: str | None, files: Mapping[str, bytes]
    ) -> RepositoryModel:
        path = write_override(config_json, files, self._temporary_root)
        try:
            made = ModelDirectory(name, _Place(LocalFileSystem(), path))
            model = self._read(made, config_json)
        except BaseException:
            shutil.rmtree(path, ignore_errors=True)
            raise
        return replace(model, is_temporary=True)

    def _find(self, key: str) -> _Place:
        namespace, name = namespace_of(key), name_of(key)
        places = [
            _Place(root.filesystem, f"{root.path}/{name}")
            for location, root in self._roots.items()
            if not self._has_namespaces or location == namespace
            if root.filesystem.is_directory(f"{root.path}/{name}")
        ]
        if not places:
            raise NotFoundError("model not found in any model repository")
        if len(places) > 1:
            paths = ", ".join(place.path for place in places)
            raise InvalidArgumentError(f"not unique across all model repositories: {paths}")
        return places[0]

    def _read(self, directory: ModelDirectory, config_json: str | None) -> RepositoryModel:
        name, place, entries = directory.name, directory.place, directory.entries
        written, config_entry = self._read_config(name, place, config_json)
        config = self._complete(name, written or empty_config(name), place, entries)
        present, warnings = find_versions(entry.name for entry in entries if entry.is_directory)
        versions, missing = select_versions(name, config.version_policy, present)
        return RepositoryModel(
            name=name,
            config=config,
            model_dir=place.filesystem.localise(place.path),
            versions=versions,
            labels=read_labels(config, place.filesystem, place.path),
            needs_auto_complete=self._auto_complete and not config.has_ensemble_scheduling,
            file_digests=_file_digests(directory, config_entry, versions),
            is_config_provided=written is not None,
            warnings=warnings + missing,
        )

    def _read_config(
        self, name: str, place: _Place, config_json: str | None
    ) -> tuple[ModelConfig | None, str]:
        """Return the config as written, and the entry of the model's directory it is in."""
        entry, path = CONFIG_FILE, f"{place.path}/{CONFIG_FILE}"
        if self._config_name:
            alternative = f"{place.path}/{CONFIGS_DIRECTORY}/{self._config_name}.pbtxt"
            if place.filesystem.exists(alternative):
                entry, path = CONFIGS_DIRECTORY, alternative
        if config_json is not None:
            return from_json(config_json), entry
        if self._auto_complete and not place.filesystem.exists(path):
            return None, entry
        content = place.filesystem.read_bytes(path, MAX_CONFIG_BYTES)
        try:
            return parse_pbtxt(content.decode(), path), entry
        except UnicodeDecodeError as error:
            raise InternalError(
                f"failed to read text proto from {path}: byte {error.start} is not UTF-8"
            ) from None

    def _complete(
        self, name: str, config: ModelConfig, place: _Place, entries: Sequence[DirectoryEntry]
    ) -> ModelConfig:
        if not config.name:
            config = edit(config, lambda message: setattr(message, "name", name))
        config = normalise_defaults(infer_backend(config, _first_version(place, entries)))
        validate_before_auto_complete(config)
        if not self._auto_complete:
            validate_tensors(config)
        if config.name != name:
            raise InvalidArgumentError(
                f"unexpected directory name '{name}' for model '{config.name}', directory name "
                "must equal model name"
            )
        return config


def require_listed(scan: RepositoryScan) -> None:
    """Refuse a scan that found nothing because repositories cannot be listed.

    Raises:
        InternalError: The message says why of each.
    """
    if scan.errors and not scan.directories:
        raise InternalError("; ".join(scan.errors.values()))


@contextmanager
def _polling(name: str) -> Iterator[None]:
    """Check a name, and tell errors as those of a poll."""
    check_model_name(name)
    try:
        yield
    except (TritonError, OSError) as error:
        cause = InternalError(reason_of(error)) if isinstance(error, OSError) else error
        raise InternalError(
            f"failed to load '{name}', failed to poll from model repository: {cause.message}"
        ) from cause


def check_model_name(name: str) -> None:
    """Refuse names that are empty or lead out of a repository.

    Raises:
        InvalidArgumentError: The name is refused.
    """
    trimmed = name.strip()
    if not trimmed:
        raise InvalidArgumentError(
            "Model name cannot be empty. Please enter a valid name to deploy."
        )
    if trimmed in {".", ".."} or "/" in name or "\0" in name:
        raise InvalidArgumentError(
            f"invalid model name '{name}', model name must not contain path traversal characters"
        )


def _first_version(place: _Place, entries: Sequence[DirectoryEntry]) -> dict[str, bool] | None:
    """List the lexicographically first version directory, else the first directory of all."""
    directories = [entry.name for entry in entries if entry.is_directory]
    numeric = [name for name in directories if name.isascii() and name.isdigit()]
    for name in numeric or directories:
        listed = place.filesystem.entries(f"{place.path}/{name}")
        return {entry.name: entry.is_directory for entry in listed}
    return None


def _file_digests(
    directory: ModelDirectory, config_entry: str, versions: Sequence[int]
) -> dict[int, str]:
    """Digest each version's directory together with what all versions share."""
    digest_of = directory.digest_of

    def is_shared(entry: DirectoryEntry) -> bool:
        return entry.name not in {config_entry, "__pycache__"} and not entry.name.isdigit()

    # The path is part of it: a directory made for a load never equals the repository's.
    entries = directory.entries
    shared = [directory.place.path, *(f"{e.name}={digest_of(e)}" for e in entries if is_shared(e))]
    by_name = {entry.name: entry for entry in entries}
    return {
        version: _digest_of_lines([*shared, digest_of(by_name[str(version)])])
        for version in versions
    }


def _digest_of_lines(lines: Iterable[str]) -> str:
    text = "\0".join(lines).encode("utf-8", "surrogateescape")
    return blake2b(text, digest_size=16).hexdigest()
