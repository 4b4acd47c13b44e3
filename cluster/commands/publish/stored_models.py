# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""The models of a repository in any store, as a listing of its files tells of them."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import groupby

from backends.api.errors import InvalidArgumentError, NotFoundError, TritonError
from backends.api.model_config import ModelConfig
from backends.config.normalisation import infer_backend, normalise_defaults
from backends.config.pbtxt import MAX_CONFIG_BYTES, edit, empty_config, parse_pbtxt
from backends.registry import backend_name
from cluster.repository.configs import CONFIG_FILE
from cluster.repository.manifest import (
    MANIFEST_FILE,
    MAX_MANIFEST_BYTES,
    OWN_FILES,
    Manifest,
    parse_manifest,
)
from cluster.repository.model_directory import check_model_name
from cluster.repository.repository import INCOMPLETE_FILE
from cluster.repository.stores.contracts import Store, StoredFile
from cluster.repository.version_policy import find_versions


@dataclass(frozen=True, slots=True)
class StoredModel:
    """A model.

    Attributes:
        name: Its name.
        files: All its files, by path below its directory.
    """

    name: str
    files: Mapping[str, StoredFile]

    @property
    def versions(self) -> tuple[int, ...]:
        """Numbers of its versions, ascending."""
        return find_versions({path.partition("/")[0] for path in self.files if "/" in path})[0]

    @property
    def size_bytes(self) -> int:
        """Sum of all files."""
        return sum(file.size_bytes for file in self.files.values())

    def version(self, number: int) -> dict[str, StoredFile]:
        """Return the files of a version, by path below its directory."""
        prefix = f"{number}/"
        return {
            path.removeprefix(prefix): file
            for path, file in self.files.items()
            if path.startswith(prefix)
        }

    @property
    def shared(self) -> dict[str, StoredFile]:
        """The files that are of no version."""
        numbers = {str(number) for number in self.versions}
        return {
            path: file
            for path, file in self.files.items()
            if "/" not in path or path.partition("/")[0] not in numbers
        }


def list_models(store: Store) -> Iterator[StoredModel]:
    """Yield the models of a repository, by name.

    Raises:
        TritonError: The repository cannot be listed.
    """
    files = (file for file in store.find() if "/" in file.path and not file.path.endswith("/"))
    for name, own in groupby(files, lambda file: file.path.partition("/")[0]):
        if not name.startswith("."):
            yield StoredModel(name, {each.path.partition("/")[2]: each for each in own})


def find_stored(store: Store, name: str) -> StoredModel | None:
    """Return a model; None when there is none.

    Raises:
        InvalidArgumentError: The name is no name.
        TritonError: The repository cannot be listed.
    """
    check_model_name(name)
    try:
        found = [file for file in store.find(f"{name}/") if not file.path.endswith("/")]
    except NotFoundError:
        return None
    return StoredModel(name, {f.path.removeprefix(f"{name}/"): f for f in found}) if found else None


def require_stored(store: Store, name: str) -> StoredModel:
    """Return a model.

    Raises:
        NotFoundError: There is none of this name.
        TritonError: As `find_stored`.
    """
    model = find_stored(store, name)
    if model is None:
        raise NotFoundError(f"there is no model '{name}' in {store.location}")
    return model


def require_version(store: Store, model: StoredModel, version: int | None) -> int:
    """Return a version of a model, the newest for None.

    Raises:
        NotFoundError: It has none, or not this one.
    """
    versions = model.versions
    if version is None and versions:
        return versions[-1]
    if version in versions and version is not None:
        return version
    what = "version" if version is None else f"version {version}"
    listed = ", ".join(map(str, versions)) or "none"
    raise NotFoundError(f"model '{model.name}' in {store.location} has no {what}; it has {listed}")


def config_of(store: Store, model: StoredModel) -> tuple[ModelConfig, str]:
    """Return a model's config with its defaults, and its text; empty when it has none.

    Raises:
        TritonError: It cannot be read, or nothing tells the backend.
    """
    path = f"{model.name}/{CONFIG_FILE}"
    text = ""
    if CONFIG_FILE in model.files:
        text = decoded(store.read(path, 0, MAX_CONFIG_BYTES + 1), path)
    config = parse_pbtxt(text, path) if text else empty_config(model.name)
    if not config.name:
        config = edit(config, lambda message: setattr(message, "name", model.name))
    listing: dict[str, bool] = {}
    for version in model.versions[:1]:
        for file in model.version(version):
            top, slash, _ = file.partition("/")
            listing[top] = bool(slash)
    return normalise_defaults(infer_backend(config, listing)), text


def decoded(content: bytes, path: str) -> str:
    """Return the text of a config; raises InvalidArgumentError where it is none."""
    try:
        return content.decode()
    except UnicodeDecodeError as error:
        raise InvalidArgumentError(f"{path}: byte {error.start} is not UTF-8") from None


def backend_of(store: Store, model: StoredModel) -> str:
    """Return what runs a model, ``?`` when nothing tells."""
    try:
        config, _ = config_of(store, model)
    except TritonError:
        return "?"
    return backend_name(config.backend, config.platform)


def manifest_of(store: Store, model: StoredModel, version: int) -> Manifest | None:
    """Return the manifest of a version; None when it has none.

    Raises:
        TritonError: It cannot be read.
    """
    if MANIFEST_FILE not in model.version(version):
        return None
    content = store.read(f"{model.name}/{version}/{MANIFEST_FILE}", 0, MAX_MANIFEST_BYTES + 1)
    return parse_manifest(content, f"of version {version} of model '{model.name}'")


def state_of(store: Store, model: StoredModel, version: int) -> str:
    """Say how the files of a version, by names and sizes, compare with its manifest."""
    files = model.version(version)
    if INCOMPLETE_FILE in files:
        return "incomplete"
    try:
        manifest = manifest_of(store, model, version)
    except TritonError:
        return "unreadable"
    if manifest is None:
        return "none"
    there = {path: file.size_bytes for path, file in files.items() if path not in OWN_FILES}
    listed = {path: file.size_bytes for path, file in manifest.files.items()}
    return "complete" if there == listed else "differs"
