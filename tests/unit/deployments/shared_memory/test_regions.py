# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Claims about tensors in clients' shared memory."""

import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from backends.api.errors import InternalError, InvalidArgumentError, NotFoundError, TritonError
from backends.api.request import (
    EMPTY,
    Extent,
    InferenceRequest,
    InferenceResponse,
    Tensor,
)
from deployments.settings.server_settings import Region
from deployments.shared_memory.objects import RegionMemory
from deployments.shared_memory.regions import (
    leave_in_regions,
    locate,
    locate_regions,
    look_at_inputs,
    place_outputs,
    read_inputs,
)
from deployments.shared_memory.system import HeldObjects
from tests.support.examples import examples


@pytest.fixture
def path() -> Iterator[Path]:
    path = Path("/dev/shm", f"manta-test-{uuid.uuid4().hex}")
    path.write_bytes(bytes(range(256)))
    yield path
    path.unlink(missing_ok=True)


@pytest.fixture
def held() -> HeldObjects:
    return HeldObjects()


@pytest.fixture
def source(path: Path, held: HeldObjects) -> str:
    return held.hold(Region("r", f"/{path.name}", 0, 256)).source


def test_a_region_is_the_object_that_was_registered_even_unlinked_or_replaced(
    path: Path, source: str
) -> None:
    early = RegionMemory()
    early.read(Extent(source, 0, 1))
    path.unlink()
    assert bytes(RegionMemory().read(Extent(source, 1, 1))) == b"\x01"
    path.write_bytes(b"\xee" * 256)
    for memory in (early, RegionMemory()):
        assert bytes(memory.read(Extent(source, 2, 1))) == b"\x02"


def test_an_object_whose_name_and_holder_are_gone_cannot_be_opened(
    path: Path, source: str, held: HeldObjects
) -> None:
    held.settle(source, is_registered=False)
    memory = RegionMemory()
    assert memory.read(Extent(source, 0, 1))
    memory.forget_others([])
    path.unlink()
    with pytest.raises(InternalError, match=f"Unable to open .* region: '/{path.name}'"):
        RegionMemory().read(Extent(source, 0, 1))


def test_objects_are_held_until_their_regions_are_gone(path: Path, held: HeldObjects) -> None:
    source = held.hold(Region("r", path.name, 0, 256)).source
    path.unlink()
    held.release_others([])  # another change, heard of before this one
    memory = RegionMemory()
    assert memory.read(Extent(source, 0, 1))
    memory.forget_others([])
    held.settle(source, is_registered=True)
    held.release_others([source])
    memory = RegionMemory()
    assert memory.read(Extent(source, 0, 1))
    memory.forget_others([])
    held.release_others([])
    with pytest.raises(InternalError):
        RegionMemory().read(Extent(source, 0, 1))


@pytest.mark.parametrize("key", ["", "/", "..", "/..", "a/b", "/a/b", "/../etc/passwd", "a\0b"])
def test_a_key_cannot_leave_the_directory(key: str, held: HeldObjects) -> None:
    with pytest.raises(InvalidArgumentError, match="invalid shm key"):
        held.hold(Region("r", key, 0, 1))


def test_a_symbolic_link_is_not_followed(path: Path, tmp_path: Path, held: HeldObjects) -> None:
    secret = tmp_path / "secret"
    secret.write_bytes(b"secret")
    path.unlink()
    path.symlink_to(secret)
    with pytest.raises(InternalError, match="Unable to open"):
        held.hold(Region("r", path.name, 0, 6))


REGION = Region("r", "/key", 4096, 100, source="the source")


@pytest.mark.parametrize(
    ("offset", "size", "text"),
    [
        (100, 1, "Invalid offset for"),
        (-4, 8, "Invalid offset for"),
        (100, 0, "Invalid offset for"),
        (50, 51, "Invalid offset + byte size for"),
        (0, -1, "Invalid offset + byte size for"),
        (32, 2**64 - 33, "Invalid offset + byte size for"),
    ],
)
def test_bytes_outside_of_a_region_are_refused(offset: int, size: int, text: str) -> None:
    with pytest.raises(InvalidArgumentError) as caught:
        locate(REGION, Extent("r", offset, size))
    assert caught.value.message == f"{text} shared memory region: 'r'"


def test_a_size_that_overflows_with_the_offset_is_refused_with_tritons_text() -> None:
    with pytest.raises(InvalidArgumentError) as caught:
        locate(REGION, Extent("r", 32, 2**64 - 32))
    assert caught.value.message == (
        "Integer overflow detected: byte_size (18446744073709551584) + offset (32) exceeds maximum "
        "value (18446744073709551615) for region 'r'"
    )


def test_a_part_without_bytes_may_begin_anywhere_in_a_region() -> None:
    assert locate(REGION, Extent("r", 0, 0)) == Extent("the source", 4096, 0)


@pytest.mark.parametrize("slashes", ["", "/", "///"])
def test_a_reserved_key_is_refused_whatever_slashes_lead_it(
    slashes: str, held: HeldObjects
) -> None:
    key = f"{slashes}triton_python_backend_shm_region_x"
    with pytest.raises(InvalidArgumentError) as caught:
        held.hold(Region("r", key, 0, 1))
    assert caught.value.message == (
        f"cannot register shared memory region 'r' with key '{key}' as the key contains the "
        f"reserved prefix 'triton_python_backend_shm_region_'"
    )


def test_a_region_of_another_node_is_refused_with_both_nodes_named() -> None:
    regions = {"r": Region("r", "/key", 0, 8, node_id="there", source="s")}
    request = InferenceRequest("m", regions={"OUT": Extent("r", 0, 8)})
    with pytest.raises(InvalidArgumentError) as caught:
        locate_regions(request, regions, node_id="here")
    assert caught.value.message.startswith(
        "Unable to use shared memory region: 'r': it was registered on node there of the cluster, "
        "and this request has come to node here;"
    )


@given(st.integers(-10, 300), st.integers(-10, 300))
@settings(max_examples=examples(100), deadline=None)
def test_what_is_located_lies_within_the_region(offset: int, size: int) -> None:
    try:
        found = locate(REGION, Extent("r", offset, size))
    except TritonError:
        return
    assert found.source == "the source"
    assert 4096 <= found.offset <= found.offset + found.size_bytes <= 4196


def test_a_request_goes_to_the_instance_without_bytes_and_finds_them_there(
    path: Path, source: str
) -> None:
    regions = {"r": Region("r", f"/{path.name}", 0, 256, source=source)}
    inline = Tensor("B", "UINT8", (1,), memoryview(b"x"))
    request = InferenceRequest(
        "m", inputs=[Tensor("A", "UINT8", (4,), EMPTY, Extent("r", 16, 4)), inline]
    )
    request.regions = {"OUT": Extent("r", 128, 8)}
    assert locate_regions(request, regions) == 4
    look_at_inputs(request, RegionMemory())
    assert request.inputs[0].data.nbytes == 4
    assert request.regions == {"OUT": Extent(source, 128, 8)}
    leave_in_regions(request)
    assert (request.inputs[0].data, bytes(request.inputs[1].data)) == (EMPTY, b"x")
    at_instance = RegionMemory()
    read_inputs(request, at_instance)
    assert bytes(request.inputs[0].data) == bytes(range(16, 20))
    outputs = [
        Tensor("OUT", "UINT8", (4,), memoryview(b"wxyz")),
        Tensor("REST", "UINT8", (1,), memoryview(b"r")),
    ]
    place_outputs(InferenceResponse("m", "1", "", outputs), request.regions, at_instance)
    assert path.read_bytes()[128:136] == b"wxyz" + bytes(range(132, 136))
    assert (outputs[0].data, bytes(outputs[1].data)) == (EMPTY, b"r")


def test_unknown_region_is_not_found() -> None:
    request = InferenceRequest("m", regions={"OUT": Extent("nope", 0, 8)})
    with pytest.raises(NotFoundError, match="Unable to find shared memory region: 'nope'"):
        locate_regions(request, {})


def test_output_larger_than_its_place_is_an_error(source: str) -> None:
    outputs = [Tensor("OUT", "UINT8", (9,), memoryview(b"123456789"))]
    with pytest.raises(InternalError) as caught:
        place_outputs(
            InferenceResponse("m", "1", "", outputs), {"OUT": Extent(source, 0, 8)}, RegionMemory()
        )
    assert caught.value.message == (
        "shared memory size specified with the request for output 'OUT' (8 bytes) should be at "
        "least 9 bytes to hold the results"
    )


def at_instance(source: str, data: bytes, path: Path) -> InferenceRequest:
    """Return a request whose two strings lie in a region, of which the instance then reads."""
    path.write_bytes(data.ljust(256))
    tensor = Tensor("S", "BYTES", (2,), EMPTY, Extent(source, 0, 12))
    return InferenceRequest("m", id="7", inputs=[tensor], regions={})


def strings(*lengths: int) -> bytes:
    return b"".join(length.to_bytes(4, "little") + b"x" * length for length in lengths)


def test_strings_that_are_what_they_were_are_read_at_the_instance(path: Path, source: str) -> None:
    request = at_instance(source, strings(3, 1), path)
    read_inputs(request, RegionMemory())
    assert bytes(request.inputs[0].data) == strings(3, 1)


@pytest.mark.parametrize(
    ("data", "seen"),
    [(strings(8), "1 strings"), (strings(200), "strings of which one is cut short")],
)
def test_strings_that_were_changed_under_way_fail_their_request_alone(
    path: Path, source: str, data: bytes, seen: str
) -> None:
    with pytest.raises(InvalidArgumentError) as caught:
        read_inputs(at_instance(source, data, path), RegionMemory())
    assert caught.value.message == (
        "[request id: 7] input 'S' of model 'm' was changed in its shared memory region while the "
        f"request was under way: expected 2 strings, got {seen}; write to a region when its "
        "requests are answered"
    )
