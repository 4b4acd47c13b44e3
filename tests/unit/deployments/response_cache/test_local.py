# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""The store in this process."""

from hypothesis import given
from hypothesis import strategies as st

from deployments.response_cache.local import ENTRY_OVERHEAD_BYTES, LocalCache


def cache(size_bytes: int) -> LocalCache:
    return LocalCache(size_bytes, lambda: 0)


def find(store: LocalCache, key: bytes) -> bytes | None:
    answers: list[bytes | None] = []
    store.find(key, answers.append)
    assert len(answers) == 1
    return answers[0]


def test_what_was_inserted_is_found_and_counted():
    store = cache(10_000)
    store.insert(b"k", b"entry")
    assert find(store, b"k") == b"entry"
    assert find(store, b"other") is None
    gauges = store.gauges()
    assert (gauges["nv_cache_num_hits"], gauges["nv_cache_num_misses"]) == (1, 1)
    assert gauges["nv_cache_num_lookups"] == 2
    assert gauges["nv_cache_num_entries"] == 1


def test_the_entry_longest_unused_goes_first():
    store = cache(2 * (ENTRY_OVERHEAD_BYTES + 2))
    store.insert(b"a", b"1")
    store.insert(b"b", b"2")
    assert find(store, b"a") == b"1"
    store.insert(b"c", b"3")
    assert [find(store, key) for key in (b"a", b"b", b"c")] == [b"1", None, b"3"]
    assert store.gauges()["nv_cache_num_evictions"] == 1


def test_an_entry_larger_than_the_cache_is_left_out_and_evicts_nothing():
    store = cache(ENTRY_OVERHEAD_BYTES + 10)
    store.insert(b"a", b"1")
    store.insert(b"b", bytes(100))
    assert find(store, b"a") == b"1"
    assert find(store, b"b") is None


@given(
    st.integers(1, 2_000),
    st.lists(st.tuples(st.sampled_from([b"a", b"b", b"c", b"d"]), st.binary(max_size=400))),
)
def test_the_bound_holds_whatever_is_inserted(size_bytes, inserts):
    store = cache(size_bytes)
    for key, entry in inserts:
        store.insert(key, entry)
        found = find(store, key)
        assert found is None or any((key, found) == each for each in inserts)
        assert 0 <= store.gauges()["nv_cache_util"] <= 1
