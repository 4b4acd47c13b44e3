# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Directories that models are loaded from: hard links of blobs under the names models know."""

import os
from collections.abc import Iterable
from itertools import pairwise
from pathlib import Path, PurePosixPath

from backends.api.errors import InvalidArgumentError
from deployments.model_files.contracts import ModelFile, ModelFiles


def require_safe_paths(files: ModelFiles) -> None:
    """Require that no file leads out of its model's directory, or is in another's place.

    Raises:
        InvalidArgumentError: One does; the message names it.
    """
    paths = [file.path for file in files.files]
    for path in paths:
        if not _is_safe(path):
            raise InvalidArgumentError(
                f"file {path!r} of '{files.location}' cannot be a model's: expected a relative "
                "path with '/' between plain names, without '.', '..' and backslashes; rename it"
            )
    ordered = sorted(PurePosixPath(path).parts for path in paths)
    for shorter, longer in pairwise(ordered):
        if longer[: len(shorter)] == shorter:
            raise InvalidArgumentError(
                f"file '{'/'.join(shorter)}' of '{files.location}' is there twice, or is a "
                f"directory too: '{'/'.join(longer)}'; remove one"
            )


def link(blob: Path, directory: Path, file: ModelFile) -> None:
    """Link a blob where a file of a model belongs."""
    path = directory / file.path
    path.parent.mkdir(parents=True, exist_ok=True)
    path.unlink(missing_ok=True)
    os.link(blob, path)


def lacking(directory: Path, files: Iterable[ModelFile]) -> list[ModelFile]:
    """Return the files that a directory does not have yet."""
    return [file for file in files if not (directory / file.path).exists()]


def inodes_of(directory: Path) -> dict[int, int]:
    """Return the sizes in bytes of all files below a directory, by inode."""
    found: dict[int, int] = {}
    for folder, _, names in os.walk(directory):
        for name in names:
            status = os.lstat(os.path.join(folder, name))  # noqa: PTH118 - ten thousands of files
            found[status.st_ino] = status.st_size
    return found


def _is_safe(path: str) -> bool:
    if not path or "\0" in path or "\\" in path:
        return False
    return all(name not in {"", ".", ".."} for name in path.split("/"))
