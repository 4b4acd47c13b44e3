# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""How much memory this process may use: that of the machine, or less where its cgroup says so.

Formats: Linux, Documentation/admin-guide/cgroup-v2.rst and cgroup-v1/memory.rst
"""

import contextlib
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import Final

# Where neither /proc nor a cgroup tells.
FALLBACK_BYTES: Final = 4 << 30


def usable_memory_bytes(root: Path = Path("/")) -> int:
    """Return the lowest of the machine's memory and the limits of all cgroups around this process.

    Args:
        root: The folder that holds ``proc`` and ``sys``.
    """
    found = [*_machine_bytes(root / "proc/meminfo"), *_cgroup_bytes(root)]
    return min(found, default=FALLBACK_BYTES)


def _machine_bytes(meminfo: Path) -> Iterator[int]:
    for line in _read(meminfo).splitlines():
        key, _, rest = line.partition(":")
        if key == "MemTotal":
            yield int(rest.split()[0]) * 1024


def _cgroup_bytes(root: Path) -> Iterator[int]:
    mount = root / "sys/fs/cgroup"
    for line in _read(root / "proc/self/cgroup").splitlines():
        number, controllers, path = line.split(":", 2)
        if number == "0":
            base, name = mount, "memory.max"
        elif "memory" in controllers.split(","):
            base, name = mount / "memory", "memory.limit_in_bytes"
        else:
            continue
        # A path of the host's view may not exist here; the mount itself is then our cgroup.
        relative = PurePosixPath(path.lstrip("/"))
        for folder in (relative, *relative.parents):
            limit = _read(base / folder / name).strip()
            if limit.isdigit():  # else "max"
                yield int(limit)


def _read(path: Path) -> str:
    with contextlib.suppress(OSError):
        return path.read_text()
    return ""
