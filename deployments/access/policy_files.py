# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Reads the files of an access policy: the policy, files of keys, JWK sets.

Paths in the policy are relative to its folder. A folder of keys is one as Kubernetes mounts a
Secret: names that begin with a dot are its own.
"""

import os
import stat
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from deployments.access.identity_sections import too_many_chosen
from deployments.access.keys import KeyRing
from deployments.access.policy import AccessPolicy, StoredKey
from deployments.access.policy_file import read_key_file, read_policy
from deployments.access.reading import PolicyError, policy_part
from deployments.access.signing_keys import SET_LIMIT_BYTES, SigningKeys, read_signing_keys
from deployments.settings.documents import Part, shown

_FILE_LIMIT_BYTES: Final = 8 << 20
_MOST_FILES: Final = 10_000

# By path, what changes when the file does; nothing of a file that is not there.
Stamp = tuple[tuple[str, tuple[int, ...]], ...]


@dataclass(frozen=True, slots=True)
class LoadedPolicy:
    """A policy with all that it names.

    Attributes:
        path: The policy file.
        policy: What it says; paths are absolute.
        keys: All API keys.
        signing_keys: Those read from files, by issuer.
        paths: Every file and folder that was read.
    """

    path: str
    policy: AccessPolicy
    keys: KeyRing
    signing_keys: Mapping[str, SigningKeys]
    paths: tuple[str, ...]


def load_policy(path: str) -> LoadedPolicy:
    """Read a policy file and the files that it names.

    Raises:
        InvalidArgumentError: One of them cannot be read or is wrong; the message names it.
    """
    policy = read_policy(_text(path), path)
    folder = Path(path).absolute().parent
    rules = policy.api_keys
    keys: list[StoredKey] = [] if rules is None else list(rules.keys)
    paths = [path]
    for file in _key_files(policy, folder, paths):
        keys += read_key_file(_text(str(file)), str(file), policy)
    root = policy_part(None, path)
    if error := too_many_chosen(keys):
        raise error.about(root)
    _check_hashes(root, keys)
    signing_keys = {}
    for issuer in policy.issuers:
        if issuer.jwks_file:
            file = folder / issuer.jwks_file
            paths.append(str(file))
            content = _bytes(str(file), SET_LIMIT_BYTES)
            signing_keys[issuer.issuer] = read_signing_keys(content, f"file '{file}'")
    return LoadedPolicy(path, policy, KeyRing(keys), signing_keys, tuple(paths))


def stamp_of(paths: tuple[str, ...]) -> Stamp:
    """Return what changes when any of some files does, those in folders among them.

    What a name leads to counts: Kubernetes changes a file by having a link lead elsewhere.
    """
    return tuple((name, _mark(name)) for path in paths for name in (path, *_inside(path)))


def _mark(path: str) -> tuple[int, ...]:
    try:
        found = os.stat(path)  # noqa: PTH116 - a name as it is
    except OSError:
        return ()
    return (found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns)


def _inside(folder: str) -> list[str]:
    if not Path(folder).is_dir():
        return []
    try:
        with os.scandir(folder) as entries:
            return sorted(each.path for each in entries if not each.name.startswith("."))
    except OSError:
        return []


def _key_files(policy: AccessPolicy, folder: Path, paths: list[str]) -> Iterator[Path]:
    """Return the files of keys, and note them among the paths that were read."""
    if policy.api_keys is None:
        return
    for name in policy.api_keys.files:
        paths.append(str(folder / name))
        yield folder / name
    for name in policy.api_keys.directories:
        place = folder / name
        paths.append(str(place))
        if not place.is_dir():
            raise PolicyError(
                f"access policy file '{place}' is no folder, expected one with files of API keys; "
                "create it, or fix 'authentication.api_keys.directory'"
            )
        files = [file for file in _inside(str(place)) if Path(file).is_file()]
        if len(files) > _MOST_FILES:
            raise PolicyError(
                f"access policy folder '{place}' has {len(files)} files, expected at most "
                f"{_MOST_FILES}; put several keys into a file"
            )
        yield from map(Path, files)


def _check_hashes(root: Part, keys: list[StoredKey]) -> None:
    seen: dict[object, StoredKey] = {}
    for key in keys:
        known = seen.setdefault(key.scrypt or key.digest, key)
        if known is not key:
            subjects = f"{shown(known.identity.subject)} and {shown(key.identity.subject)}"
            raise root.error(
                f"the hash of a key stands twice, for subjects {subjects}", "remove one of them"
            )


def _text(path: str) -> str:
    try:
        return _bytes(path, _FILE_LIMIT_BYTES).decode()
    except UnicodeDecodeError:
        raise PolicyError(f"access policy file '{path}' is not UTF-8; save it as UTF-8") from None


def _bytes(path: str, limit_bytes: int) -> bytes:
    """Return a file's content; nothing is waited for, as opening a pipe would.

    Raises:
        PolicyError: It cannot be read, is no file or is too large.
    """
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        with os.fdopen(descriptor, "rb") as file:
            if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                raise PolicyError(f"access policy file '{path}' is no file; name a file")
            content = file.read(limit_bytes + 1)
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or "its name is wrong"
        raise PolicyError(
            f"access policy file '{path}' cannot be read: {why}; each ingress reads it on its own"
            " node"
        ) from None
    if len(content) > limit_bytes:
        raise PolicyError(
            f"access policy file '{path}' is too large, expected at most {limit_bytes} bytes"
        )
    return content
