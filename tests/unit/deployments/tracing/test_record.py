# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
from hypothesis import given
from hypothesis import strategies as st

from backends.api.request import TraceContext
from deployments.metrics.counters import ExecutionTimes
from deployments.tracing.record import TracedModel, aligned, child_of, execution_activities

INSTANTS = st.lists(st.tuples(st.sampled_from("abc"), st.integers(0, 2**62)), min_size=1)


def test_an_execution_has_tritons_five_instants():
    activities = execution_activities(5, ExecutionTimes(10, 20, 30, 40))
    assert activities == [
        ("QUEUE_START", 5),
        ("COMPUTE_START", 10),
        ("COMPUTE_INPUT_END", 20),
        ("COMPUTE_OUTPUT_START", 30),
        ("COMPUTE_END", 40),
    ]


def test_instants_of_the_same_clock_stay_as_they_are():
    activities = [("QUEUE_START", 110), ("COMPUTE_END", 190)]
    assert aligned(activities, 100, 200) == activities
    assert aligned([], 100, 200) == []


def test_instants_of_another_machine_are_moved_between_sending_and_receiving():
    activities = [("QUEUE_START", 7_000_000), ("COMPUTE_END", 7_000_080)]
    assert aligned(activities, 100, 200) == [("QUEUE_START", 110), ("COMPUTE_END", 190)]


@given(INSTANTS, st.integers(0, 2**62), st.integers(0, 2**40))
def test_distances_between_instants_never_change(activities, sent_ns, duration_ns):
    moved = aligned(activities, sent_ns, sent_ns + duration_ns)
    assert len({after[1] - before[1] for before, after in zip(activities, moved, strict=True)}) == 1


def test_a_child_belongs_to_the_record_of_the_request_that_asks():
    child = TracedModel(8, "step", 1)
    context = child_of(TraceContext(7, has_tensors=True, context="{}"), child)
    assert child.parent_id == 7
    assert context == TraceContext(8, 7, True, "{}")
