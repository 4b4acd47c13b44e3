# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Reads a node's GPUs through NVML, NVIDIA's management library; needs the extra ``gpu``.

A machine without the package, the driver or a GPU has no GPUs, which is no error. A call that
fails costs what it was to tell. NVML is opened and closed at every reading, so that what was
plugged in, taken away or divided since is seen.
"""

import re
from collections.abc import Callable, Iterator
from importlib import import_module
from pathlib import Path
from typing import Any, Final

from cluster.devices.inventory import Gpu, Inventory, MigDevice

_MIG_ENABLED: Final = 1
_PROFILE_IN_NAME: Final = re.compile(r"\bMIG (\S+)$")
_MB: Final = 1 << 20
_GB: Final = 1 << 30


def read_nvml(nvml: Any = None, sys_folder: str = "/sys") -> Inventory:
    """Return the GPUs of NVIDIA; takes milliseconds, where the driver is not loaded a second.

    Args:
        nvml: The module ``pynvml``; None imports it.
        sys_folder: Where sysfs is.
    """
    if nvml is None:
        try:
            nvml = import_module("pynvml")  # an optional dependency
        except ImportError:
            return Inventory(problems=("the package nvidia-ml-py (extra 'gpu') is not installed",))
    try:
        nvml.nvmlInit()
    except nvml.NVMLError as error:
        return Inventory(problems=(f"NVML: {error}",))
    try:
        return _Reading(nvml, Path(sys_folder)).inventory()
    finally:
        _quiet(nvml, nvml.nvmlShutdown)


def _quiet(nvml: Any, call: Callable[[], object]) -> None:
    try:
        call()
    except nvml.NVMLError:
        return


class _Reading:
    """One reading; collects what went wrong."""

    def __init__(self, nvml: Any, sys_folder: Path) -> None:
        self._nvml = nvml
        self._sys = sys_folder
        self._problems: list[str] = []

    def inventory(self) -> Inventory:
        count = self._try("the number of GPUs", 0, self._nvml.nvmlDeviceGetCount)
        gpus = tuple(gpu for gpu in map(self._gpu, range(count)) if gpu is not None)
        return Inventory(gpus, tuple(self._problems))

    def _gpu(self, index: int) -> Gpu | None:
        nvml, what = self._nvml, f"GPU {index}"
        handle = self._try(what, None, nvml.nvmlDeviceGetHandleByIndex, index)
        uuid = "" if handle is None else self._try(what, "", nvml.nvmlDeviceGetUUID, handle)
        if not uuid:
            return None
        total, used = self._memory(handle)
        capability = self._ask((0, 0), nvml.nvmlDeviceGetCudaComputeCapability, handle)
        is_mig = self._ask([0, 0], nvml.nvmlDeviceGetMigMode, handle)[0] == _MIG_ENABLED
        return Gpu(
            index=index,
            physical_index=index,
            uuid=_text(uuid),
            name=_text(self._ask("", nvml.nvmlDeviceGetName, handle)),
            memory_bytes=total,
            used_bytes=used,
            compute_capability=(int(capability[0]), int(capability[1])),
            numa_node=self._numa_node(handle),
            is_mig=is_mig,
            mig_devices=tuple(self._mig_devices(handle, what)) if is_mig else (),
            # Of a GPU in MIG mode its parts tell.
            processes={} if is_mig else self._processes(handle),
        )

    def _mig_devices(self, handle: Any, what: str) -> Iterator[MigDevice]:
        nvml = self._nvml
        # Places, of which those that are not taken answer "not found".
        for place in range(self._ask(0, nvml.nvmlDeviceGetMaxMigDeviceCount, handle)):
            part = self._ask(None, nvml.nvmlDeviceGetMigDeviceHandleByIndex, handle, place)
            if part is None:
                continue
            uuid = self._try(f"MIG device {place} of {what}", "", nvml.nvmlDeviceGetUUID, part)
            if uuid:
                total, used = self._memory(part)
                yield MigDevice(
                    _text(uuid), self._profile(part), total, used, self._processes(part)
                )

    def _profile(self, part: Any) -> str:
        nvml = self._nvml
        named = _PROFILE_IN_NAME.search(_text(self._ask("", nvml.nvmlDeviceGetName, part)))
        if named:
            return named[1]
        # Drivers before 470 name the whole GPU only.
        attributes = self._ask(None, nvml.nvmlDeviceGetAttributes, part)
        if attributes is None:
            return ""
        slices, size = attributes.gpuInstanceSliceCount, attributes.memorySizeMB * _MB
        return f"{slices}g.{-(-size // _GB)}gb"

    def _memory(self, handle: Any) -> tuple[int, int | None]:
        memory = self._ask(None, self._nvml.nvmlDeviceGetMemoryInfo, handle)
        return (0, None) if memory is None else (int(memory.total), int(memory.used))

    def _processes(self, handle: Any) -> dict[int, int]:
        rows = self._ask([], self._nvml.nvmlDeviceGetComputeRunningProcesses, handle)
        # Some drivers list a process and do not say how much it has.
        return {int(row.pid): int(row.usedGpuMemory) for row in rows if row.usedGpuMemory}

    def _numa_node(self, handle: Any) -> int | None:
        node = self._ask(None, getattr(self._nvml, "nvmlDeviceGetNumaNodeId", None), handle)
        if node is not None:
            return int(node)
        pci = self._ask(None, self._nvml.nvmlDeviceGetPciInfo, handle)
        if pci is None:
            return None
        # NVML writes the domain with eight digits, sysfs with four.
        address = _text(pci.busId).lower()[-12:]
        try:
            number = int((self._sys / "bus/pci/devices" / address / "numa_node").read_text())
        except (OSError, ValueError):
            return None
        # -1: the machine has one node, or does not say.
        return number if number >= 0 else None

    def _ask(self, default: Any, call: Callable[..., Any] | None, *arguments: Any) -> Any:
        """Return what a call tells, which not every GPU or driver does."""
        if call is None:
            return default
        try:
            return call(*arguments)
        except self._nvml.NVMLError:
            return default

    def _try(self, what: str, default: Any, call: Callable[..., Any], *arguments: Any) -> Any:
        """As `_ask`, for what every GPU has to tell: a failure is a problem."""
        try:
            return call(*arguments)
        except self._nvml.NVMLError as error:
            self._problems.append(f"{what}: {error}")
            return default


def _text(value: str | bytes) -> str:
    return value.decode() if isinstance(value, bytes) else value
