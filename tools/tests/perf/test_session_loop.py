# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0

from manta_tools.perf.load.session_loop import SessionLoop
from manta_tools.perf.records import Request
from tests.support.simulated_clock import Clock
from tests.support.simulated_queue import SimulatedQueue, fixed

MS = 1_000_000


class Sessions:
    """Turns that are numbers; each session waits as long after each of its turns."""

    def __init__(self, *waits_ms):
        self._left = [list(each) for each in waits_ms]
        self._live = {}

    def next(self, slot):
        self._live.setdefault(slot, None)
        if self._live[slot] is None:
            self._live[slot] = self._left.pop(0)
        return Request(slot=slot)

    def closing(self, slot):
        return None

    def wait_ns(self, request):
        waits_ms = self._live[request.slot]
        if waits_ms:
            return waits_ms.pop(0) * MS
        self._live[request.slot] = None
        return 0 if self._left else None


class Rig:
    def __init__(self, sessions, concurrency):
        self.clock = Clock()
        server = SimulatedQueue(lambda: self.clock.now_ns, self.clock.after, fixed(10 * MS), 100)
        self.loop = SessionLoop(
            server,
            sessions,
            lambda: self.clock.now_ns,
            self.clock.after,
            concurrency=concurrency,
        )

    def run(self):
        self.loop.start()
        self.clock.run()
        return sorted((each.start_ns // MS, each.slot) for each in self.loop.take())


def test_a_turn_follows_the_answer_before_it_and_its_delay():
    assert Rig(Sessions([100, 0, 7]), 1).run() == [(0, 0), (110, 0), (120, 0), (137, 0)]


def test_a_session_that_is_over_makes_room_for_the_next_one():
    rig = Rig(Sessions([50], [], [], [5]), 2)
    assert rig.run() == [(0, 0), (0, 1), (10, 1), (20, 1), (35, 1), (60, 0)]
    assert rig.loop.is_done


def test_the_loop_is_not_done_while_a_session_waits():
    rig = Rig(Sessions([100]), 1)
    seen = []
    for at_ms in (5, 50, 115, 125):
        rig.clock.after(at_ms * MS, lambda: seen.append(rig.loop.is_done))
    rig.run()
    assert seen == [False, False, False, True]


def test_a_turns_delay_is_no_part_of_its_latency():
    rig = Rig(Sessions([100]), 1)
    rig.loop.start()
    rig.clock.run()
    assert {each.latency_ns for each in rig.loop.take()} == {10 * MS}


def test_a_stopped_loop_sends_no_turns_that_are_due_later():
    rig = Rig(Sessions([100, 100], [100]), 1)
    rig.clock.after(50 * MS, rig.loop.stop)
    assert rig.run() == [(0, 0)]
    assert rig.loop.is_done
