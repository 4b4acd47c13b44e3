# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Clients' shared memory as stock clients use and misuse it, over both protocols."""

import contextlib
import uuid
from collections.abc import Iterator
from types import ModuleType
from typing import Any

import numpy as np
import psutil
import pytest
import tritonclient.grpc as triton_grpc
import tritonclient.http as triton_http
import tritonclient.utils.shared_memory as shm
from tritonclient.utils import InferenceServerException, serialize_byte_tensor

from tests.integration.conftest import client_of
from tests.support.clients import add_sub_inputs
from tests.support.server import RunningServer

pytestmark = pytest.mark.parametrize("module", [triton_http, triton_grpc], ids=["http", "grpc"])
PAGE = 4096


class Object:
    """A POSIX object as a client makes it, and its registration."""

    def __init__(self, client: Any, size_bytes: int) -> None:
        self.name = uuid.uuid4().hex
        self.key = f"/manta-test-{self.name}"
        self.size_bytes = size_bytes
        self.handle = shm.create_shared_memory_region(self.name, self.key, size_bytes)
        self.client = client
        client.register_system_shared_memory(self.name, self.key, size_bytes)

    def write(self, *arrays: np.ndarray, offset: int = 0) -> None:
        shm.set_shared_memory_region(self.handle, arrays, offset=offset)

    def read(self, dtype: Any, shape: Any, offset: int = 0) -> np.ndarray:
        return shm.get_contents_as_numpy(self.handle, dtype, shape, offset=offset).copy()

    def unlink(self) -> None:
        handle, self.handle = self.handle, None
        shm.destroy_shared_memory_region(handle)

    def close(self) -> None:
        self.client.unregister_system_shared_memory(self.name)
        if self.handle is not None:
            self.unlink()


@pytest.fixture
def client(surface: RunningServer, module: ModuleType) -> Iterator[Any]:
    with client_of(surface, module) as client:
        yield client


@contextlib.contextmanager
def registered(client: Any, size_bytes: int) -> Iterator[Object]:
    one = Object(client, size_bytes)
    try:
        yield one
    finally:
        one.close()


def in_region(module: ModuleType, name: str, array: np.ndarray, place: Object, offset: int) -> Any:
    kinds = {"int32": "INT32", "object": "BYTES", "float32": "FP32"}
    given = module.InferInput(name, list(array.shape), kinds[str(array.dtype)])
    size = len(serialize_byte_tensor(array).item()) if array.dtype == np.object_ else array.nbytes
    given.set_shared_memory(place.name, size, offset=offset)
    return given


def to_region(module: ModuleType, name: str, place: Object, size: int, offset: int) -> Any:
    output = module.InferRequestedOutput(name)
    output.set_shared_memory(place.name, size, offset=offset)
    return output


def test_inputs_and_outputs_lie_in_different_regions_at_offsets(
    client: Any, module: ModuleType
) -> None:
    words = np.array([b"", b"two", b"x" * 300], dtype=np.object_)
    numbers = np.arange(5, dtype=np.float32)
    with registered(client, 2 * PAGE) as given, registered(client, PAGE) as made:
        given.write(serialize_byte_tensor(words), offset=1)  # any offset, aligned or not
        given.write(numbers, offset=PAGE + 2)
        inputs = [
            in_region(module, "IN_BYTES", words, given, 1),
            in_region(module, "IN_FP32", numbers, given, PAGE + 2),
        ]
        outputs = [
            to_region(module, "OUT_BYTES", made, 400, 3),
            to_region(module, "OUT_FP32", made, 20, 1000),
        ]
        result = client.infer("each_datatype", inputs, outputs=outputs)
        assert made.read(np.object_, [3], 3).tolist() == words.tolist()
        assert made.read(np.float32, [5], 1000).tolist() == numbers.tolist()
        shown = result.get_output("OUT_FP32")
        assert (shown.shape if module is triton_grpc else shown["shape"]) == [5]
        assert regions_of(client, module) >= {given.name, made.name}


def regions_of(client: Any, module: ModuleType) -> set[str]:
    status = client.get_system_shared_memory_status()
    return set(status.regions) if module is triton_grpc else {row["name"] for row in status}


@pytest.mark.parametrize(
    ("offset", "size", "text"),
    [
        (PAGE, 20, "Invalid offset for shared memory region"),
        (PAGE - 4, 20, r"Invalid offset \+ byte size for shared memory region"),
        (0, 16, "input byte size mismatch for input 'IN_FP32' .* Expected 20, got 16"),
    ],
)
def test_bytes_outside_of_the_region_or_the_shape_are_refused(
    client: Any, module: ModuleType, offset: int, size: int, text: str
) -> None:
    given = module.InferInput("IN_FP32", [5], "FP32")
    with registered(client, PAGE) as place:
        given.set_shared_memory(place.name, size, offset=offset)
        with pytest.raises(InferenceServerException, match=text):
            client.infer("each_datatype", [given])


def test_output_larger_than_its_place_is_an_error_and_writes_nothing(
    client: Any, module: ModuleType
) -> None:
    with registered(client, PAGE) as place:
        output = to_region(module, "OUTPUT0", place, 32, 0)
        with pytest.raises(InferenceServerException, match=r"\(32 bytes\) should be at least 64"):
            client.infer("add_sub", add_sub_inputs(module), outputs=[output])
        assert not place.read(np.int32, [8]).any()


def test_a_region_works_on_after_the_client_unlinked_its_object(
    surface: RunningServer, client: Any, module: ModuleType
) -> None:
    left, right = np.arange(16, dtype=np.int32), np.full(16, 2, np.int32)
    with registered(client, PAGE) as place:
        place.write(left, right)
        kept = np.memmap(f"/dev/shm{place.key}", np.int32, "r+")
        place.unlink()
        client.unload_model("add_sub")
        client.load_model("add_sub")  # its instances have never seen the object's name
        inputs = [
            in_region(module, f"INPUT{index}", left.reshape(1, 16), place, 64 * index)
            for index in range(2)
        ]
        outputs = [to_region(module, "OUTPUT0", place, 64, 128)]
        for _ in range(4):
            kept[32:48] = 0
            with client_of(surface, module) as other:
                other.infer("add_sub", inputs, outputs=outputs)
            assert kept[32:48].tolist() == (left + right).tolist()


def test_a_name_is_registered_once_and_again_after_it_was_unregistered(
    client: Any, module: ModuleType
) -> None:
    given = module.InferInput("IN_INT32", [4], "INT32")
    with registered(client, PAGE) as first:
        with pytest.raises(InferenceServerException, match="already in manager"):
            client.register_system_shared_memory(first.name, first.key, PAGE)
        first.write(np.full(4, 1, np.int32))
        given.set_shared_memory(first.name, 16)
        assert client.infer("each_datatype", [given]).as_numpy("OUT_INT32").tolist() == [1] * 4
        first.unlink()
        handle = shm.create_shared_memory_region("again", first.key, PAGE)
        try:
            shm.set_shared_memory_region(handle, [np.full(4, 2, np.int32)])
            # What is registered is the old object until it is registered anew.
            assert client.infer("each_datatype", [given]).as_numpy("OUT_INT32")[0] == 1
            client.unregister_system_shared_memory(first.name)
            with pytest.raises(InferenceServerException, match="Unable to find shared memory"):
                client.infer("each_datatype", [given])
            client.register_system_shared_memory(first.name, first.key, PAGE)
            assert client.infer("each_datatype", [given]).as_numpy("OUT_INT32")[0] == 2
        finally:
            shm.destroy_shared_memory_region(handle)


def test_unregistering_all_forgets_every_region(client: Any, module: ModuleType) -> None:
    with registered(client, PAGE), registered(client, PAGE):
        client.unregister_system_shared_memory()
        assert regions_of(client, module) == set()


def test_tensor_bytes_pass_by_the_ingress(
    surface: RunningServer, client: Any, module: ModuleType
) -> None:
    numbers = np.arange(1 << 20, dtype=np.float32)
    with registered(client, 2 * numbers.nbytes) as place:
        place.write(numbers)
        inputs = [in_region(module, "IN_FP32", numbers, place, 0)]
        outputs = [to_region(module, "OUT_FP32", place, numbers.nbytes, numbers.nbytes)]
        processes = surface.processes("manta: ingress") + surface.processes("ray::ServeReplica")
        assert processes
        before = _moved_bytes(processes)
        for _ in range(8):
            client.infer("each_datatype", inputs, outputs=outputs)
        assert place.read(np.float32, [1 << 20], numbers.nbytes).tolist() == numbers.tolist()
        assert _moved_bytes(processes) - before < numbers.nbytes


def _moved_bytes(processes: list[psutil.Process]) -> int:
    counters = [process.io_counters() for process in processes]
    return sum(each.read_chars + each.write_chars for each in counters)


def test_a_server_that_does_not_allow_it_refuses_every_use(
    server: RunningServer, module: ModuleType
) -> None:
    disabled = "Client shared memory is disabled"
    given = module.InferInput("INPUT0", [1, 16], "INT32")
    given.set_shared_memory("r", 64)
    with client_of(server, module) as client:
        with pytest.raises(InferenceServerException, match=disabled):
            client.register_system_shared_memory("r", "/manta-test-none", 64)
        with pytest.raises(InferenceServerException, match=disabled):
            client.unregister_system_shared_memory("r")
        with pytest.raises(InferenceServerException, match="Unable to find shared memory region"):
            client.infer("simple", [given, add_sub_inputs(module)[1]])
        assert regions_of(client, module) == set()
