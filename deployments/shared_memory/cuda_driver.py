# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Memory of GPUs that other processes share: every CUDA call Manta makes for it.

`CudaDriver` is what the rest asks for; `DriverApi` answers with cuda-python (``cuda-bindings``, the
extra ``cuda``), which is loaded when the first region is registered or used.

The driver's own API rather than the runtime's: it leaves the thread's current context, which
belongs to the model, as it was.

Triton: server/src/shared_memory_manager.cc OpenCudaIPCRegion @e1db8a6
"""

import ctypes
import os
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final, Protocol

import numpy as np

_VISIBLE: Final = "CUDA_VISIBLE_DEVICES"
_NOTHING_VISIBLE: Final = frozenset({"", "-1"})
_LAZY_PEER_ACCESS: Final = 1  # CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS
_NON_BLOCKING: Final = 1  # CU_STREAM_NON_BLOCKING


class CudaError(Exception):
    """A CUDA call failed; says which, and why."""


class CudaUnavailableError(CudaError):
    """CUDA cannot be used by this process; says what is missing and what to do."""


@dataclass(frozen=True, slots=True)
class DeviceMemory:
    """Memory of another process, opened here.

    Attributes:
        device: Number of the GPU, as this process counts them.
        address: Where it begins in the address space of this process.
        size_bytes: Bytes from there to the end of the allocation.
    """

    device: int
    address: int
    size_bytes: int


class CudaDriver(Protocol):
    """What shared memory asks of CUDA; every method raises `CudaError` when a call fails.

    Calls are made from any thread, one at a time.
    """

    def device_uuids(self) -> Sequence[str]:
        """Return the UUIDs of the GPUs this process sees, in the order it counts them."""

    def open(self, device: int, handle: bytes) -> DeviceMemory:
        """Open a ``cudaIpcMemHandle_t``."""

    def close(self, memory: DeviceMemory) -> None:
        """Undo `open` once."""

    def copy_out(self, memory: DeviceMemory, offset: int, target: memoryview) -> None:
        """Fill ``target`` from the GPU's memory; returns when it is filled."""

    def copy_in(self, memory: DeviceMemory, offset: int, source: memoryview) -> None:
        """Write ``source`` to the GPU's memory; returns when other processes can read it there."""


def load_driver() -> CudaDriver:
    """Return the driver of this process.

    Ray hides all GPUs from processes that have reserved none, such as the ingress and instances
    on the CPU. They see all of the node's here; one that has reserved some sees those.

    Raises:
        CudaUnavailableError: cuda-python, the driver or a GPU is missing.
    """
    try:
        from cuda.bindings import driver as api  # noqa: PLC0415 - an optional dependency
    except ImportError as error:
        raise CudaUnavailableError(
            f"cuda-python is not installed on this node ({error}); install manta-serve[cuda]"
        ) from None
    hidden = os.environ.get(_VISIBLE)
    if hidden in _NOTHING_VISIBLE:
        del os.environ[_VISIBLE]
    try:
        return DriverApi(api)
    finally:
        if hidden in _NOTHING_VISIBLE:
            os.environ[_VISIBLE] = hidden or ""


class DriverApi:
    """`CudaDriver` over cuda-python.

    Copies go through a stream of their own, so they wait for none of the model's work. A client has
    to have finished its own writes before it sends a request, as with Triton.

    Args:
        api: The module ``cuda.bindings.driver``.

    Raises:
        CudaUnavailableError: There is no driver or no GPU.
    """

    def __init__(self, api: Any) -> None:
        self._api = api
        # Context and stream by device.
        self._contexts: dict[int, tuple[Any, Any]] = {}
        try:
            self._call("cuInit", 0)
            count = int(self._call("cuDeviceGetCount"))
        except (CudaError, RuntimeError) as error:  # RuntimeError: libcuda.so.1 is not there
            raise CudaUnavailableError(
                f"the CUDA driver cannot be used on this node ({error}); Manta has to run where "
                f"nvidia-smi lists the GPU"
            ) from None
        if not count:
            raise CudaUnavailableError("the CUDA driver sees no GPU on this node")
        get_uuid = "cuDeviceGetUuid_v2" if hasattr(api, "cuDeviceGetUuid_v2") else "cuDeviceGetUuid"
        self._devices = [self._call("cuDeviceGet", each) for each in range(count)]
        self._uuids = tuple(
            f"GPU-{uuid.UUID(bytes=bytes(self._call(get_uuid, each).bytes))}"
            for each in self._devices
        )

    def device_uuids(self) -> Sequence[str]:
        """See `CudaDriver`."""
        return self._uuids

    def open(self, device: int, handle: bytes) -> DeviceMemory:
        """See `CudaDriver`."""
        raw = self._api.CUipcMemHandle()
        # Not every release of cuda-python lets the bytes be set in another way.
        ctypes.memmove(raw.getPtr(), handle, len(handle))
        with self._current(device):
            pointer = self._call("cuIpcOpenMemHandle", raw, _LAZY_PEER_ACCESS)
            try:
                base, size = self._call("cuMemGetAddressRange", pointer)
            except CudaError:
                self._call("cuIpcCloseMemHandle", pointer)
                raise
        address = int(pointer)
        return DeviceMemory(device, address, int(base) + int(size) - address)

    def close(self, memory: DeviceMemory) -> None:
        """See `CudaDriver`."""
        with self._current(memory.device):
            self._call("cuIpcCloseMemHandle", memory.address)

    def copy_out(self, memory: DeviceMemory, offset: int, target: memoryview) -> None:
        """See `CudaDriver`."""
        with self._current(memory.device) as stream:
            place = memory.address + offset
            self._call("cuMemcpyDtoHAsync", _address(target), place, target.nbytes, stream)
            self._call("cuStreamSynchronize", stream)

    def copy_in(self, memory: DeviceMemory, offset: int, source: memoryview) -> None:
        """See `CudaDriver`."""
        with self._current(memory.device) as stream:
            place = memory.address + offset
            self._call("cuMemcpyHtoDAsync", place, _address(source), source.nbytes, stream)
            self._call("cuStreamSynchronize", stream)

    @contextmanager
    def _current(self, device: int) -> Iterator[Any]:
        """Make a device's primary context current for a while; yields the stream of copies."""
        found = self._contexts.get(device)
        context = (
            found[0] if found else self._call("cuDevicePrimaryCtxRetain", self._devices[device])
        )
        self._call("cuCtxPushCurrent", context)
        try:
            if found is None:
                found = context, self._call("cuStreamCreate", _NON_BLOCKING)
                self._contexts[device] = found
            yield found[1]
        finally:
            self._call("cuCtxPopCurrent")

    def _call(self, name: str, *arguments: Any) -> Any:
        status, *values = getattr(self._api, name)(*arguments)
        if status != 0:
            raise CudaError(f"{name}: {self._text(status)}")
        return values[0] if len(values) == 1 else values

    def _text(self, status: Any) -> str:
        found, text = self._api.cuGetErrorString(status)
        return f"error {int(status)}" if found != 0 else bytes(text).decode()


def _address(view: memoryview) -> int:
    return int(np.frombuffer(view, np.uint8).ctypes.data)
