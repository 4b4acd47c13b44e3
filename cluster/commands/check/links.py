# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Links of a model that lead out of its repository, or nowhere."""

import os
from collections.abc import Iterator
from pathlib import Path

from cluster.repository.filesystem import MAX_DEPTH


def leaving_links(directory: str, roots: tuple[str, ...]) -> Iterator[tuple[str, str]]:
    """Yield path and complaint of each link that leads out of all roots, or nowhere."""
    if not Path(directory).is_dir():
        return
    inside = [os.path.realpath(root) for root in roots]
    for path in _links(directory, MAX_DEPTH):
        target = os.path.realpath(path)
        if not Path(path).exists():
            yield path, f"the link leads nowhere: there is no '{target}'"
        elif not any(Path(target).is_relative_to(root) for root in inside):
            yield path, f"the link leads out of the repository, to '{target}'"


def _links(directory: str, depth: int) -> Iterator[str]:
    if Path(directory).is_symlink():
        yield directory
        return
    with os.scandir(directory) as entries:
        found = sorted(entries, key=lambda entry: entry.name)
    for entry in found:
        if entry.is_symlink():
            yield entry.path
        elif entry.is_dir(follow_symlinks=False) and depth > 0:
            yield from _links(entry.path, depth - 1)
