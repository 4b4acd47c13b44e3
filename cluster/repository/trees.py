# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Trees of files on this machine: what is below a directory, and copies of it.

Links are followed, as everywhere in a repository; a copy holds files and directories only.
"""

import os
import shutil
import stat
from collections.abc import Iterator
from pathlib import Path

from backends.api.errors import InternalError
from cluster.repository.filesystem import CACHE_DIRECTORY, MAX_DEPTH, MAX_ENTRIES
from cluster.repository.stores.local import LocalFileSystem


def files_below(directory: Path) -> Iterator[str]:
    """List all files below a directory, sorted within each; what Python caches is left out.

    Yields:
        Paths below ``directory``, with ``/``.

    Raises:
        InternalError: The tree is too deep or too large, or a directory cannot be read.
    """
    left = MAX_ENTRIES
    waiting = [("", MAX_DEPTH)]
    while waiting:
        prefix, depth = waiting.pop()
        entries = LocalFileSystem().entries(str(directory / prefix))
        left -= len(entries)
        if depth == 0 or left < 0:
            raise InternalError(
                f"directory {directory} has more than {MAX_DEPTH} levels or {MAX_ENTRIES} entries; "
                "remove links that lead back up"
            )
        for entry in entries:
            path = f"{prefix}{entry.name}"
            if not entry.is_directory:
                yield path
            elif entry.name != CACHE_DIRECTORY:
                waiting.append((f"{path}/", depth - 1))


def copy_tree(source: Path, target: Path, *, links: bool) -> None:
    """Copy a directory; what Python caches is left out.

    Args:
        source: Directory.
        target: Where to; not there yet. Only its owner may look into it.
        links: Whether hard links will do where the file system can: who uses the copy replaces
            files and never writes into one.

    Raises:
        InternalError: As `files_below`.
        OSError: The copy cannot be written.
    """
    target.mkdir(mode=0o700, parents=True)
    for version in _directories(source):
        (target / version).mkdir()
    for path in files_below(source):
        place = target / path
        place.parent.mkdir(parents=True, exist_ok=True)
        _copy_file((source / path).resolve(), place, links=links)


def _directories(source: Path) -> Iterator[str]:
    """List the directories directly below: an empty version is one, too."""
    for entry in LocalFileSystem().entries(str(source)):
        if entry.is_directory and entry.name != CACHE_DIRECTORY:
            yield entry.name


def _copy_file(source: Path, target: Path, *, links: bool) -> None:
    if links:
        try:
            os.link(source, target)
        except OSError:
            # Another file system, or another user's file.
            pass
        else:
            return
    shutil.copy2(source, target)
    # A node's cache has files that nobody may write; who gets a copy may.
    target.chmod(target.stat().st_mode | stat.S_IWUSR)
