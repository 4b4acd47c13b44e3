# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from backends.api.errors import InvalidArgumentError
from manta_tools.perf.data.sequences import SequencePlan, SequenceSource
from manta_tools.perf.load import schedules
from manta_tools.perf.load.loops import ClosedLoop, OpenLoop, PeriodicLoop
from tests.support.simulated_clock import Clock
from tests.support.simulated_queue import Rows, SimulatedQueue, fixed

MS = 1_000_000


class Rig:
    def __init__(self, servers=100, responses=1):
        self.clock = Clock()
        self.server = SimulatedQueue(self.now, self.clock.after, fixed(10 * MS), servers, responses)

    def now(self):
        return self.clock.now_ns

    def closed(self, source=None, **options):
        return ClosedLoop(self.server, source or Rows(), self.now, **options)

    def open(self, schedule, source=None, **options):
        return OpenLoop(
            self.server, source or Rows(), self.now, self.clock.after, schedule=schedule, **options
        )

    def run(self, loop):
        loop.start()
        self.clock.run()
        return loop.take()


def sequences(**plan):
    parts = []

    def encode(stream, step, part):
        parts.append(part)
        return part

    return SequenceSource([1], encode, SequencePlan(**plan)), parts


def test_a_closed_loop_has_its_concurrency_in_flight():
    rig = Rig()
    loop = rig.closed(concurrency=7)
    loop.start()
    assert loop.in_flight == 7


def test_a_limit_ends_a_closed_loop():
    rig = Rig()
    loop = rig.closed(concurrency=3, limit=10)
    assert len(rig.run(loop)) == 10
    assert loop.is_done


def test_a_limit_below_the_concurrency_is_kept():
    rig = Rig()
    assert len(rig.run(rig.closed(concurrency=8, limit=2))) == 2


def test_a_stopped_loop_sends_nothing_more():
    rig = Rig()
    loop = rig.closed(concurrency=3)
    loop.start()
    rig.clock.after(15 * MS, loop.stop)
    rig.clock.run()
    assert loop.sent == 6
    assert loop.is_done


def test_what_was_taken_is_not_given_again():
    rig = Rig()
    loop = rig.closed(concurrency=1, limit=2)
    assert len(rig.run(loop)) == 2
    assert loop.take() == []


def test_an_open_loop_does_not_wait_for_answers():
    rig = Rig(servers=1)
    ended = rig.run(rig.open(schedules.constant(1000), limit=5))
    assert [each.start_ns for each in ended] == [0, MS, 2 * MS, 3 * MS, 4 * MS]


def test_an_open_loop_that_is_behind_lets_answers_be_taken():
    waits = []
    rig = Rig()
    loop = OpenLoop(
        rig.server, Rows(), rig.now, lambda *wait: waits.append(wait), schedule=itertools.repeat(0)
    )
    loop.start()
    # All is due at once, without end.
    assert loop.sent < 100
    assert [wait_ns for wait_ns, _ in waits] == [0]


def test_what_ends_a_sequence_early_is_not_counted():
    rig = Rig()
    source, parts = sequences(length=100, variation=0.0)
    loop = rig.closed(source, concurrency=3, limit=9)
    assert len(rig.run(loop)) == loop.sent == loop.ended_count == 9
    assert sum(part.is_end for part in parts) == 3


def test_serial_sequences_have_one_request_in_flight_each():
    rig = Rig()
    source, _ = sequences(length=4, variation=0.0)
    loop = rig.open(schedules.constant(1000), source, slots=2, is_serial=True, limit=8)
    ended = rig.run(loop)
    # Two sequences of requests that take 10 ms: what is due meanwhile waits, and that counts.
    assert max(each.start_ns - each.intended_ns for each in ended) > 20 * MS
    by_sequence = {}
    for each in ended:
        by_sequence.setdefault(each.sequence_id, []).append(each)
    for requests in by_sequence.values():
        for earlier, later in itertools.pairwise(requests):
            assert later.start_ns >= earlier.end_ns
    assert loop.is_done


def test_a_stop_ends_the_sequences_that_are_open():
    rig = Rig()
    source, parts = sequences(length=100, variation=0.0)
    loop = rig.closed(source, concurrency=3)
    loop.start()
    rig.clock.after(25 * MS, loop.stop)
    rig.clock.run()
    assert [part.sequence_id for part in parts if part.is_end] == [1, 2, 3]
    assert loop.is_done


def test_a_stop_of_an_open_loop_ends_sequences_that_wait_for_nothing():
    rig = Rig()
    source, parts = sequences(length=100, variation=0.0)
    loop = rig.open(schedules.constant(10), source, slots=2)
    loop.start()
    rig.clock.after(150 * MS, loop.stop)
    rig.clock.run()
    assert sorted(part.sequence_id for part in parts if part.is_end) == [1, 2]


def test_periodic_concurrency_grows_when_the_newest_have_had_their_responses():
    rig = Rig(responses=4)
    loop = PeriodicLoop(rig.server, Rows(), rig.now, start=2, end=6, step=2, period=3)
    ended = rig.run(loop)
    starts = sorted(each.start_ns // MS for each in ended)
    assert starts == [0, 0, 30, 30, 60, 60]
    assert loop.is_done


def test_requests_with_fewer_responses_than_the_period_count_when_they_end():
    rig = Rig(responses=1)
    loop = PeriodicLoop(rig.server, Rows(), rig.now, start=1, end=3, step=1, period=10)
    assert len(rig.run(loop)) == 3


@given(st.floats(0.1, 1e6), st.integers(1, 1000))
def test_constant_arrivals_do_not_drift(rate, index):
    due_ns = next(itertools.islice(schedules.constant(rate), index, None))
    assert due_ns == pytest.approx(index * 1e9 / rate, abs=1)


def test_the_same_seed_is_the_same_load():
    def first(seed):
        return list(itertools.islice(schedules.poisson(100.0, seed), 50))

    assert first(1) == first(1) != first(2)


def test_replayed_intervals_begin_again():
    offsets = itertools.islice(schedules.replayed([1000, 2000]), 4)
    assert list(offsets) == [MS, 3 * MS, 4 * MS, 6 * MS]


def test_a_trace_stays_at_its_last_instant():
    offsets = itertools.islice(schedules.fixed([0, 250]), 4)
    assert list(offsets) == [0, 250 * MS, 250 * MS, 250 * MS]


def test_intervals_are_microseconds_in_lines():
    assert schedules.read_intervals("10\n\n20\n", "file") == (10, 20)


@pytest.mark.parametrize("text", ["", "0\n0\n", "1.5", "-1", "ten"])
def test_a_file_of_something_else_is_refused(text):
    with pytest.raises(InvalidArgumentError, match="file: "):
        schedules.read_intervals(text, "file")
