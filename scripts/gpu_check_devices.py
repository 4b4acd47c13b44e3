# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Checks of gpu_check.py: what Manta reads of GPUs, beside what nvidia-smi and CUDA say."""

import ctypes
import os
import subprocess
import sys
from unittest import SkipTest

from gpu_check import CHILD_TIMEOUT_S, Driver, list_gpus

from cluster.devices.inventory import Inventory
from cluster.devices.nvml import read_nvml

QUERY = ("index", "uuid", "memory.total", "compute_cap", "mig.mode.current")
MIB = 1 << 20
ALLOCATED_MIB = 64
# What nvidia-smi rounds, and the driver keeps to itself.
SLACK_MIB = 1024
CHILD = """
import sys
from pathlib import Path
sys.path.insert(0, sys.argv[1])
from gpu_check import Driver
print(Driver().device_count())
"""


def inventory():
    """Compare every GPU and MIG device with what nvidia-smi shows."""
    found = read()
    differences = compare(found, list_gpus(), query())
    if differences:
        raise RuntimeError("; ".join(differences))
    return {
        gpu.uuid: {
            "memory_bytes": gpu.memory_bytes,
            "compute_capability": gpu.compute_capability,
            "numa_node": gpu.numa_node,
            "mig": [mig.profile for mig in gpu.mig_devices],
        }
        for gpu in found.gpus
    }


def read() -> Inventory:
    found = read_nvml()
    if not found.gpus:
        raise SkipTest("; ".join(found.problems) or "NVML sees no GPU")
    return found


def query():
    """Return rows of nvidia-smi, by UUID."""
    command = ["nvidia-smi", f"--query-gpu={','.join(QUERY)}", "--format=csv,noheader,nounits"]
    text = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True).stdout
    lines = [map(str.strip, line.split(",")) for line in text.splitlines()]
    rows = [dict(zip(QUERY, values, strict=True)) for values in lines]
    return {row["uuid"]: row for row in rows}


def compare(found, listed, rows):
    """Return what differs, one line each."""
    lines = []

    def same(what, ours, theirs):
        if ours != theirs:
            lines.append(f"{what}: Manta reads {ours}, nvidia-smi shows {theirs}")

    same(
        "GPUs",
        [(gpu.physical_index, gpu.name, gpu.uuid) for gpu in found.gpus],
        [(gpu["index"], gpu["name"], gpu["uuid"]) for gpu in listed],
    )
    for gpu, other in zip(found.gpus, listed, strict=False):
        parts = [(mig["profile"], mig["uuid"]) for mig in other["mig"]]
        same(f"MIG of {gpu.uuid}", [(m.profile, m.uuid) for m in gpu.mig_devices], parts)
        row = rows.get(gpu.uuid)
        if row is None:
            lines.append(f"{gpu.uuid}: nvidia-smi has no row")
            continue
        same(
            f"compute capability of {gpu.uuid}",
            ".".join(map(str, gpu.compute_capability)),
            row["compute_cap"],
        )
        same(f"MIG mode of {gpu.uuid}", gpu.is_mig, row["mig.mode.current"] == "Enabled")
        if abs(gpu.memory_bytes // MIB - int(row["memory.total"])) > SLACK_MIB:
            same(f"MiB of {gpu.uuid}", gpu.memory_bytes // MIB, int(row["memory.total"]))
    return lines


def gpu_memory():
    """Take memory of the first GPU and find this process there, with as much at least."""
    read()
    driver = Driver()
    if not driver.device_count():
        raise SkipTest("the driver sees no device")
    driver.use(0)
    pointer = ctypes.c_uint64()
    size = ctypes.c_size_t(ALLOCATED_MIB * MIB)
    driver.call("cuMemAlloc_v2", ctypes.byref(pointer), size)
    try:
        shares = {
            device.uuid: device.processes[os.getpid()]
            for gpu in read().gpus
            for device in gpu.devices
            if os.getpid() in device.processes
        }
    finally:
        driver.free(pointer)
    if not shares:
        raise SkipTest(
            "NVML does not know this process by its number, as in most containers: memory of models"
            " is not measured here, and admission goes by what devices have left"
        )
    if max(shares.values()) < ALLOCATED_MIB * MIB:
        raise RuntimeError(f"{ALLOCATED_MIB} MiB were taken, NVML says {shares}")
    return shares


def visible_by_uuid():
    """Have a process see each device alone, by its UUID, whatever this one sees."""
    seen = {}
    here = os.path.dirname(os.path.abspath(__file__))  # noqa: PTH100, PTH120 - a path for a child
    for gpu in read().gpus:
        for device in gpu.devices:
            child = subprocess.run(
                [sys.executable, "-c", CHILD, here],
                env={**os.environ, "CUDA_VISIBLE_DEVICES": device.uuid},
                capture_output=True,
                text=True,
                timeout=CHILD_TIMEOUT_S,
                check=False,
            )
            seen[device.uuid] = child.stdout.strip() or child.stderr.strip()[-200:]
    if set(seen.values()) != {"1"}:
        raise RuntimeError(f"a process sees other than one device: {seen}")
    return {"devices": len(seen)}
