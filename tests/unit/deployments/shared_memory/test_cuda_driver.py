# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Claims about the calls made to cuda-python, which stands on host memory here."""

import ctypes
import os
import sys
from typing import Any

import pytest

from deployments.shared_memory.cuda_driver import (
    CudaError,
    CudaUnavailableError,
    DriverApi,
    load_driver,
)

HANDLE = bytes(range(64))
SIZE = 256


class Bytes:
    """CUipcMemHandle and CUuuid."""

    def __init__(self, content: bytes) -> None:
        self._buffer = ctypes.create_string_buffer(content, len(content))

    def getPtr(self) -> int:  # noqa: N802 - cuda-python's name
        return ctypes.addressof(self._buffer)

    @property
    def bytes(self) -> bytes:
        return self._buffer.raw


class HostApi:
    """``cuda.bindings.driver`` with two GPUs; every call of a device needs its context."""

    def __init__(self, count: int = 2, *, init_status: int = 0) -> None:
        self.memory = ctypes.create_string_buffer(bytes(range(SIZE)), SIZE)
        self.count = count
        self.init_status = init_status
        self.contexts: list[int] = []
        self.visible: str | None = None
        self.streams = 0
        self.open_count = 0
        self.waiting: list[Any] = []

    def cuInit(self, flags: int) -> tuple[int]:  # noqa: N802
        assert flags == 0
        self.visible = os.environ.get("CUDA_VISIBLE_DEVICES")
        return (self.init_status,)

    def cuDeviceGetCount(self) -> tuple[int, int]:  # noqa: N802
        return 0, self.count

    def cuDeviceGet(self, number: int) -> tuple[int, int]:  # noqa: N802
        return 0, number

    def cuDeviceGetUuid(self, device: int) -> tuple[int, Bytes]:  # noqa: N802
        return 0, Bytes(bytes([device]) * 16)

    def cuGetErrorString(self, status: int) -> tuple[int, bytes]:  # noqa: N802
        return (0, b"invalid argument") if status == 1 else (1, b"")

    def cuDevicePrimaryCtxRetain(self, device: int) -> tuple[int, int]:  # noqa: N802
        return 0, 1000 + device

    def cuCtxPushCurrent(self, context: int) -> tuple[int]:  # noqa: N802
        self.contexts.append(context)
        return (0,)

    def cuCtxPopCurrent(self) -> tuple[int, int]:  # noqa: N802
        return 0, self.contexts.pop()

    def cuStreamCreate(self, flags: int) -> tuple[int, int]:  # noqa: N802
        self.streams += 1
        return 0, self.contexts[-1] + flags

    def cuStreamSynchronize(self, stream: int) -> tuple[int]:  # noqa: N802
        assert stream == self.contexts[-1] + 1
        for target, source, size in self.waiting:
            ctypes.memmove(target, source, size)
        self.waiting.clear()
        return (0,)

    def CUipcMemHandle(self) -> Bytes:  # noqa: N802
        return Bytes(bytes(64))

    def cuIpcOpenMemHandle(self, handle: Bytes, flags: int) -> tuple[int, int]:  # noqa: N802
        assert (self.contexts[-1] >= 1000, flags) == (True, 1)
        if handle.bytes != HANDLE:
            return 1, 0
        self.open_count += 1
        return 0, ctypes.addressof(self.memory)

    def cuIpcCloseMemHandle(self, address: int) -> tuple[int]:  # noqa: N802
        assert address == ctypes.addressof(self.memory)
        self.open_count -= 1
        return (0,)

    def cuMemGetAddressRange(self, address: int) -> tuple[int, int, int]:  # noqa: N802
        return 0, address, SIZE

    def cuMemcpyDtoHAsync(  # noqa: N802
        self, target: int, source: int, size: int, stream: int
    ) -> tuple[int]:
        assert stream == self.contexts[-1] + 1
        self.waiting.append((target, source, size))
        return (0,)

    cuMemcpyHtoDAsync = cuMemcpyDtoHAsync  # noqa: N815


def test_memory_of_another_process_is_read_and_written_in_its_gpus_context() -> None:
    api = HostApi()
    driver = DriverApi(api)
    assert driver.device_uuids() == (
        "GPU-00000000-0000-0000-0000-000000000000",
        "GPU-01010101-0101-0101-0101-010101010101",
    )
    memory = driver.open(1, HANDLE)
    assert memory.size_bytes == SIZE
    target = bytearray(4)
    driver.copy_out(memory, 16, memoryview(target))
    driver.copy_in(memory, 32, memoryview(b"wxyz"))
    assert (bytes(target), api.memory.raw[32:36]) == (bytes(range(16, 20)), b"wxyz")
    driver.close(memory)
    assert (api.open_count, api.streams, api.contexts) == (0, 1, [])


def test_a_failed_call_names_itself_and_restores_the_models_context() -> None:
    api = HostApi()
    api.contexts = [7]
    with pytest.raises(CudaError, match=r"^cuIpcOpenMemHandle: invalid argument$"):
        DriverApi(api).open(0, bytes(64))
    assert api.contexts == [7]


@pytest.mark.parametrize(
    ("api", "text"),
    [
        (HostApi(init_status=100), "cannot be used on this node .cuInit: error 100."),
        (HostApi(count=0), "sees no GPU"),
    ],
)
def test_without_a_gpu_there_is_no_driver(api: HostApi, text: str) -> None:
    with pytest.raises(CudaUnavailableError, match=text):
        DriverApi(api)


def test_without_cuda_python_it_is_said_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "cuda", None)
    with pytest.raises(CudaUnavailableError, match=r"install manta-serve\[cuda\]"):
        load_driver()


@pytest.mark.parametrize(("hidden", "seen"), [("", None), ("-1", None), ("1", "1"), (None, None)])
def test_a_process_that_has_reserved_no_gpu_sees_all_of_them(
    monkeypatch: pytest.MonkeyPatch, hidden: str | None, seen: str | None
) -> None:
    api = HostApi()
    bindings = type(sys)("cuda.bindings")
    monkeypatch.setattr(bindings, "driver", api, raising=False)
    monkeypatch.setitem(sys.modules, "cuda", type(sys)("cuda"))
    monkeypatch.setitem(sys.modules, "cuda.bindings", bindings)
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    if hidden is not None:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", hidden)
    load_driver()
    assert (api.visible, os.environ.get("CUDA_VISIBLE_DEVICES")) == (seen, hidden)
