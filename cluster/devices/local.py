# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""The GPUs of the machine this process runs on."""

from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from cluster.devices.amd import read_amd
from cluster.devices.inventory import Inventory
from cluster.devices.nvml import read_nvml

_VISIBLE: Final = b"CUDA_VISIBLE_DEVICES="


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
