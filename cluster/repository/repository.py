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
from typing import Final

from backends.api.errors import (
    InternalError,
    InvalidArgumentError,
    NotFoundError,
    TritonError,
)
from backends.api.model_config import ModelConfig
from backends.config.normalisation import infer_backend, normalise_defaults
from backends.config.pbtxt import MAX_CONFIG_BYTES, edit, empty_config, from_json, parse_pbtxt
from backends.config.validation.model import validate_before_auto_complete, validate_tensors
from cluster.repository.filesystem import (
    DirectoryEntry,
    FileSystem,
    reason_of,
    tree_digest,
)
from cluster.repository.labels import read_labels
from cluster.repository.manifests import version_files
from cluster.repository.override_files import write_override
from cluster.repository.remote import RemoteFileSystem, RemoteModel, open_filesystem
from cluster.repository.stores.local import LocalFileSystem
from cluster.repository.version_policy import find_versions, select_versions
from deployments.model_files.contracts import FileChangedError, ModelFiles

CONFIG_FILE = "config.pbtxt"
CONFIGS_DIRECTORY = "configs"
# In a version's directory while it is written to a store, or removed.
INCOMPLETE_FILE: Final = ".incomplete"
# Of a model that changes while it is read.
_READS: Final = 3
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
        files: By version: what nodes fetch; None for a local directory, used where it is.
        digest: Of all files as a listing tells; empty for a local directory.
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
    files: Mapping[int, ModelFiles] | None = None
    digest: bytes = b""


@dataclass(frozen=True, slots=True)
class RepositoryScan:
    """What the repositories hold now.

    Attributes:
        directories: Directory of each model, by name, sorted.
        duplicates: Names found in more than one repository; they cannot be loaded.
        errors: Repositories that could not be listed, with the reason.
        stale: Of those, the ones whose models are those of an earlier listing.
        digests: By model in a store: digest of all its files.
    """

    directories: Mapping[str, str]
    duplicates: frozenset[str] = frozenset()
    errors: Mapping[str, str] = field(default_factory=dict)
    stale: frozenset[str] = frozenset()
    digests: Mapping[str, bytes] = field(default_factory=dict)


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
    """Models of several repositories under one set of names.

    Args:
        locations: Repository paths, as given on the command line.
        model_config_name: ``--model-config-name``; empty for config.pbtxt.
        auto_complete: False with ``--disable-auto-complete-config``.
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
        temporary_root: str | None = None,
        open_location: Callable[[str], tuple[FileSystem, str]] = open_filesystem,
    ) -> None:
        if "/" in model_config_name or "\0" in model_config_name:
            raise InvalidArgumentError(
                f"model config name '{model_config_name}' must be the name of a file in "
                f"'{CONFIGS_DIRECTORY}' without '.pbtxt', not a path"
            )
        self._roots = [_Place(*open_location(location)) for location in dict.fromkeys(locations)]
        self._config_name = model_config_name
        self._auto_complete = auto_complete
        self._temporary_root = temporary_root

    def scan(self) -> RepositoryScan:
        """List the models of all repositories; hidden directories are no models."""
        found: dict[str, str] = {}
        duplicates, errors, stale = set(), {}, set()
        digests: dict[str, bytes] = {}
        for root in self._roots:
            try:
                entries = root.filesystem.entries(root.path)
            except TritonError as error:
                errors[root.path] = error.message
                continue
            if isinstance(root.filesystem, RemoteFileSystem):
                digests |= root.filesystem.digests
                if root.filesystem.error:
                    errors[root.path] = root.filesystem.error
                    stale.add(root.path)
            for entry in entries:
                if entry.is_directory and not entry.name.startswith("."):
                    if entry.name in found:
                        duplicates.add(entry.name)
                    found.setdefault(entry.name, f"{root.path}/{entry.name}")
        return RepositoryScan(
            dict(sorted(found.items())), frozenset(duplicates), errors, frozenset(stale), digests
        )

    def read_model(
        self,
        name: str,
        *,
        override_config_json: str | None = None,
        override_files: Mapping[str, bytes] | None = None,
        directory: ModelDirectory | None = None,
    ) -> RepositoryModel:
        """Read a model.

        Args:
            name: Model name.
            override_config_json: Config to use in place of the model's own, as JSON.
            override_files: Files to use in place of the model's directory, by the parameter's name
                ``file:<path in the model's directory>``; they need ``override_config_json``.
            directory: Its directory, where that has been opened already.

        Raises:
            InvalidArgumentError: The name is no name.
            InternalError: The model cannot be read; the message says why.
        """
        with _polling(name):
            if override_files:
                return self._read_override(name, override_config_json, override_files)
            changed = ""
            for _ in range(_READS):
                directory = directory or ModelDirectory(name, self._find(name))
                try:
                    return self._read(directory, override_config_json)
                except FileChangedError as error:
                    changed, directory = str(error), None
            raise InternalError(
                f"{changed}, {_READS} times in a row; it is read again once its upload is complete"
            )

    def open_directory(self, name: str) -> ModelDirectory:
        """List a model's directory as it is now.

        Raises:
            InvalidArgumentError: The name is no name.
            InternalError: The directory cannot be read; the message says why.
        """
        with _polling(name):
            return ModelDirectory(name, self._find(name))

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

    def _find(self, name: str) -> _Place:
        paths = [(root.filesystem, f"{root.path}/{name}") for root in self._roots]
        views = [_Place(filesystem.view(path), path) for filesystem, path in paths]
        places = [place for place in views if place.filesystem.is_directory(place.path)]
        if not places:
            raise NotFoundError("model not found in any model repository")
        if len(places) > 1:
            found = ", ".join(place.path for place in places)
            raise InvalidArgumentError(f"not unique across all model repositories: {found}")
        return places[0]

    def _read(self, directory: ModelDirectory, config_json: str | None) -> RepositoryModel:
        name, place, entries = directory.name, directory.place, directory.entries
        written, config_entry = self._read_config(name, place, config_json)
        config = self._complete(name, written or empty_config(name), place, entries)
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
        made = RepositoryModel(
            name=name,
            config=config,
            model_dir=place.filesystem.localise(place.path),
            versions=versions,
            labels=read_labels(config, place.filesystem, place.path),
            needs_auto_complete=self._auto_complete and not config.has_ensemble_scheduling,
            file_digests=_file_digests(directory, config_entry, versions),
            is_config_provided=written is not None,
            warnings=warnings + missing,
            files=None
            if remote is None
            else {v: version_files(remote, place.path, v) for v in versions},
            digest=b"" if remote is None else remote.digest,
        )
        if remote is not None:
            remote.confirm()
        return made

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


def _incomplete(place: _Place, versions: Iterable[int]) -> list[int]:
    """Return the versions that are being written or removed."""
    exists = place.filesystem.exists
    return [v for v in versions if exists(f"{place.path}/{v}/{INCOMPLETE_FILE}")]


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
