# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0

from hypothesis import given
from hypothesis import strategies as st

from manta_tools.perf.data.sequences import RowSource, SequencePlan, SequenceSource


def collect(source, slot, count):
    requests = [source.next(slot) for _ in range(count)]
    return requests, [each.payload[2] for each in requests]


def new_source(lengths=(1,), *, is_read=False, **plan):
    return SequenceSource(lengths, lambda *place: place, SequencePlan(**plan), is_read=is_read)


def lengths_of(parts):
    found, count = [], 0
    for part in parts:
        count += 1
        if part.is_end:
            found.append(count)
            count = 0
    return found


def test_rows_come_in_turn():
    source = RowSource([2, 1], lambda stream, step, part: (stream, step))
    assert [source.next(0).data for _ in range(4)] == [(0, 0), (0, 1), (1, 0), (0, 0)]


def test_rows_are_encoded_once():
    encoded = []
    source = RowSource([2], lambda *place: encoded.append(place))
    for _ in range(10):
        source.next(0)
    assert len(encoded) == 2


@given(st.integers(1, 30), st.floats(0, 100), st.integers(0, 1000))
def test_lengths_keep_their_variation(length, variation, seed):
    source = new_source(length=length, variation=variation, seed=seed)
    _, parts = collect(source, 0, 200)
    margin = variation / 100 * length
    for each in lengths_of(parts):
        assert max(1, int(length - margin)) <= each <= length + margin
    starts = [part.is_start for part in parts]
    assert starts == [True, *(part.is_end for part in parts[:-1])]


def test_a_sequence_of_a_file_is_as_long_as_its_stream():
    source = new_source((3, 5), is_read=True)
    requests, parts = collect(source, 0, 60)
    found = lengths_of(parts)
    assert set(found) == {3, 5}
    assert [each.data[1] for each in requests][: found[0]] == list(range(found[0]))


def test_a_length_that_was_given_beats_the_stream_and_goes_round_it():
    source = new_source((2,), is_read=True, length=5, variation=0.0)
    requests, parts = collect(source, 0, 5)
    assert lengths_of(parts) == [5]
    assert [each.data[1] for each in requests] == [0, 1, 0, 1, 0]


def test_live_sequences_have_ids_of_their_own():
    source = new_source(length=3, variation=0.0, first_id=10, id_count=4)
    live = {}
    for round_number in range(30):
        for slot in range(3):
            request = source.next(slot)
            live[slot] = request.sequence_id
            assert 10 <= request.sequence_id < 14
        assert len(set(live.values())) == 3, round_number


def test_closing_ends_what_is_open_once():
    source = new_source(length=9, variation=0.0)
    source.next(0)
    closing = source.closing(0)
    assert closing.is_sequence_end
    assert closing.payload[2].is_end
    assert source.closing(0) is None
