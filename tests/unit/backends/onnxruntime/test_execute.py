# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
import numpy as np
import pytest
from onnx import TensorProto, helper

from backends.api.errors import InternalError, InvalidArgumentError
from tests.support.models import context_of, load
from tests.support.onnx_graphs import FLOAT, INT32, STRING, save, save_add_sub, value
from tests.support.recording import execute, recorded

ADD_SUB = """
name: "add_sub" platform: "onnxruntime_onnx" max_batch_size: 8
input { name: "INPUT0" data_type: TYPE_INT32 dims: [ 4 ] }
input { name: "INPUT1" data_type: TYPE_INT32 dims: [ 4 ] }
output { name: "OUTPUT1" data_type: TYPE_INT32 dims: [ 4 ] }
output { name: "OUTPUT0" data_type: TYPE_INT32 dims: [ 4 ] }
"""


@pytest.fixture
def add_sub(tmp_path):
    context = context_of(tmp_path, ADD_SUB)
    save_add_sub(context.model_path("model.onnx"))
    instance = load(context)
    yield instance
    instance.close()


def pair(rows, first=0, **fields):
    a = np.arange(first, first + rows * 4, dtype=np.int32).reshape(rows, 4)
    return recorded({"INPUT0": a, "INPUT1": np.ones_like(a)}, **fields)


def test_outputs_come_in_config_order(add_sub):
    request = pair(1, id="x")
    execute(add_sub, request)
    assert list(request.arrays()) == ["OUTPUT1", "OUTPUT0"]
    assert request.arrays()["OUTPUT0"].tolist() == [[1, 2, 3, 4]]
    assert request.response.id == "x"
    assert request.response.model_version == "1"


def test_batch_of_requests_is_split_by_their_sizes(add_sub):
    requests = [pair(2, 0), pair(1, 100), pair(3, 200)]
    batch = execute(add_sub, *requests)
    for request, first, rows in zip(requests, (0, 100, 200), (2, 1, 3), strict=True):
        expected = np.arange(first, first + rows * 4).reshape(rows, 4)
        assert np.array_equal(request.arrays()["OUTPUT0"], expected + 1)
        assert np.array_equal(request.arrays()["OUTPUT1"], expected - 1)
    assert 0 < batch.compute_input_end_ns <= batch.compute_output_start_ns


def test_every_request_of_a_batch_gets_the_outputs_it_asked_for(add_sub):
    requests = [pair(1, outputs=["OUTPUT0"]), pair(1, outputs=["OUTPUT1"]), pair(1)]
    execute(add_sub, *requests)
    assert [list(request.arrays()) for request in requests] == [
        ["OUTPUT0"],
        ["OUTPUT1"],
        ["OUTPUT1", "OUTPUT0"],
    ]


def test_inputs_may_come_in_any_order_when_alone(add_sub):
    request = recorded(
        {"INPUT1": np.ones((1, 4), np.int32), "INPUT0": np.full((1, 4), 5, np.int32)}
    )
    execute(add_sub, request)
    assert request.arrays()["OUTPUT1"].tolist() == [[4, 4, 4, 4]]


def test_requests_with_inputs_in_different_orders_are_all_answered(add_sub):
    other = recorded({"INPUT1": np.ones((1, 4), np.int32), "INPUT0": np.zeros((1, 4), np.int32)})
    requests = [pair(1), other]
    execute(add_sub, *requests)
    assert other.arrays()["OUTPUT1"].tolist() == [[-1, -1, -1, -1]]
    assert requests[0].arrays()["OUTPUT1"].tolist() == [[-1, 0, 1, 2]]


def test_unaligned_input_is_read_correctly(add_sub):
    request = pair(1)
    tensor = request.request.inputs[0]
    tensor.data = memoryview(b"x" + bytes(tensor.data))[1:]
    execute(add_sub, request)
    assert request.arrays()["OUTPUT0"].tolist() == [[1, 2, 3, 4]]


GATHER = """
name: "gather" platform: "onnxruntime_onnx" max_batch_size: 8
input { name: "INDEX" data_type: TYPE_INT32 dims: [ 1 ] }
output { name: "PICKED" data_type: TYPE_FP32 dims: [ 1 ] }
"""


def test_request_that_fails_in_the_model_fails_only_itself(tmp_path):
    context = context_of(tmp_path, GATHER)
    table = helper.make_node(
        "Constant",
        [],
        ["T"],
        value=helper.make_tensor("t", TensorProto.FLOAT, [3], [10.0, 20.0, 30.0]),
    )
    save(
        context.model_path("model.onnx"),
        [table, helper.make_node("Gather", ["T", "INDEX"], ["PICKED"])],
        [value("INDEX", INT32, ["N", 1])],
        [value("PICKED", FLOAT, ["N", 1])],
    )
    requests = [recorded({"INDEX": np.array([[index]], np.int32)}) for index in (2, 99, 0)]
    execute(load(context), *requests)
    assert requests[0].arrays()["PICKED"].tolist() == [[30.0]]
    assert requests[2].arrays()["PICKED"].tolist() == [[10.0]]
    error = requests[1].error
    assert isinstance(error, InternalError)
    assert error.message.startswith("onnx runtime error 2: ")
    assert "model 'gather', inputs 'INDEX' [1, 1]" in error.message


STRINGS = """
name: "strings" backend: "onnxruntime" max_batch_size: 4
input { name: "IN" data_type: TYPE_STRING dims: [ 2 ] }
output { name: "OUT" data_type: TYPE_STRING dims: [ 2 ] }
"""


@pytest.fixture
def strings(tmp_path):
    context = context_of(tmp_path, STRINGS)
    save(
        context.model_path("model.onnx"),
        [helper.make_node("Identity", ["IN"], ["OUT"])],
        [value("IN", STRING, ["N", 2])],
        [value("OUT", STRING, ["N", 2])],
    )
    return load(context)


def test_strings_pass_through_batched(strings):
    rows = [["grün", ""], ["a\0b", "longer than any small string"]]
    requests = [
        recorded({"IN": np.array([[text.encode() for text in row]], dtype=object)}) for row in rows
    ]
    execute(strings, *requests)
    for request, row in zip(requests, rows, strict=True):
        assert request.arrays()["OUT"].tolist() == [[text.encode() for text in row]]


def test_string_that_is_not_utf8_is_the_clients_error(strings):
    request = recorded({"IN": np.array([[b"\xff", b""]], dtype=object)})
    execute(strings, request)
    assert isinstance(request.error, InvalidArgumentError)
    assert "input 'IN' of model 'strings'" in request.error.message


def test_model_without_batching_runs_each_request_on_its_own(tmp_path):
    config = ADD_SUB.replace("max_batch_size: 8", "")
    context = context_of(tmp_path, config)
    save_add_sub(context.model_path("model.onnx"), batch=None)
    requests = [
        recorded({name: np.full(4, k, np.int32) for name in ("INPUT0", "INPUT1")}) for k in (1, 2)
    ]
    execute(load(context), *requests)
    assert [request.arrays()["OUTPUT0"].tolist() for request in requests] == [[2] * 4, [4] * 4]


def test_scalars_travel_as_one_element(tmp_path):
    context = context_of(
        tmp_path,
        'name: "s" backend: "onnxruntime" input { name: "X" data_type: TYPE_FP32 dims: [ 1 ] } '
        'output { name: "Y" data_type: TYPE_FP32 dims: [ 1 ] }',
    )
    save(
        context.model_path("model.onnx"),
        [helper.make_node("Neg", ["X"], ["Y"])],
        [value("X", FLOAT, [])],
        [value("Y", FLOAT, [])],
    )
    request = recorded({"X": np.array([2.5], np.float32)})
    execute(load(context), request)
    assert request.arrays()["Y"].tolist() == [-2.5]


def test_output_without_the_batch_dimension_is_explained(tmp_path):
    context = context_of(
        tmp_path,
        'name: "r" backend: "onnxruntime" max_batch_size: 4 '
        'input { name: "X" data_type: TYPE_FP32 dims: [ 2 ] } '
        'output { name: "Y" data_type: TYPE_FP32 dims: [ 2 ] }',
    )
    save(
        context.model_path("model.onnx"),
        [
            helper.make_node(
                "Constant", [], ["C"], value=helper.make_tensor("c", TensorProto.BOOL, [1], [True])
            ),
            helper.make_node("Compress", ["X", "C"], ["Y"], axis=0),
        ],
        [value("X", FLOAT, ["N", 2])],
        [value("Y", FLOAT, ["M", 2])],
    )
    requests = [recorded({"X": np.ones((2, 2), np.float32)}) for _ in range(2)]
    execute(load(context), *requests)
    assert "output 'Y' with shape [1, 2] for a batch of 2" in requests[0].error.message
