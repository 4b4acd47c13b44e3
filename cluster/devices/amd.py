# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Counts and names the GPUs of AMD, from what their driver has in sysfs (``/sys/class/kfd``).

Nothing is planned with them: Ray chooses among them, and shows each process its own.
"""

from pathlib import Path
from typing import Final

from cluster.devices.inventory import AMD, Gpu, Inventory

_TOPOLOGY: Final = "class/kfd/kfd/topology/nodes"


def read_amd(sys_folder: str = "/sys") -> Inventory:
    """Return the GPUs of AMD; none where there is no such driver."""
    try:
        folders = sorted(Path(sys_folder, _TOPOLOGY).iterdir(), key=lambda folder: folder.name)
    except OSError:
        return Inventory()
    gpus: list[Gpu] = []
    for folder in folders:
        facts = _facts(folder / "properties")
        # The topology has processors too.
        if not facts.get("simd_count"):
            continue
        index = len(gpus)
        gpus.append(
            Gpu(
                index=index,
                physical_index=index,
                uuid=f"GPU-{facts.get('unique_id', 0):x}",
                name=_line(folder / "name"),
                memory_bytes=sum(
                    _facts(bank / "properties").get("size_in_bytes", 0)
                    for bank in (folder / "mem_banks").glob("*")
                ),
                vendor=AMD,
            )
        )
    return Inventory(tuple(gpus))


def _facts(path: Path) -> dict[str, int]:
    facts = {}
    for line in _text(path).splitlines():
        key, _, value = line.partition(" ")
        if value.strip().isdecimal():
            facts[key] = int(value)
    return facts


def _line(path: Path) -> str:
    return _text(path).strip()


def _text(path: Path) -> str:
    try:
        return path.read_text()
    except OSError:
        return ""
