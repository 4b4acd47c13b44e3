# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""The wall clock and the disk of a node; `tests.chaos.in_process` gives them to its processes."""

import mmap
import struct
from pathlib import Path
from typing import Final

# Found by every Python that has this folder on its path.
FOLDER: Final = Path(__file__).parent / "in_process"
_LAYOUT: Final = struct.Struct("=qq")


class Conditions:
    """What one node's processes see.

    Args:
        path: The file that they map.
        disks: Folders of which opening a file may be slow.
    """

    def __init__(self, path: Path, *disks: Path) -> None:
        self._path = path
        self._disks = disks
        path.write_bytes(_LAYOUT.pack(0, 0))
        with path.open("r+b") as file:
            self._values = mmap.mmap(file.fileno(), _LAYOUT.size)

    @property
    def environment(self) -> dict[str, str]:
        """What the node's processes have in their environment."""
        return {
            "MANTA_CHAOS_CONTROL": str(self._path),
            "MANTA_CHAOS_DISK": ":".join(f"{disk}/" for disk in self._disks),
        }

    def step_clock(self, step_s: int) -> None:
        """Set the wall clock so far ahead of the kernel's; negative: behind."""
        self._values[:8] = struct.pack("=q", step_s * 1_000_000_000)

    def slow_disk(self, delay_us: int) -> None:
        """Have opening a file take so much longer."""
        self._values[8:16] = struct.pack("=q", delay_us)
