# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
import pytest

from deployments.admission.gate import AdmissionGate
from deployments.admission.places import Places
from deployments.admission.refusals import Reason
from deployments.admission.rules import AdmissionRules

MS = 1_000_000


def gate(rules=None, places=None):
    return AdmissionGate("resnet", rules or AdmissionRules(), 0, places)


def overload(door, *, now_ns=0, execution_ns=5 * MS, level=0, seconds=1.0):
    """Offer 5 times what a model works off one by one; return the time and what is under way."""
    under_way, end_ns = [], now_ns + execution_ns
    stop_ns = now_ns + int(seconds * 1e9)
    while now_ns < stop_ns:
        now_ns += execution_ns // 5
        if under_way and now_ns >= end_ns:
            start_ns, count, its_level = under_way.pop(0)
            door.answered(now_ns, start_ns, count, execution_ns, its_level)
            end_ns = now_ns + execution_ns
        if door.admit(now_ns, level) is None:
            if not under_way:
                end_ns = now_ns + execution_ns
            under_way.append((now_ns, door.outstanding, level))
    return now_ns, under_way


def test_an_open_gate_admits_any_number_of_requests_before_the_first_answer():
    door = gate()
    assert all(door.admit(0) is None for _ in range(10_000))
    assert door.outstanding == 10_000


def test_five_times_the_capacity_limits_the_gate_to_about_twice_the_execution():
    door = gate()
    overload(door, seconds=2.0)
    assert door.is_limited
    assert 1.0 <= door.limit <= 4.0
    assert door.refusals.counts[Reason.QUEUE] > 1000


def test_a_refusal_names_model_queue_time_target_and_what_to_do():
    door = gate()
    now_ns, _ = overload(door)
    refusals = [door.admit(now_ns) for _ in range(10)]
    error = next(each for each in refusals if each is not None).error()
    assert error.code == "Unavailable"
    assert error.retry_after_s > 0
    for part in ("model 'resnet' is overloaded", "ms, the target is", "try again later"):
        assert part in error.message


def test_a_burst_that_drains_within_the_burst_time_is_not_refused():
    door = gate()
    for round_ in range(20):
        start_ns = round_ * 1000 * MS
        starts = []
        for _ in range(18):
            assert door.admit(start_ns) is None
            starts.append(door.outstanding)
        for place, count in enumerate(starts, 1):
            door.answered(start_ns + place * 5 * MS, start_ns, count, 5 * MS)
    assert not door.refusals.counts


def test_an_answer_that_was_not_executed_says_nothing():
    door = gate()
    now_ns, _ = overload(door)
    limit = door.limit
    for _ in range(1000):
        now_ns += MS
        if door.admit(now_ns) is None:
            # A hit of a response cache carries the times of the execution that was kept.
            door.answered(now_ns + 1000, now_ns, door.outstanding, 5 * MS)
    assert door.limit == limit


def test_a_long_pause_opens_the_gate():
    door = gate()
    now_ns, under_way = overload(door)
    for start_ns, count, _ in under_way:
        door.answered(now_ns, start_ns, count, 5 * MS)
    now_ns += 3_000 * MS
    assert all(door.admit(now_ns) is None for _ in range(20))


def test_failures_give_places_back_and_teach_nothing():
    door = gate()
    door.admit(0)
    door.leave()
    assert (door.outstanding, door.limit) == (0, float("inf"))


def test_a_request_that_cannot_make_its_deadline_is_refused_only_while_requests_stand():
    door = gate()
    assert door.admit(0, 0, 1) is None  # Idle: nobody knows better.
    door.leave()
    # Requests stand, below the limit of the burst.
    starts = []
    for _ in range(12):
        assert door.admit(0) is None
        starts.append(door.outstanding)
    for place in (1, 2, 3, 4):
        door.answered(place * 5 * MS, 0, starts[place - 1], 5 * MS)
    refusal = door.admit(20 * MS, 0, 6 * MS)
    assert refusal is not None
    assert refusal.reason is Reason.DEADLINE
    assert "the request's deadline is in 6.0 ms" in refusal.error().message
    assert door.admit(20 * MS, 0, 500 * MS) is None


def test_requests_of_a_running_sequence_get_on():
    door = gate()
    now_ns, _ = overload(door)
    refused = [door.admit(now_ns) for _ in range(5)][-1]
    assert refused is not None
    assert door.admit(now_ns, is_bound=True) is None


def test_of_the_places_of_an_ingress_lower_models_leave_some_to_higher_ones():
    places = Places(10)
    high = AdmissionGate("high", AdmissionRules(is_adaptive=False), 0, places)
    low = AdmissionGate("low", AdmissionRules(is_adaptive=False, priority=4), 0, places)
    admitted = sum(low.admit(0) is None for _ in range(20))
    assert admitted == 7
    refusal = low.admit(0)
    assert refusal is not None
    assert refusal.reason is Reason.PLACES
    assert "--admission-max-requests" in refusal.error().message
    assert sum(high.admit(0) is None for _ in range(20)) == 3
    low.leave()
    assert high.admit(0) is None
    assert high.admit(0) is not None


@pytest.mark.parametrize("target_ms", [20, 60])
def test_a_given_target_is_kept_in_place_of_the_executions_time(target_ms):
    door = gate(AdmissionRules(target_queue_ns=target_ms * MS))
    overload(door, seconds=6.0)
    queue_ms = (door.limit - 1) * 5
    assert 0.5 * target_ms <= queue_ms <= 1.6 * target_ms
