# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""The agent ``unpack``: archives become the files in them, in the archive's own directory.

Parameters: ``files``, patterns of the archives (default ``*.tar,*.tar.gz,*.tgz,*.zip``), and bounds
for all archives of the model together: ``max_bytes`` of what comes out, ``max_files``, and
``max_ratio``, how many times larger than the archives it may be.

An archive holds files and directories only: links, devices, names that lead out of the directory,
and names that are there already are refused.
"""

import errno
import gzip
import os
import stat
import struct
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, Final

from backends.api.errors import InvalidArgumentError
from cluster.repository.agents.contracts import Action, AgentModel
from cluster.repository.agents.parameters import check_parameters, matching, number
from cluster.repository.manifest import is_plain_path

_PATTERNS: Final = "*.tar,*.tar.gz,*.tgz,*.zip"
_MAX_BYTES: Final = 256 << 30
_MAX_FILES: Final = 10_000
_MAX_RATIO: Final = 200
# What any archive may come to, whatever its own size.
_FREE_BYTES: Final = 1 << 20
_PART_BYTES: Final = 256 << 10
_MAX_HEADER_BYTES: Final = 1 << 20
_MAX_HEADERS_BYTES: Final = 32 << 20
_METHODS: Final = frozenset({zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED})
_BROKEN: Final = (
    tarfile.TarError,
    zipfile.BadZipFile,
    gzip.BadGzipFile,
    zlib.error,
    EOFError,
    LookupError,
    NotImplementedError,
    OverflowError,
    RuntimeError,
    ValueError,
    struct.error,
)
# What a damaged archive makes the system say of places and names in it.
_BROKEN_CODES: Final = frozenset({None, errno.EINVAL, errno.ENAMETOOLONG})


@dataclass(frozen=True, slots=True)
class _Member:
    """One entry of an archive.

    Attributes:
        name: As the archive has it.
        kind: ``file``, ``directory``, or what else it is.
        is_executable: Whether its owner may run it.
        open: Reads its content.
    """

    name: str
    kind: str
    is_executable: bool
    open: Callable[[], IO[bytes] | None]


class UnpackAgent:
    """Unpacks archives; see the module."""

    changes_files = True
    replaces_files = True

    def act(self, action: Action, model: AgentModel) -> None:
        """See `RepositoryAgent`.

        Raises:
            InvalidArgumentError: A parameter is none, there is no archive, or one is broken, too
                large, or has an entry that is refused.
        """
        if action is not Action.LOAD:
            return
        check_parameters("unpack", model, {"files", "max_bytes", "max_files", "max_ratio"})
        archives = matching("unpack", model, model.parameters.get("files", _PATTERNS))
        packed_bytes = sum((model.directory / path).stat().st_size for path in archives)
        ratio = number("unpack", model, "max_ratio", _MAX_RATIO)
        bounds = _Bounds(
            number("unpack", model, "max_files", _MAX_FILES),
            number("unpack", model, "max_bytes", _MAX_BYTES),
            max(_FREE_BYTES, packed_bytes * ratio),
        )
        for path in archives:
            archive = model.directory / path
            try:
                _unpack(archive, bounds)
            except InvalidArgumentError as error:
                raise InvalidArgumentError(
                    f"archive '{path}' of model '{model.name}' cannot be unpacked: {error.message}"
                ) from error
            except (*_BROKEN, OSError) as error:
                if isinstance(error, OSError) and error.errno not in _BROKEN_CODES:
                    # The disk's fault, not the archive's.
                    raise
                raise InvalidArgumentError(
                    f"archive '{path}' of model '{model.name}' cannot be unpacked: it is broken, "
                    f"encrypted or of an unknown kind ({type(error).__name__}: {error})"
                ) from error
            archive.unlink()


class _Bounds:
    """What may still come out of the archives of a model.

    Args:
        entries: Files and directories.
        size_bytes: Content.
        ratio_bytes: Content, for the size of the archives.
    """

    def __init__(self, entries: int, size_bytes: int, ratio_bytes: int) -> None:
        self._entries = self._entries_left = entries
        self._size_bytes, self._ratio_bytes = size_bytes, ratio_bytes
        self.left_bytes = min(size_bytes, ratio_bytes)

    def count_entry(self) -> None:
        """Note one more entry."""
        self._entries_left -= 1
        if self._entries_left < 0:
            raise InvalidArgumentError(
                f"more than {self._entries} entries; raise the agent's parameter 'max_files' if "
                "that is as it should be"
            )

    def count_bytes(self, size_bytes: int) -> None:
        """Note content that comes out."""
        self.left_bytes -= size_bytes
        if self.left_bytes < 0:
            name = "max_ratio" if self._ratio_bytes < self._size_bytes else "max_bytes"
            raise InvalidArgumentError(
                f"more than {min(self._size_bytes, self._ratio_bytes)} bytes come out of it; raise "
                f"the agent's parameter '{name}' if that is as it should be"
            )


class _SmallReads:
    """A file for the tar module that refuses long headers, which that keeps in memory."""

    def __init__(self, file: IO[bytes] | gzip.GzipFile, limit_bytes: int) -> None:
        self._file = file
        self._left_bytes = limit_bytes
        self.seek, self.tell = file.seek, file.tell

    def read(self, size_bytes: int) -> bytes:
        """Read a part."""
        self._left_bytes -= size_bytes
        if size_bytes > _MAX_HEADER_BYTES or self._left_bytes < 0:
            raise InvalidArgumentError(
                "its headers are too large for its size; make the archive again"
            )
        return self._file.read(size_bytes)


def _unpack(archive: Path, bounds: _Bounds) -> None:
    is_zip = archive.suffix.lower() == ".zip"
    members = _zip_members(archive) if is_zip else _tar_members(archive, bounds)
    for member in members:
        bounds.count_entry()
        parts = _parts(member)
        if not parts:
            continue
        target = archive.parent.joinpath(*parts)
        try:
            if member.kind == "directory":
                target.mkdir(parents=True, exist_ok=True)
            else:
                target.parent.mkdir(parents=True, exist_ok=True)
                _write(member, target, bounds)
        except (FileExistsError, NotADirectoryError, IsADirectoryError):
            raise InvalidArgumentError(
                f"'{member.name[:200]}' is there already; remove it or take it out of the archive"
            ) from None


def _parts(member: _Member) -> list[str]:
    """Return where an entry goes; nothing for the archive's own directory."""
    shown = member.name[:200]
    if member.kind not in {"file", "directory"}:
        raise InvalidArgumentError(
            f"entry {shown!a} is a {member.kind}, only files and directories are unpacked; make the"
            " archive with links followed (tar --dereference)"
        )
    parts = [part for part in member.name.rstrip("/").split("/") if part != "."]
    if member.name in {".", "./"}:
        return []
    if not is_plain_path("/".join(parts)):
        raise InvalidArgumentError(
            f"entry {shown!a} leads out of the model's directory or is no plain UTF-8 path"
        )
    return parts


def _write(member: _Member, target: Path, bounds: _Bounds) -> None:
    mode = 0o700 if member.is_executable else 0o600
    descriptor = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, mode)
    with os.fdopen(descriptor, "wb") as file:
        content = member.open()
        if content is None:
            raise InvalidArgumentError(f"entry {member.name[:200]!a} has no content")
        with content:
            while part := content.read(_PART_BYTES):
                bounds.count_bytes(len(part))
                file.write(part)


def _zip_members(archive: Path) -> Iterator[_Member]:
    with zipfile.ZipFile(archive) as opened:
        for info in opened.infolist():
            if info.compress_type not in _METHODS:
                raise InvalidArgumentError(
                    f"entry {info.filename[:200]!a} is compressed by method {info.compress_type}, "
                    "expected none or deflate"
                )
            mode = info.external_attr >> 16
            kind = "directory" if info.is_dir() else "file"
            # Archives of other systems have no mode.
            if stat.S_IFMT(mode) not in {0, stat.S_IFREG, stat.S_IFDIR}:
                kind = "link" if stat.S_ISLNK(mode) else "device"
            yield _Member(
                info.filename,
                kind,
                bool(mode & stat.S_IXUSR),
                lambda info=info: opened.open(info),  # type: ignore[misc]
            )


def _tar_members(archive: Path, bounds: _Bounds) -> Iterator[_Member]:
    with archive.open("rb") as raw:
        is_gzip = raw.read(2) == b"\x1f\x8b"
        raw.seek(0)
        plain = gzip.GzipFile(fileobj=raw) if is_gzip else raw
        # Headers and padding come on top of what comes out.
        small: Any = _SmallReads(plain, 2 * bounds.left_bytes + _MAX_HEADERS_BYTES)
        with tarfile.open(fileobj=small, mode="r:") as opened:
            for info in opened:
                yield _Member(
                    info.name,
                    _kind(info),
                    bool(info.mode & stat.S_IXUSR),
                    lambda info=info: opened.extractfile(info),  # type: ignore[misc]
                )


def _kind(info: tarfile.TarInfo) -> str:
    if info.isreg():
        return "file"
    if info.isdir():
        return "directory"
    return "link" if info.issym() or info.islnk() else "device"


AGENT = UnpackAgent()
