# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""What ``manta model add`` publishes: a version's files, and a config where one is needed."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from backends.api.errors import AlreadyExistsError, InvalidArgumentError
from backends.config.pbtxt import MAX_CONFIG_BYTES
from cluster.commands.publish.encrypting import decrypt_text, require_decrypt, sealed_names
from cluster.commands.publish.stored_models import StoredModel, decoded, find_stored
from cluster.commands.publish.targets import Content
from cluster.repository.configs import CONFIG_FILE
from cluster.repository.manifest import OWN_FILES
from cluster.repository.model_directory import check_model_name
from cluster.repository.model_formats import find_model
from cluster.repository.stores.contracts import Store
from cluster.repository.trees import files_below
from cluster.repository.version_policy import find_versions
from cluster.repository.written_config import config_text

_MAX_VERSION = 2**63 - 1


@dataclass(frozen=True, slots=True)
class Addition:
    """What is to be published.

    Attributes:
        title: What was found.
        files: By path in the version's directory.
        shared: By path in the model's directory.
        former: The model as it is there; None for a new one.
    """

    name: str
    version: int
    title: str
    files: Mapping[str, Content]
    shared: Mapping[str, Content] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    former: StoredModel | None = None


def plan_addition(
    store: Store,
    path: Path,
    name: str,
    version: int | None,
    *,
    next_version: bool,
    key_file: Path | None = None,
) -> Addition:
    """Look at a model and at where it goes.

    Args:
        store: The repository.
        path: The model's file or folder.
        name: What it is to be called.
        version: Its number; None for the next one, or for 1 of a new model.
        next_version: Whether the number is one above the newest.
        key_file: The key that the version's files are to be encrypted with; None leaves them plain.

    Raises:
        InvalidArgumentError: Name or number is none, the format is unknown, or a config does not
            say how to decrypt the files.
        AlreadyExistsError: There is such a version, or a number has to be chosen.
        TritonError: The repository cannot be listed.
    """
    _check_name(name)
    there = find_stored(store, name)
    versions = there.versions if there else ()
    source = _source_version(path)
    number = _number(name, versions, version, next_version=next_version)
    if source is not None:
        title, files, shared = _of_repository(path, source)
        notes: list[str] = []
    else:
        found = find_model(path)
        title, files, shared = found.format.title, dict(found.files), {}
        text = config_text(found, decrypt_text(key_file) if key_file else "")
        notes = []
        if text:
            shared = {CONFIG_FILE: text.encode()}
            if found.needs_tensors:
                notes.append(f"fill in inputs and outputs in {name}/{CONFIG_FILE}")
    if there is not None and shared:
        kept = sorted(shared.keys() & there.files.keys())
        shared = {key: content for key, content in shared.items() if key not in there.files}
        notes = [*(f"{name}/{each} is left as it is" for each in kept)]
    if key_file is not None:
        _require_decrypt(store, name, there, shared, key_file)
        files = sealed_names(files)
    return Addition(name, number, title, files, shared, tuple(notes), there)


def _require_decrypt(
    store: Store,
    name: str,
    there: StoredModel | None,
    shared: Mapping[str, Content],
    key_file: Path,
) -> None:
    where, content = f"{store.location}/{name}/{CONFIG_FILE}", shared.get(CONFIG_FILE, b"")
    if there is not None and CONFIG_FILE in there.files:
        content = store.read(f"{name}/{CONFIG_FILE}", 0, MAX_CONFIG_BYTES + 1)
    elif isinstance(content, Path):
        where, content = str(content), content.read_bytes()
    require_decrypt(decoded(content, where), where, key_file)


def _check_name(name: str) -> None:
    check_model_name(name)
    if name.startswith(".") or name != name.strip():
        raise InvalidArgumentError(
            f"invalid model name '{name}': it must not begin with a dot, and not begin or end with "
            "a space; hidden directories are no models"
        )
    try:
        name.encode()
    except UnicodeEncodeError:
        raise InvalidArgumentError(f"invalid model name {name!a}: it is not UTF-8") from None


def _number(name: str, versions: tuple[int, ...], wanted: int | None, *, next_version: bool) -> int:
    if wanted is not None and not 1 <= wanted <= _MAX_VERSION:
        raise InvalidArgumentError(f"version {wanted} must be from 1 to {_MAX_VERSION}")
    if wanted in versions:
        raise AlreadyExistsError(
            f"model '{name}' has a version {wanted}; use --next, or remove it first with 'manta "
            f"model rm {name} --version {wanted}'"
        )
    if wanted is not None:
        return wanted
    if versions and not next_version:
        listed = ", ".join(map(str, versions))
        raise AlreadyExistsError(
            f"model '{name}' has the versions {listed}; say which one this is with --version or "
            "--next"
        )
    if versions and versions[-1] == _MAX_VERSION:
        raise InvalidArgumentError(f"model '{name}' has version {_MAX_VERSION}, the last there is")
    return versions[-1] + 1 if versions else 1


def _source_version(path: Path) -> int | None:
    """Return the newest version in a folder that is a model of a repository; None if it is none."""
    if not path.is_dir():
        return None
    versions, _ = find_versions(each.name for each in path.iterdir() if each.is_dir())
    return versions[-1] if versions else None


def _of_repository(path: Path, version: int) -> tuple[str, dict[str, Content], dict[str, Content]]:
    files: dict[str, Content] = {}
    shared: dict[str, Content] = {}
    for relative in sorted(files_below(path)):
        top, slash, rest = relative.partition("/")
        if slash and top == str(version):
            # A framework's own file may have the name of a manifest, further down.
            if rest not in OWN_FILES:
                files[rest] = path / relative
        elif relative not in OWN_FILES and not (slash and find_versions([top])[0]):
            shared[relative] = path / relative
    if not files:
        raise InvalidArgumentError(
            f"version {version} of the model in '{path}' has no files; add what it is loaded from"
        )
    return f"version {version} of a model of a repository", files, shared
