# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Claims about mapping clients' shared memory."""

import os
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
from deployments.shared_memory.regions import (
    RegionMaps,
    leave_in_regions,
    locate,
    map_inputs,
    place_outputs,
    resolve_regions,
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


def test_a_view_shows_what_the_client_writes(path: Path, source: str) -> None:
    view = RegionMaps().view(Extent(source, 16, 4))
    with path.open("r+b") as file:
        file.seek(16)
        file.write(b"abcd")
    assert bytes(view) == b"abcd"


def test_an_object_is_mapped_once(source: str) -> None:
    maps = RegionMaps()
    first = maps.view(Extent(source, 0, 4))
    assert maps.view(Extent(source, 8, 4)).obj is first.obj
    assert maps.mapping_count == 1


def test_a_region_is_the_object_that_was_registered_even_unlinked_or_replaced(
    path: Path, source: str
) -> None:
    early = RegionMaps()
    early.view(Extent(source, 0, 1))
    path.unlink()
    assert bytes(RegionMaps().view(Extent(source, 1, 1))) == b"\x01"
    path.write_bytes(b"\xee" * 256)
    for maps in (early, RegionMaps()):
        assert bytes(maps.view(Extent(source, 2, 1))) == b"\x02"


def test_an_object_whose_name_and_holder_are_gone_cannot_be_opened(
    path: Path, source: str, held: HeldObjects
) -> None:
    held.settle(source, is_registered=False)
    assert RegionMaps().view(Extent(source, 0, 1))
    path.unlink()
    with pytest.raises(InternalError, match=f"Unable to open .* region: '/{path.name}'"):
        RegionMaps().view(Extent(source, 0, 1))


def test_objects_are_held_until_their_regions_are_gone(path: Path, held: HeldObjects) -> None:
    source = held.hold(Region("r", path.name, 0, 256)).source
    path.unlink()
    held.release_others([])  # another change, heard of before this one
    assert RegionMaps().view(Extent(source, 0, 1))
    held.settle(source, is_registered=True)
    held.release_others([source])
    assert RegionMaps().view(Extent(source, 0, 1))
    held.release_others([])
    with pytest.raises(InternalError):
        RegionMaps().view(Extent(source, 0, 1))


def test_an_object_that_was_shrunk_is_not_read_behind_its_end(path: Path, source: str) -> None:
    maps = RegionMaps()
    maps.view(Extent(source, 0, 256))
    os.truncate(path, 8)
    with pytest.raises(InvalidArgumentError, match="bytes 0 to 256 of an object that has 8"):
        maps.view(Extent(source, 0, 256))
    assert bytes(maps.view(Extent(source, 0, 2))) == b"\x00\x01"


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


def test_forgetting_keeps_the_named_objects(source: str) -> None:
    maps = RegionMaps()
    maps.view(Extent(source, 0, 1))
    maps.forget_others([source])
    assert maps.mapping_count == 1
    maps.forget_others([])
    assert maps.mapping_count == 0


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
        resolve_regions(request, regions, RegionMaps(), node_id="here")
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
    resolve_regions(request, regions, RegionMaps())
    assert bytes(request.inputs[0].data) == bytes(range(16, 20))
    assert request.regions == {"OUT": Extent(source, 128, 8)}
    leave_in_regions(request)
    assert (request.inputs[0].data, bytes(request.inputs[1].data)) == (EMPTY, b"x")
    at_instance = RegionMaps()
    map_inputs(request, at_instance)
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
        resolve_regions(request, {}, RegionMaps())


def test_output_larger_than_its_place_is_an_error(source: str) -> None:
    outputs = [Tensor("OUT", "UINT8", (9,), memoryview(b"123456789"))]
    with pytest.raises(InternalError) as caught:
        place_outputs(
            InferenceResponse("m", "1", "", outputs), {"OUT": Extent(source, 0, 8)}, RegionMaps()
        )
    assert caught.value.message == (
        "shared memory size specified with the request for output 'OUT' (8 bytes) should be at "
        "least 9 bytes to hold the results"
    )
