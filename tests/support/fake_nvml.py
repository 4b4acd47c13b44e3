# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
# ruff: noqa: N802 - NVML's names
"""A stand-in for the module ``pynvml``: GPUs as a test describes them, and calls that fail."""

from collections.abc import Callable
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any, Final

GB = 1 << 30


class NVMLError(Exception):
    """As ``pynvml.NVMLError``."""


@dataclass
class FakeMig:
    """A MIG device."""

    uuid: str
    name: str = "NVIDIA A100-SXM4-80GB MIG 1g.10gb"
    total: int = 10 * GB
    used: int = 0
    processes: dict[int, int | None] = field(default_factory=dict)
    slices: int = 1


@dataclass
class FakeGpu:
    """A GPU; ``mig`` has its MIG devices by place, and is None while MIG mode is off."""

    uuid: str
    name: str = "NVIDIA A100-SXM4-80GB"
    total: int = 80 * GB
    used: int = GB
    capability: tuple[int, int] = (8, 0)
    bus_id: str = "00000000:3B:00.0"
    numa_node: int | None = None
    mig: dict[int, FakeMig] | None = None
    processes: dict[int, int | None] = field(default_factory=dict)


# By call, what it answers of a handle.
_READ: Final[dict[str, Callable[[Any], Any]]] = {
    "nvmlDeviceGetUUID": lambda device: device.uuid,
    "nvmlDeviceGetName": lambda device: device.name,
    "nvmlDeviceGetMemoryInfo": lambda device: SimpleNamespace(
        total=device.total, free=device.total - device.used, used=device.used
    ),
    "nvmlDeviceGetCudaComputeCapability": lambda device: device.capability,
    "nvmlDeviceGetPciInfo": lambda device: SimpleNamespace(busId=device.bus_id),
    "nvmlDeviceGetMigMode": lambda device: [int(device.mig is not None)] * 2,
    "nvmlDeviceGetMaxMigDeviceCount": lambda device: 7,
    "nvmlDeviceGetAttributes": lambda device: SimpleNamespace(
        gpuInstanceSliceCount=device.slices, memorySizeMB=device.total // (1 << 20) - 200
    ),
    "nvmlDeviceGetComputeRunningProcesses": lambda device: [
        SimpleNamespace(pid=pid, usedGpuMemory=used) for pid, used in device.processes.items()
    ],
}


class FakeNvml:
    """The module.

    Attributes:
        gpus: What there is; may change between readings.
        failing: Names of calls that fail, or of a call and a UUID: ``call:uuid``.
        open_count: How often it was opened and not closed.
    """

    NVMLError = NVMLError

    def __init__(self, *gpus: FakeGpu, failing: tuple[str, ...] = ()) -> None:
        self.gpus = list(gpus)
        self.failing = set(failing)
        self.open_count = 0

    def nvmlInit(self) -> None:
        self._may_fail("nvmlInit")
        self.open_count += 1

    def nvmlShutdown(self) -> None:
        self._may_fail("nvmlShutdown")
        self.open_count -= 1

    def nvmlDeviceGetCount(self) -> int:
        self._may_fail("nvmlDeviceGetCount")
        return len(self.gpus)

    def nvmlDeviceGetHandleByIndex(self, index: int) -> Any:
        gpu = self.gpus[index]
        self._may_fail("nvmlDeviceGetHandleByIndex", gpu)
        return gpu

    def __getattr__(self, call: str) -> Any:
        """Return a call that reads something of a GPU or a MIG device."""
        if call not in _READ:
            raise AttributeError(call)

        def read(handle: Any, version: int | None = None) -> Any:
            self._may_fail(call, handle)
            return _READ[call](handle)

        return read

    def __dir__(self) -> list[str]:
        return [*super().__dir__(), *_READ]

    def nvmlDeviceGetNumaNodeId(self, handle: Any) -> int:
        self._may_fail("nvmlDeviceGetNumaNodeId", handle)
        if handle.numa_node is None:
            raise NVMLError("Not Supported")
        return int(handle.numa_node)

    def nvmlDeviceGetMigDeviceHandleByIndex(self, device: Any, index: int) -> Any:
        self._may_fail("nvmlDeviceGetMigDeviceHandleByIndex", device)
        if index not in device.mig:
            raise NVMLError("Not Found")
        return device.mig[index]

    def _may_fail(self, call: str, handle: Any = None) -> None:
        uuid = "" if handle is None else handle.uuid
        if call in self.failing or f"{call}:{uuid}" in self.failing:
            raise NVMLError("Unknown Error")
