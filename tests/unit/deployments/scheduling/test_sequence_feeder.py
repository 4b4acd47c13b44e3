# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""What an instance adds to requests of sequences, slot by slot."""

import numpy as np
import pytest

from backends.api.model_config import ModelConfig, SequenceState
from backends.api.request import InferenceResponse, tensor_from_numpy
from deployments.scheduling.factory import make_feeder
from deployments.scheduling.sequence_feeder import NullRequest
from tests.support.sequence_items import END, START, part, sequence_config, state_tensor

COUNT = SequenceState("C_IN", "C_OUT", "INT32", (1,))
GROWING = SequenceState("G_IN", "G_OUT", "INT32", (-1,))
FED = ["X", "START", "END", "READY", "CORRID"]


def feeder(**fields):
    return make_feeder(sequence_config(4, **fields))


def count(item) -> None:
    item.respond(
        InferenceResponse("", "", outputs=[state_tensor("C_OUT", int(item.value("C_IN")) + 1)])
    )


def grow(item, size: int) -> None:
    grown = tensor_from_numpy("G_OUT", np.zeros((1, size), np.int32))
    item.respond(InferenceResponse("", "", outputs=[grown]))


def names(item) -> list[str]:
    return [tensor.name for tensor in item.request.inputs]


def test_models_without_sequences_feed_nothing():
    assert make_feeder(ModelConfig("m")) is None


# Rows


@pytest.mark.parametrize(
    ("slots", "row_count", "expected"),
    [
        ([0], 0, None),
        ([0, 1, 2], 0, None),
        ([2], 0, ["", "", 2]),
        ([0, 3], 0, [0, "", "", 3]),
        ([1, 0], 0, [0, 1]),
        ([0, 1], 3, [0, 1, ""]),
        ([0, 1], 2, None),
        ([1, 3, 0], 1, [0, 1, "", 3]),
    ],
)
def test_rows_are_slots_and_gaps_are_filled(slots, row_count, expected):
    items = [part(100 + slot, START) for slot in slots]
    rows = feeder().feed(items, slots, row_count)
    if rows is not None:
        rows = ["" if isinstance(row, NullRequest) else row.correlation_id - 100 for row in rows]
    assert rows == expected


def test_the_oldest_strategy_has_no_rows():
    assert feeder(strategy="oldest").feed([part(1, START)], [3]) is None


# States


def test_states_stay_in_their_slots():
    fed = feeder(states=(COUNT,))
    for _ in range(3):
        items = [part(1), part(2)]
        fed.feed(items, [1, 3])
        count(items[0])
    assert [items[0].value("C_IN"), items[1].value("C_IN")] == [2, 0]


def test_a_start_begins_the_slot_anew_and_a_late_response_does_not_reach_it():
    fed = feeder(states=(COUNT,))
    late, first, second = part(1, START), part(2, START), part(2)
    fed.feed([late], [0])
    fed.feed([first], [0])
    count(first)
    late.respond(InferenceResponse("", "", outputs=[state_tensor("C_OUT", 99)]))
    fed.feed([second], [0])
    assert second.value("C_IN") == 1


def test_states_of_different_shapes_are_executed_one_after_the_other():
    fed = feeder(states=(GROWING,))
    first, second, third = part(1, START), part(2, START), part(3, START)
    fed.feed([first, second, third], [0, 1, 2])
    grow(first, 5)
    grow(second, 2)
    grow(third, 5)
    again = [part(1), part(2), part(3)]
    groups = fed.groups(again, [0, 1, 2])
    assert [(group.items, group.slots) for group in groups] == [
        ([again[0], again[2]], [0, 2]),
        ([again[1]], [1]),
    ]


def test_what_starts_has_states_of_the_first_shape():
    fed = feeder(states=(GROWING,))
    old = part(1, START)
    fed.feed([old], [0])
    grow(old, 5)
    assert len(fed.groups([part(1), part(2, START)], [0, 1])) == 2
    assert len(fed.groups([part(1, START), part(2, START)], [0, 1])) == 1


@pytest.mark.parametrize("states", [(), (COUNT,)])
def test_states_of_one_shape_leave_a_batch_whole(states):
    items = [part(1, START), part(2, START)]
    ((grouped, slots),) = feeder(states=states).groups(items, [0, 1])
    assert (grouped, slots) == (items, [0, 1])


# Requests that are executed once more


def test_what_was_fed_is_taken_off_a_request_that_is_executed_again():
    fed = feeder(states=(COUNT,), iterative=True)
    item = part(7, START)
    fed.feed([item], [0])
    assert names(item) == [*FED, "C_IN"]
    count(item)
    item.is_rescheduled = True
    fed.executed([item], [0])
    assert (names(item), item.flags) == (["X"], 0)
    fed.feed([item], [0])
    assert (names(item), item.value("START"), item.value("C_IN")) == ([*FED, "C_IN"], 0, 1)


# What an instance says of its slots


def test_sequences_run_from_their_start_to_their_end():
    fed = feeder()
    fed.feed([part(1, START), part("b", START)], [0, 2])
    assert fed.running == {0: 1, 2: "b"}
    fed.feed([part(1, END), part("b")], [0, 2])
    assert fed.running == {2: "b"}
    fed.feed([part(9, START)], [2])
    assert fed.running == {2: 9}


def test_an_iterative_request_runs_until_it_is_not_executed_again():
    fed = feeder(iterative=True)
    item = part(7, START)
    fed.feed([item], [1])
    item.is_rescheduled = True
    fed.executed([item], [1])
    assert fed.running == {1: 7}
    item.is_rescheduled = False
    fed.feed([item], [1])
    fed.executed([item], [1])
    assert fed.running == {}


def test_a_sequence_that_is_forgotten_does_not_run():
    fed = feeder(states=(COUNT,))
    item = part(1, START)
    fed.feed([item], [0])
    count(item)
    fed.forget(0)
    fed.forget(0)
    assert fed.running == {}
