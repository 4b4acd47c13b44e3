# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
import gc
import os
import threading
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from deployments.slabs.pool import (
    MIN_BLOCK_BYTES,
    SlabPool,
    SlabReader,
    SlabUnavailableError,
    can_read_probe,
)
from tests.support.examples import examples


@pytest.fixture
def pool():
    pool = SlabPool(max_bytes=8 << 20, slab_bytes=1 << 20)
    yield pool
    pool.close()


def announce(reader: SlabReader, pool: SlabPool, view: memoryview) -> tuple[int, int]:
    found = pool.locate(view)
    assert found is not None
    block, offset = found
    if block.slab.id not in reader._mappings:
        assert reader.announce(block.slab.id, os.getpid(), block.slab.fd, block.slab.size_bytes)
    return block.slab.id, offset


def test_a_block_is_free_when_its_last_view_dies(pool):
    view = pool.allocate(100_000)
    part = view[10:20]
    del view
    assert pool.used_blocks == 1
    array = np.frombuffer(part, np.uint8)
    del part
    assert pool.used_blocks == 1
    sliced = array[2:]
    del array
    assert pool.used_blocks == 1
    del sliced
    assert pool.used_blocks == 0


def test_a_retained_block_outlives_its_views(pool):
    view = pool.allocate(100_000)
    block, _ = pool.locate(view)
    pool.retain(block)
    pool.retain(block)
    del view
    pool.let_go(block)
    assert pool.used_blocks == 1
    pool.let_go(block)
    assert pool.used_blocks == 0


def test_freed_blocks_are_used_again(pool):
    for _ in range(200):
        view = pool.allocate(200_000)
        del view
    assert pool.mapped_bytes == 1 << 20


@given(size=st.integers(1, 300_000), align_at=st.integers(0, 5000))
@settings(max_examples=examples(60))
def test_the_byte_asked_for_is_aligned(size, align_at):
    pool = SlabPool(max_bytes=1 << 20)
    view = pool.allocate(size, align_at)
    assert len(view) == size
    assert view.format == "B"
    address = np.frombuffer(view, np.uint8).__array_interface__["data"][0]
    assert (address + align_at) % 64 == 0
    del view
    pool.close()


def test_blocks_do_not_overlap(pool):
    views = [pool.allocate(MIN_BLOCK_BYTES - n, n) for n in range(40)]
    for n, view in enumerate(views):
        view[:] = bytes([n]) * len(view)
    assert all(bytes(view) == bytes([n]) * len(view) for n, view in enumerate(views))


def test_a_full_pool_allocates_nothing(pool):
    views = [pool.allocate(1 << 20) for _ in range(9)]
    assert [view is None for view in views] == [False] * 8 + [True]
    assert pool.allocate(1 << 30) is None
    assert pool.allocate(0) is None


def test_idle_slabs_make_room_for_other_sizes(pool):
    retired = []
    pool.watch(retired.append)
    small = [pool.allocate(MIN_BLOCK_BYTES) for _ in range(8 * 16)]
    assert pool.allocate(2 << 20) is None
    kept = small[0]
    small.clear()
    large = pool.allocate(2 << 20)
    assert large is not None
    assert len(retired) == 2
    assert pool.mapped_bytes <= pool.max_bytes
    kept[:] = bytes(len(kept))


def test_views_outlive_the_pool():
    pool = SlabPool(max_bytes=1 << 20)
    view = pool.allocate(100_000)
    pool.close()
    view[:] = b"x" * 100_000
    assert pool.allocate(100_000) is None
    assert pool.mapped_bytes == 0


def test_foreign_memory_is_not_located(pool):
    assert pool.locate(memoryview(b"x" * 100_000)) is None
    assert pool.locate(np.zeros(100_000, np.uint8).data) is None


def test_blocks_dropped_on_many_threads_are_all_free(pool):
    def work():
        for _ in range(200):
            view = pool.allocate(MIN_BLOCK_BYTES)
            if view is not None:
                view[0] = 1

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert pool.used_blocks == 0


def test_a_view_in_a_cycle_is_returned_by_the_collector(pool):
    cycle = [pool.allocate(100_000)]
    cycle.append(cycle)
    del cycle
    gc.collect()
    assert pool.used_blocks == 0


def test_a_reader_sees_the_bytes_and_reports_the_death_of_its_view(pool):
    wakes = []
    reader = SlabReader(lambda: wakes.append(1))
    view = pool.allocate(100_000)
    view[:] = b"q" * 100_000
    slab_id, offset = announce(reader, pool, view)
    seen = reader.view(slab_id, offset, 100_000)
    assert seen.readonly
    assert bytes(seen) == b"q" * 100_000
    array = np.frombuffer(seen, np.int32)
    del seen
    assert not wakes
    del array
    assert wakes == [1]
    assert reader.take_released() == [(slab_id, offset)]
    assert reader.take_released() == []


def test_a_closed_reader_reports_nothing_and_its_views_stay_valid(pool):
    wakes = []
    reader = SlabReader(lambda: wakes.append(1))
    view = pool.allocate(100_000)
    view[:] = b"q" * 100_000
    seen = reader.view(*announce(reader, pool, view), 100_000)
    reader.close()
    assert bytes(seen[:3]) == b"qqq"
    del seen
    assert not wakes


@pytest.mark.parametrize(
    ("slab_id", "offset", "size"),
    [
        (9, 0, 10),
        (1, -1, 10),
        (1, 0, 0),
        (1, 0, -5),
        (1, 1 << 20, 1),
        (1, 0, (1 << 20) + 1),
        (1, 2**63, 2**63),
    ],
)
def test_an_extent_outside_the_slab_is_refused(pool, slab_id, offset, size):
    reader = SlabReader(lambda: None)
    view = pool.allocate(100_000)
    announce(reader, pool, view)
    with pytest.raises(ValueError, match="extent"):
        reader.view(slab_id, offset, size)


def test_a_slab_announced_twice_is_refused(pool):
    reader = SlabReader(lambda: None)
    view = pool.allocate(100_000)
    slab = pool.locate(view)[0].slab
    announce(reader, pool, view)
    with pytest.raises(ValueError, match="twice"):
        reader.announce(slab.id, os.getpid(), slab.fd, slab.size_bytes)


def test_only_sealed_memfds_of_ours_are_mapped(pool, tmp_path):
    (tmp_path / "file").write_bytes(bytes(4096))
    read_end, write_end = os.pipe()
    file_fd = os.open(tmp_path / "file", os.O_RDWR)
    unsealed = os.memfd_create("manta-slab")
    os.ftruncate(unsealed, 4096)
    try:
        reader = SlabReader(lambda: None)
        for number, fd in enumerate((read_end, file_fd, unsealed, 99_999), 1):
            assert not reader.announce(number, os.getpid(), fd, 4096)
            with pytest.raises(SlabUnavailableError):
                reader.view(number, 64, 10)
        assert reader.take_released() == [(number, 64) for number in (1, 2, 3, 4)]
    finally:
        for fd in (read_end, write_end, file_fd, unsealed):
            os.close(fd)


def test_a_slab_smaller_than_announced_is_not_mapped(pool):
    view = pool.allocate(100_000)
    slab = pool.locate(view)[0].slab
    reader = SlabReader(lambda: None)
    assert not reader.announce(slab.id, os.getpid(), slab.fd, slab.size_bytes + 1)
    assert not reader.announce(slab.id + 1, os.getpid(), slab.fd, 2**63)


def test_a_slab_cannot_shrink_under_its_readers(pool):
    view = pool.allocate(100_000)
    with pytest.raises(PermissionError):
        os.ftruncate(pool.locate(view)[0].slab.fd, 0)


def test_the_probe_tells_the_right_process_from_a_wrong_one(pool):
    assert can_read_probe(os.getpid(), pool.probe_fd, pool.probe_token)
    assert not can_read_probe(os.getpid(), pool.probe_fd, bytes(32))
    assert not can_read_probe(os.getpid(), 99_999, pool.probe_token)
    assert not can_read_probe(2**30, pool.probe_fd, pool.probe_token)


def test_nothing_is_left_in_shared_memory_or_open(pool):
    before = len(list(Path("/proc/self/fd").iterdir()))
    other = SlabPool(max_bytes=1 << 20)
    view = other.allocate(100_000)
    assert other.probe_fd > 0
    del view
    other.close()
    gc.collect()
    assert len(list(Path("/proc/self/fd").iterdir())) == before
