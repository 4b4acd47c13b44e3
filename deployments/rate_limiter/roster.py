# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Who has joined an arbiter, in a file that outlives it.

An arbiter that starts in place of one that died grants nothing until every process that had joined
the other has joined it too, and has said what it holds, or is dead.
"""

import json
from pathlib import Path

# A process and its start, in ticks of the kernel: numbers of processes are used again.
Entry = tuple[int, int]


def entry_of(pid: int) -> Entry | None:
    """Return a process's entry; None when it is dead."""
    try:
        status = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return None
    # The name, in parentheses, may hold anything; fields 3 and 22 are state and start.
    fields = status.rpartition(")")[2].split()
    return None if fields[0] in "ZX" else (pid, int(fields[19]))


class Roster:
    """The file.

    Args:
        path: Where it is, in a directory of this user's.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._entries: set[Entry] = set()

    def read_living(self) -> set[Entry]:
        """Return those in the file whose processes live; they stay in it."""
        try:
            rows = json.loads(self._path.read_text())
            entries = {(int(pid), int(start)) for pid, start in rows}
        except (OSError, ValueError, TypeError):
            return set()
        self._entries = {entry for entry in entries if entry_of(entry[0]) == entry}
        return set(self._entries)

    def add(self, entry: Entry) -> None:
        """Note that a process has joined."""
        self._entries.add(entry)
        self._write()

    def remove(self, entry: Entry) -> None:
        """Note that a process has left."""
        self._entries.discard(entry)
        self._write()

    def _write(self) -> None:
        # Renamed into place: whoever reads finds the one or the other, whole.
        draft = self._path.with_suffix(".new")
        draft.write_text(json.dumps(sorted(self._entries)))
        draft.replace(self._path)
