# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Memory, streams and graphs of a GPU: every CUDA call of this backend.

Over the runtime API of cuda-python (``cuda-bindings``), which TensorRT uses too.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final

from backends.api.errors import InternalError
from backends.framework.inputs import Array

_NON_BLOCKING: Final = 1  # cudaStreamNonBlocking
# Addresses that TensorRT gets are aligned so anyway; nothing is allocated with zero bytes.
_LEAST_BYTES: Final = 256


class Gpu:
    """One GPU and a stream on it, used by one thread.

    All methods raise InternalError when a call fails.

    Args:
        api: The module ``cuda.bindings.runtime``.
        device_id: The GPU, as this process counts them.
    """

    def __init__(self, api: Any, device_id: int) -> None:
        self._api = api
        self._device_id = device_id
        self._do("cudaSetDevice", device_id)
        self._stream: Any = None

    @property
    def compute_capability(self) -> str:
        """Its compute capability, ``9.0``."""
        attribute = self._api.cudaDeviceAttr
        major, minor = (
            self._do("cudaDeviceGetAttribute", which, self._device_id)
            for which in (
                attribute.cudaDevAttrComputeCapabilityMajor,
                attribute.cudaDevAttrComputeCapabilityMinor,
            )
        )
        return f"{major}.{minor}"

    @property
    def stream(self) -> int:
        """Handle of the stream."""
        return int(self._stream)

    def open_stream(self, priority: int) -> None:
        """Make the stream: of the highest priority for 1, the lowest for -1, else the default."""
        value = 0
        if priority:
            lowest, highest = self._do("cudaDeviceGetStreamPriorityRange")
            value = highest if priority > 0 else lowest
        self._stream = self._do("cudaStreamCreateWithPriority", _NON_BLOCKING, value)

    def allocate(self, size_bytes: int) -> int:
        """Return the address of new memory."""
        return int(self._do("cudaMalloc", max(size_bytes, _LEAST_BYTES)))

    def free(self, address: int) -> None:
        """Give memory back."""
        self._do("cudaFree", address)

    def copy_in(self, address: int, array: Array) -> None:
        """Begin to copy a contiguous array to the GPU; it must live until `synchronize`."""
        kind = self._api.cudaMemcpyKind.cudaMemcpyHostToDevice
        self._copy(address, array.ctypes.data, array.nbytes, kind)

    def copy_out(self, array: Array, address: int) -> None:
        """Begin to fill a contiguous array from the GPU; it is filled after `synchronize`."""
        kind = self._api.cudaMemcpyKind.cudaMemcpyDeviceToHost
        self._copy(array.ctypes.data, address, array.nbytes, kind)

    def _copy(self, to: int, source: int, size_bytes: int, kind: Any) -> None:
        if size_bytes:
            self._do("cudaMemcpyAsync", to, source, size_bytes, kind, self._stream)

    def synchronize(self) -> None:
        """Wait until all that was begun is done."""
        self._do("cudaStreamSynchronize", self._stream)

    def capture(self, work: Callable[[], None]) -> Any:
        """Return a graph of what ``work`` puts on the stream, which it does not execute."""
        mode = self._api.cudaStreamCaptureMode.cudaStreamCaptureModeThreadLocal
        self._do("cudaStreamBeginCapture", self._stream, mode)
        try:
            work()
        finally:
            graph = self._do("cudaStreamEndCapture", self._stream)
        try:
            return self._do("cudaGraphInstantiate", graph, 0)
        finally:
            self._do("cudaGraphDestroy", graph)

    def launch(self, graph: Any) -> None:
        """Begin to execute a graph."""
        self._do("cudaGraphLaunch", graph, self._stream)

    def drop(self, graph: Any) -> None:
        """Free a graph."""
        self._do("cudaGraphExecDestroy", graph)

    def close(self) -> None:
        """Destroy the stream."""
        if self._stream is not None:
            self._do("cudaStreamDestroy", self._stream)
            self._stream = None

    def _do(self, call: str, *arguments: Any) -> Any:
        status, *results = getattr(self._api, call)(*arguments)
        if int(status):
            _, text = self._api.cudaGetErrorString(status)
            reason = text.decode() if isinstance(text, bytes) else text
            raise InternalError(f"{call} failed on GPU {self._device_id}: {reason}")
        return results[0] if len(results) == 1 else results


@dataclass(slots=True)
class Buffers:
    """Memory of the GPU by the name of a tensor; grows and never shrinks.

    Attributes:
        gpu: Where it is.
        on_move: Called when a buffer gets another address.
    """

    gpu: Gpu
    on_move: Callable[[], None]
    _at: dict[str, tuple[int, int]] = field(default_factory=dict)

    def at_least(self, name: str, size_bytes: int) -> int:
        """Return the address of a buffer that holds as many bytes."""
        address, capacity = self._at.get(name, (0, -1))
        if size_bytes <= capacity:
            return address
        if address:
            del self._at[name]
            self.on_move()
            # It may be in use.
            self.gpu.synchronize()
            self.gpu.free(address)
        address = self.gpu.allocate(size_bytes)
        self._at[name] = (address, size_bytes)
        return address

    def close(self) -> None:
        """Free all of them."""
        for address, _ in self._at.values():
            self.gpu.free(address)
        self._at.clear()
