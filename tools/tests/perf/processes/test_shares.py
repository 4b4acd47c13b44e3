# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
from itertools import islice

import pytest
from hypothesis import given
from hypothesis import strategies as st

from manta_tools.perf.data.sequences import RowSource, SequencePlan
from manta_tools.perf.load.schedules import poisson
from manta_tools.perf.options.parsing import parse_options
from manta_tools.perf.processes.shares import Share, shares_of

COUNTS = st.integers(1, 9)


def shares(count):
    return [Share(index, count) for index in range(count)]


@given(st.integers(0, 10**6), COUNTS)
def test_parts_are_the_whole_and_differ_by_one_at_most(total, count):
    parts = [each.of(total) for each in shares(count)]
    assert sum(parts) == total
    assert max(parts) - min(parts) <= 1


@given(COUNTS, st.floats(1, 1000), st.integers(0, 99))
def test_the_schedules_of_all_are_the_one_that_was_asked_for(count, rate, seed):
    asked = list(islice(poisson(rate, seed), 20 * count))
    parts = [islice(each.of_schedule(poisson(rate, seed)), 20) for each in shares(count)]
    assert sorted(offset for part in parts for offset in part) == asked


@given(COUNTS, st.integers(1, 100))
def test_a_limit_ends_each_part_of_a_schedule_where_it_ends_the_whole(count, limit):
    parts = [islice(each.of_schedule(iter(range(1000))), each.of(limit)) for each in shares(count)]
    assert sorted(number for part in parts for number in part) == list(range(limit))


@given(COUNTS, st.integers(1, 1000), st.integers(9, 10**6))
def test_no_two_processes_have_a_sequence_id_in_common(count, first, id_count):
    plans = [
        each.of_sequences(SequencePlan(first_id=first, id_count=id_count)) for each in shares(count)
    ]
    ends = [first, *(each.first_id + each.id_count for each in plans)]
    assert [each.first_id for each in plans] == ends[:-1]
    assert ends[-1] <= first + id_count
    assert all(each.id_count > 0 for each in plans)


@given(COUNTS, st.lists(st.integers(1, 5), min_size=1, max_size=5))
def test_all_rows_are_sent_as_often_as_by_one_process(count, lengths):
    def encode(stream, step, part):
        return stream, step

    rows = 3 * sum(lengths)
    whole = RowSource(lengths, encode)
    parts = [RowSource(lengths, encode, each.index, count) for each in shares(count)]
    sent = [part.next(0).data for part in parts for _ in range(rows)]
    assert sorted(sent) == sorted(whole.next(0).data for _ in range(rows * count))


@pytest.mark.parametrize(
    ("arguments", "level", "limit", "is_sequence", "expected"),
    [
        ((), 10, 0, False, 4),
        ((), 2, 0, False, 2),
        ((), 10, 3, False, 3),
        (("--request-rate-range", "2"), 2, 0, False, 4),
        (("--request-rate-range", "2"), 2, 0, True, 3),
    ],
)
def test_no_process_is_without_work(arguments, level, limit, is_sequence, expected):
    options = parse_options(["-m", "m", "--processes", "4", "--num-of-sequences", "3", *arguments])
    assert shares_of(options, level, limit, is_sequence=is_sequence) == tuple(shares(expected))
