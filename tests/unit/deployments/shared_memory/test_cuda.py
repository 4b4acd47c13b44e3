# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Claims about clients' GPU memory: registered, read, written and closed."""

import pytest

from backends.api.errors import InternalError, InvalidArgumentError
from backends.api.request import EMPTY, Extent, InferenceRequest, InferenceResponse, Tensor
from deployments.settings.server_settings import Region
from deployments.shared_memory.cuda import CudaMaps
from deployments.shared_memory.cuda_driver import CudaUnavailableError
from deployments.shared_memory.objects import RegionMemory
from deployments.shared_memory.regions import (
    leave_in_regions,
    locate_regions,
    look_at_inputs,
    place_outputs,
    read_inputs,
)
from tests.support.host_cuda import HostDriver

HANDLE = bytes(range(64))


@pytest.fixture
def memory() -> bytearray:
    return bytearray(range(256))


@pytest.fixture
def driver(memory: bytearray) -> HostDriver:
    return HostDriver({HANDLE: memory})


@pytest.fixture
def maps(driver: HostDriver) -> CudaMaps:
    return CudaMaps(lambda: driver)


def test_registering_opens_the_memory_and_leaves_nothing_open(
    maps: CudaMaps, driver: HostDriver
) -> None:
    first = maps.check("r", HANDLE, 1, 256)
    assert (driver.opened, maps.mapping_count) == ([], 0)
    assert maps.check("r", HANDLE, 1, 256) != first


@pytest.mark.parametrize(
    ("handle", "device_id", "size", "text"),
    [
        (b"abc", 0, 8, "failed to register shared memory region: invalid args"),
        (bytes(64), 0, 8, "failed to register shared memory region: invalid args: region 'r' on "),
        (HANDLE, 2, 8, "failed to register shared memory region: invalid args: region 'r' has de"),
        (HANDLE, -1, 8, "failed to register shared memory region: invalid args: region 'r' has d"),
        (HANDLE, 0, 257, "failed to register shared memory region 'r': invalid args: byte_size is"),
    ],
)
def test_what_cannot_be_opened_is_not_registered(
    maps: CudaMaps, driver: HostDriver, handle: bytes, device_id: int, size: int, text: str
) -> None:
    with pytest.raises(InvalidArgumentError) as caught:
        maps.check("r", handle, device_id, size)
    assert caught.value.message.startswith(text)
    assert driver.opened == []


def test_without_a_gpu_the_answer_is_tritons_and_what_to_do() -> None:
    def load() -> HostDriver:
        raise CudaUnavailableError("cuda-python is missing; install manta-serve[cuda]")

    with pytest.raises(InvalidArgumentError) as caught:
        CudaMaps(load).check("r", HANDLE, 0, 8)
    assert caught.value.message == (
        "failed to register CUDA shared memory region: 'r', GPUs not supported: "
        "cuda-python is missing; install manta-serve[cuda]"
    )


def test_an_allocation_is_opened_once_while_registered_and_closed_afterwards(
    maps: CudaMaps, driver: HostDriver, memory: bytearray
) -> None:
    source = maps.check("r", HANDLE, 0, 256)
    maps.forget_others([source])
    assert bytes(maps.read(Extent(source, 16, 4))) == bytes(range(16, 20))
    maps.write(Extent(source, 0, 3), memoryview(b"new"))
    assert (len(driver.opened), memory[:4]) == (1, b"new\x03")
    maps.forget_others([])
    assert (driver.opened, maps.mapping_count) == ([], 0)


def test_a_request_that_outlives_the_registration_leaves_nothing_open(
    maps: CudaMaps, driver: HostDriver, memory: bytearray
) -> None:
    source = maps.check("r", HANDLE, 0, 256)
    maps.forget_others([])
    maps.write(Extent(source, 0, 4), memoryview(b"late"))
    assert (driver.opened, bytes(memory[:4])) == ([], b"late")


def test_the_gpu_is_found_by_its_uuid_where_it_has_another_number(
    maps: CudaMaps, memory: bytearray
) -> None:
    source = maps.check("r", HANDLE, 1, 256)
    at_instance = HostDriver({HANDLE: memory}, ["GPU-1"])
    here = CudaMaps(lambda: at_instance)
    here.forget_others([source])
    here.read(Extent(source, 0, 4))
    assert at_instance.opened[0].device == 0
    elsewhere = CudaMaps(lambda: HostDriver({HANDLE: memory}, ["GPU-0"]))
    with pytest.raises(InternalError, match=r"region: 'r': its memory is on GPU-1, .* only GPU-0;"):
        elsewhere.read(Extent(source, 0, 4))


def test_memory_that_became_smaller_is_not_read_behind_its_end(memory: bytearray) -> None:
    source = CudaMaps(lambda: HostDriver({HANDLE: memory})).check("r", HANDLE, 0, 256)
    smaller = HostDriver({HANDLE: memory[:8]})
    with pytest.raises(InvalidArgumentError, match="byte size for shared memory region: 'r'"):
        CudaMaps(lambda: smaller).read(Extent(source, 0, 16))
    assert smaller.opened == []


def test_memory_that_is_gone_fails_the_request(maps: CudaMaps) -> None:
    source = maps.check("r", HANDLE, 0, 256)
    with pytest.raises(InternalError, match=r"region: 'r': cuIpcOpenMemHandle: invalid arg"):
        CudaMaps(lambda: HostDriver({})).read(Extent(source, 0, 16))


def test_the_instance_copies_what_the_ingress_only_measures(
    maps: CudaMaps, driver: HostDriver, memory: bytearray
) -> None:
    source = maps.check("r", HANDLE, 0, 256)
    regions = {"r": Region("r", "", 0, 256, source=source, device_id=0)}
    request = InferenceRequest("m", inputs=[Tensor("A", "UINT8", (4,), EMPTY, Extent("r", 16, 4))])
    request.regions = {"OUT": Extent("r", 128, 8)}
    locate_regions(request, regions)
    look_at_inputs(request, RegionMemory(maps))
    assert (request.inputs[0].data.nbytes, driver.copied_bytes) == (4, 0)
    leave_in_regions(request)
    at_instance = HostDriver({HANDLE: memory})
    instance = RegionMemory(CudaMaps(lambda: at_instance))
    instance.forget_others([source])
    read_inputs(request, instance)
    assert bytes(request.inputs[0].data) == bytes(range(16, 20))
    outputs = [Tensor("OUT", "UINT8", (4,), memoryview(b"wxyz"))]
    place_outputs(InferenceResponse("m", "1", "", outputs), request.regions, instance)
    assert memory[128:136] == b"wxyz" + bytes(range(132, 136))
    assert outputs[0].data == EMPTY
    instance.forget_others([])
    assert at_instance.opened == []


@pytest.mark.parametrize(("datatype", "runs_here"), [("BYTES", False), ("UINT8", True)])
def test_the_ingress_copies_strings_and_what_it_executes(
    maps: CudaMaps, *, datatype: str, runs_here: bool
) -> None:
    source = maps.check("r", HANDLE, 0, 256)
    regions = {"r": Region("r", "", 0, 256, source=source, device_id=0)}
    request = InferenceRequest("m", inputs=[Tensor("A", datatype, (4,), EMPTY, Extent("r", 4, 4))])
    request.regions = {}
    locate_regions(request, regions)
    look_at_inputs(request, RegionMemory(maps), runs_here=runs_here)
    assert bytes(request.inputs[0].data) == bytes(range(4, 8))
