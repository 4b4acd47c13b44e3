# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Imported by every Python of a node at its start: steps its wall clock and slows its disk.

What it does is read from a mapped file that ``MANTA_CHAOS_CONTROL`` names: two integers, how far
the clock is stepped in ns, and how long opening a file below ``MANTA_CHAOS_DISK`` takes in us.
Only Python's own clock is stepped: what Manta, Serve and models read. The native parts of Ray and
gRPC keep the kernel's, because they wait for absolute times of it.
"""

import mmap
import os
import struct
import sys
import time

_LAYOUT = struct.Struct("=qq")
_control = os.environ.get("MANTA_CHAOS_CONTROL")
_disks = tuple(filter(None, os.environ.get("MANTA_CHAOS_DISK", "").split(":")))


def _install(path: str) -> None:
    with open(path, "rb") as file:  # noqa: PTH123 - nothing is to be imported here
        values = mmap.mmap(file.fileno(), _LAYOUT.size, prot=mmap.PROT_READ)
    real_ns = time.time_ns

    def time_ns() -> int:
        return real_ns() + int(_LAYOUT.unpack(values)[0])

    def now_s() -> float:
        return time_ns() / 1e9

    def slow_down(event: str, arguments: tuple[object, ...]) -> None:
        if event == "open" and isinstance(arguments[0], str) and arguments[0].startswith(_disks):
            delay_us = _LAYOUT.unpack(values)[1]
            if delay_us:
                time.sleep(delay_us / 1e6)

    time.time = now_s
    time.time_ns = time_ns
    sys.addaudithook(slow_down)


if _control and os.path.exists(_control):  # noqa: PTH110 - nothing is to be imported here
    _install(_control)
