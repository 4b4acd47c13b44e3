# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""A CUDA driver whose GPUs' memory is host memory."""

from collections.abc import Sequence

from deployments.shared_memory.cuda_driver import CudaError, DeviceMemory


class HostDriver:
    """Several of one machine see the same allocations, as processes do.

    Args:
        allocations: What clients have allocated, by IPC handle.
        uuids: The GPUs the process sees.
    """

    def __init__(
        self, allocations: dict[bytes, bytearray], uuids: Sequence[str] = ("GPU-0", "GPU-1")
    ) -> None:
        self._allocations = allocations
        self._uuids = uuids
        self.opened: list[DeviceMemory] = []
        self.copied_bytes = 0

    def device_uuids(self) -> Sequence[str]:
        return self._uuids

    def open(self, device: int, handle: bytes) -> DeviceMemory:
        if handle not in self._allocations:
            raise CudaError("cuIpcOpenMemHandle: invalid argument")
        number = list(self._allocations).index(handle)
        memory = DeviceMemory(device, number, len(self._allocations[handle]))
        self.opened.append(memory)
        return memory

    def close(self, memory: DeviceMemory) -> None:
        self.opened.remove(memory)

    def copy_out(self, memory: DeviceMemory, offset: int, target: memoryview) -> None:
        end = offset + target.nbytes
        target[:] = self._bytes(memory)[offset:end]
        self.copied_bytes += target.nbytes

    def copy_in(self, memory: DeviceMemory, offset: int, source: memoryview) -> None:
        self._bytes(memory)[offset : offset + source.nbytes] = source

    def _bytes(self, memory: DeviceMemory) -> bytearray:
        assert memory in self.opened
        return list(self._allocations.values())[memory.address]
