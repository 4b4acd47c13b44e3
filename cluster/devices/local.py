# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""The GPUs of the machine this process runs on."""

from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from cluster.devices.inventory import AMD, Gpu, Inventory
from cluster.devices.nvml import read_nvml

_VISIBLE: Final = b"CUDA_VISIBLE_DEVICES="
_TOPOLOGY: Final = "class/kfd/kfd/topology/nodes"


def read_local(nvml: Any = None, proc: str = "/proc", sys_folder: str = "/sys") -> Inventory:
    """Return the GPUs that the processes of this node's Ray may use; see `read_nvml`."""
    found = read_nvml(nvml, sys_folder)
    if found.gpus:
        return found.visible(_visible_at_start(proc))
    amd = read_amd(sys_folder)
    return replace(amd, problems=() if amd.gpus else found.problems)


def _visible_at_start(proc: str) -> str | None:
    """Return ``CUDA_VISIBLE_DEVICES`` as this process was started with, that is as Ray was.

    Ray changes the variable in its processes when work begins there.
    """
    try:
        entries = Path(proc, "self/environ").read_bytes().split(b"\0")
    except OSError:
        return None
    values = [entry.removeprefix(_VISIBLE) for entry in entries if entry.startswith(_VISIBLE)]
    return values[0].decode() if values else None


def read_amd(sys_folder: str = "/sys") -> Inventory:
    """Return the GPUs of AMD by what their driver has in sysfs; none where there is none.

    Nothing is planned with them: Ray chooses among them, and shows each process its own.
    """
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
                name=_text(folder / "name").strip(),
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


def _text(path: Path) -> str:
    try:
        return path.read_text()
    except OSError:
        return ""
