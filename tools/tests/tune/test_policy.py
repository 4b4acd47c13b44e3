# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""The tuner against servers that are functions of their settings."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from manta_tools.tune.policy import Tuner
from manta_tools.tune.records import Bounds, Observation, Settings


@dataclass
class Server:
    """Batches at a rate; an execution costs a part that is fixed and one for each inference."""

    rate: float
    fixed_ms: float
    each_ms: float
    most: int = 64

    def observe(self, settings: Settings) -> Observation:
        limit = settings.batch or self.most
        waiting = 1 + self.rate * settings.delay_us / 1e6
        batch = min(limit, waiting)
        busy = self.rate / batch * (self.fixed_ms + batch * self.each_ms) / 1e3
        while busy >= 1 and batch < limit:
            # What waits for the instance makes batches larger by itself.
            batch = min(limit, batch * 1.1)
            busy = self.rate / batch * (self.fixed_ms + batch * self.each_ms) / 1e3
        wait_ms = settings.delay_us / 1e3 if waiting < limit else 1e3 * limit / self.rate
        queue_ms = 1e4 if busy >= 1 else wait_ms / 2 + busy / (1 - busy) * self.fixed_ms
        latency_ms = queue_ms + self.fixed_ms + batch * self.each_ms
        return Observation(
            round(self.rate * 60), self.rate, latency_ms, queue_ms, batch, min(busy, 1.0)
        )


BOUNDS = Bounds(delay_us=(0, 20_000), batch=(1, 64))


def after(tuner: Tuner, observe: Callable[[Settings], Observation], periods: int) -> Observation:
    for _ in range(periods):
        tuner.decide(observe(tuner.settings))
    return observe(tuner.settings)


def test_a_long_delay_at_low_load_becomes_short_until_the_slo_is_kept():
    server = Server(rate=20, fixed_ms=2, each_ms=0.1)
    tuner = Tuner(5.0, BOUNDS, Settings(20_000))
    assert server.observe(tuner.settings).latency_ms > 5
    assert after(tuner, server.observe, 12).latency_ms <= 5
    assert tuner.settings.delay_us < 20_000


def test_small_batches_of_a_busy_server_grow_until_the_slo_is_kept():
    server = Server(rate=900, fixed_ms=2, each_ms=0.2)
    tuner = Tuner(50.0, BOUNDS, Settings(0, 2))
    assert server.observe(tuner.settings).busy == 1
    assert after(tuner, server.observe, 12).latency_ms <= 50
    assert tuner.settings.batch > 2


def test_room_below_the_slo_is_used_for_larger_batches():
    server = Server(rate=1000, fixed_ms=0.5, each_ms=0.05)
    tuner = Tuner(30.0, Bounds(delay_us=(0, 20_000)), Settings(0))
    alone = server.observe(tuner.settings)
    found = after(tuner, server.observe, 30)
    assert found.latency_ms <= 30
    assert found.batch_size > 4 * alone.batch_size
    assert found.busy < alone.busy


def test_a_change_that_does_not_help_is_taken_back_and_paused_for_longer_each_time():
    slow = Observation(requests=1000, rate=10, latency_ms=90, queue_ms=0, batch_size=1, busy=0.1)
    tuner = Tuner(50.0, Bounds(delay_us=(0, 1000)), Settings(1000))
    changes = []
    for at in range(100):
        decision = tuner.decide(slow)
        if decision.is_change and not decision.is_revert:
            changes.append(at)
        if decision.is_revert:
            assert tuner.settings == Settings(1000)
    pauses = [later - earlier for earlier, later in pairwise(changes)]
    assert pauses == sorted(pauses)
    assert pauses[-1] > 3 * pauses[0]


def test_a_change_is_judged_by_the_slo_alone_when_the_load_is_another():
    calm = Observation(requests=1000, rate=100, latency_ms=10, queue_ms=1, batch_size=1, busy=0.1)
    tuner = Tuner(50.0, Bounds(delay_us=(0, 1000)), Settings(0))
    assert tuner.decide(calm).is_change
    more = replace(calm, rate=1000, latency_ms=40)
    decision = tuner.decide(more)
    assert not decision.is_change
    assert "the load has changed" in decision.reason


def test_a_model_without_a_preferred_size_gets_smaller_batches_only():
    slow = Observation(requests=1000, rate=99, latency_ms=90, queue_ms=0, batch_size=9, busy=0.9)
    tuner = Tuner(50.0, Bounds(batch=(1, 64)), Settings(0))
    assert tuner.decide(slow).settings == Settings(0, 32)


def test_a_faster_answer_to_more_requests_is_kept_though_the_slo_is_still_broken():
    slow = Observation(requests=999, rate=50, latency_ms=100, queue_ms=99, batch_size=5, busy=0)
    tuner = Tuner(20.0, Bounds(delay_us=(0, 100_000)), Settings(100_000))
    assert tuner.decide(slow).settings == Settings(50_000)
    assert not tuner.decide(replace(slow, rate=100, latency_ms=52)).is_change
    assert tuner.decide(replace(slow, rate=100, latency_ms=52)).settings == Settings(25_000)


def test_few_requests_change_nothing():
    few = Observation(requests=3, rate=0.1, latency_ms=999, queue_ms=0, batch_size=1, busy=0)
    tuner = Tuner(50.0, BOUNDS, Settings(1000))
    assert not tuner.decide(few).is_change


def test_an_attempt_is_forgotten_when_somebody_else_changes_the_settings():
    calm = Observation(requests=1000, rate=100, latency_ms=45, queue_ms=1, batch_size=1, busy=0.1)
    tuner = Tuner(50.0, BOUNDS, Settings(0))
    assert tuner.decide(replace(calm, latency_ms=10)).is_change
    tuner.adopt(Settings(700))
    assert not tuner.decide(calm).is_change
    assert tuner.settings == Settings(700)


observations = st.builds(
    Observation,
    requests=st.integers(0, 10_000),
    rate=st.floats(0, 1e4),
    latency_ms=st.floats(0, 1e3),
    queue_ms=st.floats(0, 1e3),
    batch_size=st.floats(0, 64),
    busy=st.floats(0, 1),
)


@given(
    seen=st.lists(observations, max_size=60),
    delay=st.tuples(st.integers(0, 5000), st.integers(0, 5000)).map(sorted),
    batch=st.tuples(st.integers(1, 64), st.integers(1, 64)).map(sorted),
)
def test_settings_stay_within_bounds_and_one_knob_moves_at_a_time(seen, delay, batch):
    bounds = Bounds(tuple(delay), tuple(batch))
    tuner = Tuner(50.0, bounds, Settings(delay[0], batch[0]))
    for each in seen:
        before = tuner.settings
        decision = tuner.decide(each)
        assert tuner.settings == decision.settings
        assert decision.is_change == (before != decision.settings)
        assert delay[0] <= decision.settings.delay_us <= delay[1]
        assert batch[0] <= decision.settings.batch <= batch[1]
        moved = (
            before.delay_us != decision.settings.delay_us,
            before.batch != decision.settings.batch,
        )
        assert sum(moved) <= 1


@pytest.mark.parametrize("knob", ["delay_us", "batch"])
def test_what_has_no_bounds_stays(knob):
    bounds = Bounds(**{knob: (0, 64)})
    tuner = Tuner(50.0, bounds, Settings(500, 8))
    server = Server(rate=900, fixed_ms=2, each_ms=0.2)
    after(tuner, server.observe, 40)
    other = {"delay_us": "batch", "batch": "delay_us"}[knob]
    assert getattr(tuner.settings, other) == getattr(Settings(500, 8), other)
