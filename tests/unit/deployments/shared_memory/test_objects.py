# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Clients' objects are read and written by copies, whatever clients do to them meanwhile."""

import os
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from backends.api.errors import InternalError, InvalidArgumentError
from backends.api.request import EMPTY, Extent, InferenceRequest, Tensor
from deployments.settings.server_settings import Region
from deployments.shared_memory import objects
from deployments.shared_memory.objects import RegionMemory
from deployments.shared_memory.regions import look_at_inputs
from deployments.shared_memory.system import HeldObjects

ALL = bytes(range(256))


@pytest.fixture
def path() -> Iterator[Path]:
    path = Path("/dev/shm", f"manta-test-{uuid.uuid4().hex}")
    path.write_bytes(ALL)
    yield path
    path.unlink(missing_ok=True)


@pytest.fixture
def source(path: Path) -> str:
    return HeldObjects().hold(Region("r", f"/{path.name}", 0, 256)).source


@pytest.fixture
def transfers(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Callable[[], object]]]:
    """What happens right before bytes are read or written: the client's doing, once each."""
    before: list[Callable[[], object]] = []

    def surprised(system: Callable[..., int]) -> Callable[..., int]:
        def transfer(descriptor: int, buffers: list[memoryview], offset: int) -> int:
            if before:
                before.pop(0)()
            return system(descriptor, buffers, offset)

        return transfer

    monkeypatch.setattr(os, "preadv", surprised(os.preadv))
    monkeypatch.setattr(os, "pwritev", surprised(os.pwritev))
    yield before
    assert not before


def too_small(path: Path, end: int, size: int) -> str:
    return (
        f"Invalid offset + byte size for shared memory region with key '/{path.name}': bytes 0 to "
        f"{end} of an object that has {size}; register it again with its present size"
    )


def test_what_was_read_is_the_servers_own(path: Path, source: str) -> None:
    data = RegionMemory().read(Extent(source, 16, 4))
    path.write_bytes(b"changed".ljust(256))
    assert bytes(data) == ALL[16:20]


def test_an_input_of_an_ensemble_outlives_its_object(path: Path, source: str) -> None:
    request = InferenceRequest("m", inputs=[Tensor("A", "UINT8", (256,), EMPTY)])
    request.inputs[0].extent = Extent(source, 0, 256)
    look_at_inputs(request, RegionMemory(), runs_here=True)
    os.truncate(path, 0)
    assert bytes(request.inputs[0].data) == ALL


def test_an_object_that_was_shrunk_is_not_read_behind_its_end(path: Path, source: str) -> None:
    memory = RegionMemory()
    assert bytes(memory.read(Extent(source, 0, 256))) == ALL
    os.truncate(path, 8)
    for use in (memory.read, memory.check):
        with pytest.raises(InvalidArgumentError) as caught:
            use(Extent(source, 0, 256))
        assert caught.value.message == too_small(path, 256, 8)
    assert bytes(memory.read(Extent(source, 0, 2))) == ALL[:2]


def test_an_object_that_shrinks_while_it_is_read_is_an_error(
    path: Path, source: str, transfers: list[Callable[[], object]]
) -> None:
    transfers.append(lambda: os.truncate(path, 8))
    with pytest.raises(InvalidArgumentError) as caught:
        RegionMemory().read(Extent(source, 0, 256))
    assert caught.value.message == too_small(path, 256, 8)


def test_an_object_that_was_shrunk_is_not_written(path: Path, source: str) -> None:
    memory = RegionMemory()
    os.truncate(path, 8)
    with pytest.raises(InvalidArgumentError) as caught:
        memory.write(Extent(source, 0, 16), memoryview(b"x" * 16))
    assert caught.value.message == too_small(path, 16, 8)
    assert path.read_bytes() == ALL[:8]


def test_a_write_without_room_is_an_error_of_its_request(
    path: Path, source: str, transfers: list[Callable[[], object]]
) -> None:
    def fill() -> None:
        raise OSError(28, "No space left on device")

    transfers.append(fill)
    with pytest.raises(InternalError) as caught:
        RegionMemory().write(Extent(source, 4, 4), memoryview(b"wxyz"))
    assert caught.value.message == (
        f"Unable to write shared memory region with key '/{path.name}': bytes 4 to 8: No space "
        f"left on device"
    )


def test_bytes_that_the_system_takes_in_pieces_are_all_read_and_written(
    monkeypatch: pytest.MonkeyPatch, path: Path, source: str
) -> None:
    read, write = os.preadv, os.pwritev
    monkeypatch.setattr(os, "preadv", lambda fd, parts, at: read(fd, [parts[0][:100]], at))
    monkeypatch.setattr(os, "pwritev", lambda fd, parts, at: write(fd, [parts[0][:100]], at))
    memory = RegionMemory()
    assert bytes(memory.read(Extent(source, 0, 256))) == ALL
    memory.write(Extent(source, 0, 256), memoryview(ALL[::-1]))
    assert path.read_bytes() == ALL[::-1]


def test_the_ingress_reads_no_numbers(source: str, transfers: list[Callable[[], object]]) -> None:
    transfers.append(lambda: pytest.fail("bytes of a region were read"))
    request = InferenceRequest("m", inputs=[Tensor("A", "UINT8", (256,), EMPTY)])
    request.inputs[0].extent = Extent(source, 0, 256)
    look_at_inputs(request, RegionMemory())
    assert request.inputs[0].data.nbytes == 256
    transfers.clear()


def test_the_ingress_refuses_a_part_that_its_object_no_longer_has(path: Path, source: str) -> None:
    request = InferenceRequest("m", inputs=[Tensor("A", "UINT8", (256,), EMPTY)])
    request.inputs[0].extent = Extent(source, 0, 256)
    os.truncate(path, 8)
    with pytest.raises(InvalidArgumentError, match="of an object that has 8"):
        look_at_inputs(request, RegionMemory())


def test_an_object_is_opened_once_and_closed_when_it_is_forgotten(source: str) -> None:
    memory, before = RegionMemory(), descriptors()
    memory.read(Extent(source, 0, 4))
    memory.read(Extent(source, 8, 4))
    assert (memory.open_count, descriptors() - before) == (1, 1)
    memory.forget_others([source])
    assert memory.open_count == 1
    memory.forget_others([])
    assert (memory.open_count, descriptors() - before) == (0, 0)


def test_an_object_that_is_forgotten_while_it_is_read_is_closed_afterwards(
    source: str, transfers: list[Callable[[], object]]
) -> None:
    memory, before = RegionMemory(), descriptors()
    transfers.append(lambda: memory.forget_others([]))
    assert bytes(memory.read(Extent(source, 0, 4))) == ALL[:4]
    assert descriptors() == before


def test_the_objects_that_are_kept_open_are_bounded(
    monkeypatch: pytest.MonkeyPatch, source: str
) -> None:
    monkeypatch.setattr(objects, "_OPEN_LIMIT", 1)
    paths = [Path("/dev/shm", f"manta-test-{uuid.uuid4().hex}") for _ in range(2)]
    memory, held, before = RegionMemory(), HeldObjects(), descriptors()
    for each in paths:
        each.write_bytes(ALL)
    sources = [held.hold(Region("r", each.name, 0, 256)).source for each in paths]
    for each in (source, *sources):
        memory.read(Extent(each, 0, 1))
    for path in paths:
        path.unlink()
    assert memory.open_count == 1
    assert descriptors() - before == 1 + len(sources)


def descriptors() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))
