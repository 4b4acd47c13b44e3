# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""One model's directory as a repository has it now: its entries, and digests of what is in them."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from backends.api.errors import InternalError, InvalidArgumentError, TritonError
from cluster.repository.filesystem import (
    CACHE_DIRECTORY,
    DirectoryEntry,
    FileSystem,
    reason_of,
    tree_digest,
)
from cluster.repository.manifest import MANIFEST_FILE
from deployments.model_files.contracts import digest_of_lines


@dataclass(frozen=True, slots=True)
class Place:
    """A directory in one of the repositories."""

    filesystem: FileSystem
    path: str


class ModelDirectory:
    """A model's directory, of which each entry is listed and digested at most once.

    Raises:
        InternalError: It cannot be listed.
    """

    def __init__(self, name: str, place: Place) -> None:
        self.name = name
        self.place = place
        self.entries = place.filesystem.entries(place.path)
        self._digests: dict[str, str] = {}

    def digest(self) -> str:
        """Digest all files, the config included.

        Raises:
            InternalError: The directory cannot be read; the message says why.
        """
        with polling(self.name):
            return digest_of_lines(self.lines(lambda _: True))

    def lines(self, is_wanted: Callable[[DirectoryEntry], bool]) -> list[str]:
        """Return name and digest of the entries that are wanted; never what Python caches.

        Raises:
            InternalError: A directory cannot be read, or is too deep or too large.
        """
        return [
            f"{entry.name}={self.digest_of(entry)}"
            for entry in self.entries
            if entry.name != CACHE_DIRECTORY and is_wanted(entry)
        ]

    def digest_of(self, entry: DirectoryEntry) -> str:
        """Digest one entry; a directory with all that is in it."""
        if not entry.is_directory:
            return entry.stamp
        if entry.name not in self._digests:
            path = f"{self.place.path}/{entry.name}"
            self._digests[entry.name] = tree_digest(self.place.filesystem, path)
        return self._digests[entry.name]


@contextmanager
def polling(name: str) -> Iterator[None]:
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


def first_version(place: Place, entries: Sequence[DirectoryEntry]) -> dict[str, bool] | None:
    """List the lexicographically first version directory, else the first directory of all."""
    directories = [entry.name for entry in entries if entry.is_directory]
    numeric = [name for name in directories if name.isascii() and name.isdigit()]
    for name in numeric or directories:
        listed = place.filesystem.entries(f"{place.path}/{name}")
        return {entry.name: entry.is_directory for entry in listed}
    return None


def file_digests(
    directory: ModelDirectory, config_entry: str, versions: Sequence[int]
) -> dict[int, str]:
    """Digest each version's directory together with what all versions share."""

    def is_shared(entry: DirectoryEntry) -> bool:
        return entry.name != config_entry and not entry.name.isdigit()

    # The path is part of it: a directory made for a load never equals the repository's.
    shared = [directory.place.path, *directory.lines(is_shared)]
    by_name = {entry.name: entry for entry in directory.entries}
    return {
        version: digest_of_lines([*shared, directory.digest_of(by_name[str(version)])])
        for version in versions
    }


def has_manifest(directory: ModelDirectory) -> bool:
    """Whether a manifest lies in the model's directory, or in that of a version."""
    place = directory.place
    return any(
        place.filesystem.exists(f"{place.path}/{entry.name}/{MANIFEST_FILE}")
        if entry.is_directory and entry.name.isdigit()
        else entry.name == MANIFEST_FILE
        for entry in directory.entries
    )
