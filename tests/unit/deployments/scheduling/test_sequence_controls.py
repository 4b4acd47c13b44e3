# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Control and state inputs, byte by byte."""

import numpy as np
import pytest

from backends.api.errors import InvalidArgumentError
from backends.api.model_config import InitialState, ModelOutput, SequenceControl, SequenceState
from backends.api.request import InferenceResponse, tensor_as_numpy, tensor_from_numpy
from tests.support.sequence_items import (
    BOTH,
    END,
    START,
    Instance,
    batcher,
    part,
    state_tensor,
)


def ran(*parts, **fields):
    """Run parts of sequences through a batcher of these fields and return them."""
    run = Instance(batcher(**fields))
    run.enqueue(*parts)
    run.run()
    return run.ran


@pytest.mark.parametrize(
    ("flags", "expected"),
    [(START, (1, -1.0, True)), (END, (0, 1.0, True)), (BOTH, (1, 1.0, True)), (0, (0, -1.0, True))],
)
def test_flags_become_the_values_of_the_config(flags, expected):
    if not flags & START:
        (_, item) = ran(part(1, START), part(1, flags))
    else:
        (item,) = ran(part(1, flags))
    assert tuple(item.value(name) for name in ("START", "END", "READY")) == expected


@pytest.mark.parametrize(("max_batch_size", "shape"), [(0, (1,)), (4, (1, 1))])
def test_controls_have_a_batch_dimension_where_the_model_batches(max_batch_size, shape):
    (item,) = ran(part(1, START), max_batch_size=max_batch_size)
    assert {tensor.shape for tensor in item.request.inputs[1:]} == {shape}


@pytest.mark.parametrize(
    ("datatype", "given", "expected"),
    [
        ("UINT64", 2**64 - 1, 2**64 - 1),
        ("INT64", 2**64 - 1, -1),
        ("UINT32", 2**40 + 5, 5),
        ("INT32", 2**32 - 2, -2),
        ("BYTES", "s-ö", "s-ö".encode()),
    ],
)
def test_a_correlation_id_has_the_type_of_its_control(datatype, given, expected):
    control = SequenceControl("CORRID", "CONTROL_SEQUENCE_CORRID", datatype)
    (item,) = ran(part(given, START), controls=(control,))
    assert item.value("CORRID") == expected


def test_a_number_is_refused_where_the_control_is_a_string():
    control = SequenceControl("ID", "CONTROL_SEQUENCE_CORRID", "BYTES")
    with pytest.raises(InvalidArgumentError) as caught:
        ran(part(5, START), controls=(control,))
    assert caught.value.message == (
        "[request id: <id_unknown>] sequence batching control 'ID' data-type is 'UINT64', but "
        "model 'm' expects 'BYTES'"
    )


# Implicit states


def counting(run: Instance) -> None:
    """Let the model count in its state C, from what C held before."""

    def execute(item):
        count = int(item.value("C_IN")) + 1
        item.respond(InferenceResponse("", "", outputs=[state_tensor("C_OUT", count)]))

    run.execute = execute


def counted(flags: list[int], initial: InitialState | None = None, **files: bytes) -> list[int]:
    state = SequenceState("C_IN", "C_OUT", "INT32", (1,), initial)
    run = Instance(batcher(1, files, states=(state,)))
    counting(run)
    run.enqueue(*[part(1, each) for each in flags])
    run.run()
    return [int(item.value("C_IN")) for item in run.ran]


def test_a_state_starts_at_zero_and_is_what_the_last_response_held():
    assert counted([START, 0, 0, END]) == [0, 1, 2, 3]


def test_a_start_resets_the_state():
    assert counted([START, 0, START, 0]) == [0, 1, 0, 1]


def test_a_state_that_the_model_does_not_update_stays():
    state = SequenceState("C_IN", "C_OUT", "INT32", (1,))
    run = Instance(batcher(states=(state,)))

    def execute(item):
        made = [state_tensor("C_OUT", 5)] if item.request.flags & START else []
        item.respond(InferenceResponse("", "", outputs=made))

    run.execute = execute
    run.enqueue(*[part(1, flags) for flags in (START, 0, 0, END)])
    run.run()
    assert [int(item.value("C_IN")) for item in run.ran] == [0, 5, 5, 5]


def test_a_slot_keeps_nothing_for_the_next_sequence():
    assert counted([START, END, START, END]) == [0, 1, 0, 1]


def test_an_initial_state_comes_from_its_file():
    initial = InitialState("start", "INT32", (1,), data_file="ten")
    assert counted([START, 0, START], initial, ten=np.int32(10).tobytes() + b"more") == [10, 11, 10]


def test_an_initial_state_of_zeros():
    assert counted([START, 0], InitialState("start", "INT32", (1,), zero_data=True)) == [0, 1]


def test_a_file_that_is_too_short_fails_the_load():
    initial = InitialState("start", "INT32", (1,), data_file="short")
    with pytest.raises(InvalidArgumentError) as caught:
        counted([START], initial, short=b"\0\0")
    assert caught.value.message == (
        "initial_state setting expects 4 bytes, but the data provided from shortonly has 2 bytes."
    )


def test_an_initial_state_of_other_dims_fails_the_load():
    with pytest.raises(InvalidArgumentError) as caught:
        counted([START], InitialState("start", "INT32", (2,), zero_data=True))
    assert caught.value.message == (
        "'initial_state' dim for input name 'C_IN' doesn't match 'state' dim description. 2 != 1"
    )


def test_states_of_strings_start_empty():
    state = SequenceState("S_IN", "S_OUT", "BYTES", (2,))
    run = Instance(batcher(states=(state,)), execute=lambda item: None)
    run.enqueue(part(1, START))
    run.run()
    assert run.ran[0].value("S_IN").tolist() == [b"", b""]


def test_a_state_may_grow_and_only_equal_shapes_share_a_batch():
    state = SequenceState("G_IN", "G_OUT", "INT32", (-1,))
    run = Instance(batcher(states=(state,), strategy="oldest"))

    def execute(item):
        grown = np.append(np.atleast_1d(item.value("G_IN")), 7).astype(np.int32)
        item.respond(InferenceResponse("", "", outputs=[tensor_from_numpy("G_OUT", grown[None])]))

    run.execute = execute
    run.enqueue(part(1, START), part(1), part(1))
    run.step()
    run.step()
    run.enqueue(part(2, START), part(2))
    run.run()
    assert [ids for _, ids in run.left] == [[1], [1], [2], [1], [2]]
    state_in = next(tensor for tensor in run.ran[3].request.inputs if tensor.name == "G_IN")
    assert state_in.shape == (1, 3)


def test_null_requests_carry_zero_states_of_the_same_shape():
    state = SequenceState("C_IN", "C_OUT", "INT32", (1,))
    run = Instance(batcher(states=(state,)))
    counting(run)
    run.enqueue(part(1, START), part(2, START))
    run.run()
    run.enqueue(part(2))
    run.run()
    null, own = run.rows[-1]
    assert [tensor.name for tensor in null.request.inputs] == [
        tensor.name for tensor in own.request.inputs
    ]
    assert tensor_as_numpy(null.request.inputs[-1]).tolist() == [[0]]
    assert own.value("C_IN") == 1


def test_only_state_outputs_that_the_config_lists_reach_the_client():
    states = tuple(SequenceState(f"{name}_IN", f"{name}_OUT", "INT32", (1,)) for name in "AB")
    outputs = (ModelOutput("B_OUT", "INT32", (1,)), ModelOutput("Y", "INT32", (1,)))
    run = Instance(batcher(states=states, output=outputs))
    made = [state_tensor(name, 1) for name in ("A_OUT", "B_OUT", "Y")]
    run.execute = lambda item: item.respond(InferenceResponse("", "", outputs=made))
    run.enqueue(part(1, START))
    run.run()
    assert [output.name for output in run.ran[0].answer.outputs] == ["B_OUT", "Y"]
