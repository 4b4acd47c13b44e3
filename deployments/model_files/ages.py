# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""When what is in a cache was used last, which is the time of change of its directory or file.

What was prefetched and never used has the oldest time there is, so that it leaves first. With its
first use its files get a time of today: what loads them may not take one before 1980, as zip files.
"""

import os
import time
from pathlib import Path
from typing import Final

_NEVER_NS: Final = 0


def note_never_used(path: Path) -> None:
    """Have a directory or file leave before all that was ever used."""
    os.utime(path, ns=(_NEVER_NS, _NEVER_NS))


def note_use(tree: Path) -> None:
    """Note that a directory of a model is used now."""
    if tree.stat().st_mtime_ns == _NEVER_NS:
        for path in tree.rglob("*"):
            note_file_use(path)
    _touch(tree)


def note_file_use(path: Path) -> None:
    """Note the first use of a file; its later ones are those of the directories that have it."""
    if path.stat().st_mtime_ns == _NEVER_NS:
        _touch(path)


def _touch(path: Path) -> None:
    # The kernel's own stamps are as coarse as its ticks.
    now_ns = time.time_ns()
    os.utime(path, ns=(now_ns, now_ns))
