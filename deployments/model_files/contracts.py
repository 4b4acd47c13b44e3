# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""What a version is loaded from, by names and digests, and where it can be read. Pure data."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Protocol, runtime_checkable

from backends.api.errors import UnavailableError
from backends.api.evolving import evolves


class FileChangedError(Exception):
    """A file is no longer the one that was listed: list again."""


class ModelChangedError(UnavailableError):
    """Files of a model changed while they were downloaded: list and load again."""


@dataclass(frozen=True, slots=True)
class ModelFile:
    """One file of a model.

    Attributes:
        path: Where it is below the model's directory, with ``/``.
        size_bytes: Its size.
        stamp: What the store says of its content: an etag, or a generation. Never empty.
        sha256: Hex digest of its content; empty where nobody has told.
    """

    path: str
    size_bytes: int
    stamp: str
    sha256: str = ""


@dataclass(frozen=True, slots=True)
class AgentCall:
    """A repository agent that a model's config names, with its parameters."""

    name: str
    parameters: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class ModelFiles:
    """All files that a version of a model is loaded from.

    Attributes:
        location: The model's directory as its repository has it (``s3://bucket/models/resnet``),
            without credentials.
        files: Them, sorted by path: those of the version's own directory and those that all
            versions share.
        agents: What makes of them what is loaded, in order.
    """

    location: str
    files: tuple[ModelFile, ...]
    agents: tuple[AgentCall, ...] = field(default=())

    @property
    def size_bytes(self) -> int:
        """Sum of all sizes."""
        return sum(file.size_bytes for file in self.files)

    def key(self) -> str:
        """Digest of all of it: equal keys are equal directories."""
        return digest_of_lines(
            [
                self.location,
                *(f"{f.path}={f.size_bytes}:{f.stamp}:{f.sha256}" for f in self.files),
                *(repr(agent) for agent in self.agents),
            ]
        )


evolves(ModelFile, AgentCall, ModelFiles)


class FileSource(Protocol):
    """Reads files of one model, from a store or from another node. Used from several threads."""

    def read(self, file: ModelFile, offset_bytes: int, length_bytes: int) -> bytes:
        """Read a part of a file; retries what is worth it. Blocks.

        Args:
            file: Which.
            offset_bytes: Where the part begins.
            length_bytes: Its length, within the file.

        Raises:
            FileChangedError: The file has another stamp by now, or is gone.
            UnavailableError: It cannot be read; the message says why and what to do.
        """


# Takes what comes next of a file, and where that begins in it, in bytes. It is not kept.
Write = Callable[[bytes, int], None]


@runtime_checkable
class StreamingSource(Protocol):
    """A `FileSource` that need not hold in memory what it is asked for."""

    def stream(self, file: ModelFile, offset_bytes: int, length_bytes: int, write: Write) -> int:
        """Read a part of a file, or as much of its beginning as comes at once. Blocks.

        Args:
            file: Which.
            offset_bytes: Where the part begins.
            length_bytes: Its length, within the file.
            write: Gets all that comes, in order and without gaps.

        Returns:
            How many bytes came.

        Raises:
            FileChangedError: The file has another stamp by now, or is gone.
            UnavailableError: It cannot be read; the message says why and what to do.
        """


# Opens the source of a model's location. May be slow: it imports the store's library.
OpenSource = Callable[[str], FileSource]


def digest_of_lines(lines: Iterable[str]) -> str:
    """Return a digest, in hex, that is equal where all lines are."""
    text = "\0".join(lines).encode("utf-8", "surrogateescape")
    return blake2b(text, digest_size=16).hexdigest()
