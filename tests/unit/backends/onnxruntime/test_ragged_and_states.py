# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Ragged batches and sequence states in ONNX models."""

import numpy as np
import pytest
from onnx import helper

from tests.support.models import context_of, load
from tests.support.onnx_graphs import FLOAT, INT32, save, value
from tests.support.recording import execute, recorded

INT64 = 7

RAGGED = """
name: "sums" platform: "onnxruntime_onnx" max_batch_size: 8
input { name: "X" data_type: TYPE_FP32 dims: [ -1 ] allow_ragged_batch: true }
output { name: "SUM" data_type: TYPE_FP32 dims: [ 1 ] }
output { name: "TWICE" data_type: TYPE_FP32 dims: [ -1 ] }
batch_input { kind: BATCH_ACCUMULATED_ELEMENT_COUNT_WITH_ZERO target_name: "ENDS"
              data_type: TYPE_INT32 source_input: "X" }
batch_output { target_name: "TWICE" kind: BATCH_SCATTER_WITH_INPUT_SHAPE source_input: "X" }
"""


def constant(name: str, values, kind: int):
    tensor = helper.make_tensor(name, kind, [len(values)], values)
    return helper.make_node("Constant", [], [name], value=tensor)


def save_sums(path: str) -> None:
    """SUM is the sum of each request's own X, found between its ENDS; TWICE is X + X."""
    save(
        path,
        [
            constant("zero", [0.0], FLOAT),
            constant("axis", [0], INT64),
            constant("one", [1], INT64),
            constant("minus_one", [-1], INT64),
            constant("most", [2**31 - 1], INT64),
            helper.make_node("Squeeze", ["axis"], ["axis0"]),
            helper.make_node("CumSum", ["X", "axis0"], ["running"]),
            helper.make_node("Concat", ["zero", "running"], ["padded"], axis=0),
            helper.make_node("Gather", ["padded", "ENDS"], ["at"], axis=0),
            helper.make_node("Slice", ["at", "one", "most"], ["upper"]),
            helper.make_node("Slice", ["at", "axis", "minus_one"], ["lower"]),
            helper.make_node("Sub", ["upper", "lower"], ["sums"]),
            helper.make_node("Unsqueeze", ["sums", "one"], ["SUM"]),
            helper.make_node("Add", ["X", "X"], ["TWICE"]),
        ],
        [value("X", FLOAT, ["T"]), value("ENDS", INT32, ["N"])],
        [value("SUM", FLOAT, ["B", 1]), value("TWICE", FLOAT, ["T2"])],
    )


@pytest.fixture
def sums(tmp_path):
    context = context_of(tmp_path, RAGGED)
    save_sums(context.model_path("model.onnx"))
    instance = load(context)
    yield instance
    instance.close()


def numbers(*values: float, **fields):
    return recorded({"X": np.array([values], np.float32)}, **fields)


def test_requests_of_different_sizes_run_as_one_ragged_batch(sums):
    requests = [numbers(1, 2, 3), numbers(10), numbers(4, 5)]
    runs = []
    run = sums._session.run

    class Counted:
        def run(self, *args):
            runs.append(args)
            return run(*args)

    sums._session = Counted()
    execute(sums, *requests)
    assert len(runs) == 1
    assert [request.arrays()["SUM"].tolist() for request in requests] == [[[6]], [[10]], [[9]]]
    twice = [request.arrays()["TWICE"].tolist() for request in requests]
    assert twice == [[[2, 4, 6]], [[20]], [[8, 10]]]


def test_a_single_request_is_fed_flat_too(sums):
    request = numbers(1, 2, 3)
    execute(sums, request)
    assert request.arrays()["SUM"].tolist() == [[6]]
    assert request.arrays()["TWICE"].tolist() == [[2, 4, 6]]


COUNTER = """
name: "counter" platform: "onnxruntime_onnx" max_batch_size: 4
input { name: "X" data_type: TYPE_INT32 dims: [ 1 ] }
output { name: "Y" data_type: TYPE_INT32 dims: [ 1 ] }
sequence_batching {
  control_input { name: "READY"
                  control { kind: CONTROL_SEQUENCE_READY int32_false_true: [ 0, 1 ] } }
  state { input_name: "C_IN" output_name: "C_OUT" data_type: TYPE_INT32 dims: [ 1 ] }
}
"""


@pytest.fixture
def counter(tmp_path):
    """Y and the state C are the sum of X and C, where READY."""
    context = context_of(tmp_path, COUNTER)
    names = ("X", "READY", "C_IN")
    save(
        context.model_path("model.onnx"),
        [
            helper.make_node("Mul", ["X", "READY"], ["ready"]),
            helper.make_node("Add", ["ready", "C_IN"], ["C_OUT"]),
            helper.make_node("Identity", ["C_OUT"], ["Y"]),
        ],
        [value(name, INT32, ["N", 1]) for name in names],
        [value(name, INT32, ["N", 1]) for name in ("Y", "C_OUT")],
    )
    instance = load(context)
    yield instance
    instance.close()


def step(x: int, state: int, **fields):
    arrays = {"X": x, "READY": 1, "C_IN": state}
    return recorded({name: np.array([[n]], np.int32) for name, n in arrays.items()}, **fields)


def test_states_are_made_whether_asked_for_or_not(counter):
    requests = [step(1, 10), step(2, 20, outputs=["Y"])]
    execute(counter, *requests)
    assert [request.arrays()["C_OUT"].tolist() for request in requests] == [[[11]], [[22]]]
    alone = step(3, 30, outputs=["Y"])
    execute(counter, alone)
    assert alone.arrays()["C_OUT"].tolist() == [[33]]


def test_inputs_of_a_batch_may_come_in_different_orders(counter):
    first, second = step(1, 10), step(2, 20)
    second.request.inputs.reverse()
    execute(counter, first, second)
    assert [each.arrays()["Y"].tolist() for each in (first, second)] == [[[11]], [[22]]]
