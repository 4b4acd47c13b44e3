# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
import gc

import numpy as np
import pytest
from onnx import helper
from openvino import opset13

from backends.api.errors import InternalError, UnsupportedError
from backends.api.request import SEQUENCE_START
from tests.support.models import context_of, load
from tests.support.onnx_graphs import FLOAT, value
from tests.support.onnx_graphs import save as save_onnx
from tests.support.openvino_models import (
    answers,
    parameter,
    result,
    save,
    save_add_sub,
    save_layers,
    save_running_sum,
    save_sum_of_products,
)
from tests.support.recording import execute, recorded

ADD_SUB = """
name: "add_sub" backend: "openvino" max_batch_size: 8
input { name: "INPUT0" data_type: TYPE_INT32 dims: [ 4 ] }
input { name: "INPUT1" data_type: TYPE_INT32 dims: [ 4 ] }
output { name: "OUTPUT1" data_type: TYPE_INT32 dims: [ 4 ] }
output { name: "OUTPUT0" data_type: TYPE_INT32 dims: [ 4 ] }
"""
LAYERS = """
name: "layers" backend: "openvino" max_batch_size: 8
input { name: "X" data_type: TYPE_FP32 dims: [ 32 ] }
output { name: "Y" data_type: TYPE_FP32 dims: [ 32 ] }
"""
PADDING = 'parameters { key: "ENABLE_BATCH_PADDING" value { string_value: "YES" } }'


def of_value(value, rows=1):
    return recorded({name: np.full((rows, 4), value, np.int32) for name in ("INPUT0", "INPUT1")})


def rows_of(seed, rows, width=32):
    return np.random.default_rng(seed).standard_normal((rows, width)).astype(np.float32)


def layers(tmp_path, config=LAYERS, **fields):
    context = context_of(tmp_path, config)
    path = context.model_path("model.xml")
    save_layers(path, **fields)
    return context, path


def test_requests_of_any_batch_size_run_together_and_get_openvinos_own_answers(tmp_path):
    context, path = layers(tmp_path)
    given = [rows_of(seed, rows) for seed, rows in enumerate((1, 3, 2))]
    requests = [recorded({"X": each}) for each in given]
    batch = execute(load(context), *requests)
    for request, each in zip(requests, given, strict=True):
        expected = answers(path, {"X": each})["Y"]
        np.testing.assert_allclose(request.arrays()["Y"], expected, rtol=1e-5, atol=1e-6)
    assert 0 < batch.compute_input_end_ns <= batch.compute_output_start_ns


def test_outputs_come_in_config_order_and_only_those_asked_for(tmp_path):
    context = context_of(tmp_path, ADD_SUB)
    save_add_sub(context.model_path("model.xml"))
    instance = load(context)
    every, one = of_value(3), of_value(4)
    one.request.outputs.append("OUTPUT0")
    execute(instance, every, one)
    assert list(every.arrays()) == ["OUTPUT1", "OUTPUT0"]
    assert {name: array.tolist() for name, array in one.arrays().items()} == {
        "OUTPUT0": [[8, 8, 8, 8]]
    }


def test_an_answer_stays_when_the_next_inference_runs(tmp_path):
    config = LAYERS.replace("[ 32 ]", "[ 8192 ]")
    context = context_of(tmp_path, config)
    x = parameter("X", np.float32, [-1, 8192])
    save(context.model_path("model.xml"), [result(opset13.negative(x), "Y")], [x])
    instance = load(context)
    first, second = (recorded({"X": np.full((1, 8192), k, np.float32)}) for k in (1, 2))
    execute(instance, first)
    execute(instance, second)
    gc.collect()
    assert set(first.arrays()["Y"].ravel()) == {-1}
    assert set(second.arrays()["Y"].ravel()) == {-2}


def test_shape_that_the_model_refuses_fails_its_request_only(tmp_path):
    config = ADD_SUB.replace("dims: [ 4 ]", "dims: [ -1 ]")
    context = context_of(tmp_path, config)
    a, b = (parameter(name, np.int32, [-1, -1]) for name in ("INPUT0", "INPUT1"))
    outputs = [result(opset13.add(a, b), "OUTPUT0"), result(opset13.subtract(a, b), "OUTPUT1")]
    save(context.model_path("model.xml"), outputs, [a, b])
    instance = load(context)
    wrong = recorded({"INPUT0": np.ones((1, 4), np.int32), "INPUT1": np.ones((1, 3), np.int32)})
    right = of_value(2)
    execute(instance, wrong, right)
    assert isinstance(wrong.error, InternalError)
    assert wrong.error.message.startswith("openvino error in running inference : ")
    assert "model 'add_sub', inputs 'INPUT0' [1, 4], 'INPUT1' [1, 3]" in wrong.error.message
    assert "\n" not in wrong.error.message
    assert right.arrays()["OUTPUT0"].tolist() == [[4, 4, 4, 4]]


@pytest.mark.parametrize("threads", [1, 2])
def test_requests_after_a_failure_are_answered_by_their_own_shapes(tmp_path, threads):
    # OpenVINO itself refuses the third request over the shapes of the second.
    config = (
        'name: "product" backend: "openvino" '
        'input { name: "A" data_type: TYPE_FP32 dims: [ -1, -1 ] } '
        'input { name: "B" data_type: TYPE_FP32 dims: [ -1, -1 ] } '
        'output { name: "Y" data_type: TYPE_FP32 dims: [ -1, -1 ] }'
    )
    context = context_of(tmp_path, config, thread_count=threads)
    a, b = (parameter(name, np.float32, [-1, -1]) for name in ("A", "B"))
    product = opset13.matmul(opset13.relu(a), b, False, False)
    save(context.model_path("model.xml"), [result(product, "Y")], [a, b])
    instance = load(context)
    for rows, fits in ((4, True), (3, False), (4, True), (4, True), (3, False)):
        request = recorded({"A": np.ones((1, 4), np.float32), "B": np.ones((rows, 2), np.float32)})
        execute(instance, request)
        if fits:
            assert request.arrays()["Y"].tolist() == [[4, 4]]
        else:
            assert "Incompatible MatMul matrix dimension" in request.error.message


def test_fixed_batch_dimension_becomes_dynamic_where_the_graph_lets_it(tmp_path):
    context, _ = layers(tmp_path, batch=1)
    _, dynamic = layers(tmp_path / "other")
    given = rows_of(1, 5)
    request = recorded({"X": given})
    execute(load(context), request)
    expected = answers(dynamic, {"X": given})["Y"]
    np.testing.assert_allclose(request.arrays()["Y"], expected, rtol=1e-5, atol=1e-6)


def test_batch_of_another_size_than_the_graphs_has_the_text_of_triton(tmp_path):
    context, path = layers(tmp_path, batch=4, keeps_batch=False)
    instance = load(context)
    small, whole = recorded({"X": rows_of(0, 2)}), recorded({"X": rows_of(1, 4)})
    execute(instance, small, whole)
    assert isinstance(small.error, InternalError)
    assert small.error.message.startswith(
        "expected requests with batch size '4', got '2'... this error can be avoided by setting "
        "'ENABLE_BATCH_PADDING' parameter in model configuration to 'YES' at a performance cost."
    )
    expected = answers(path, {"X": rows_of(1, 4)})["Y"]
    np.testing.assert_allclose(whole.arrays()["Y"], expected, rtol=1e-5, atol=1e-6)


def test_smaller_batches_are_padded_where_the_config_allows_it(tmp_path):
    context, path = layers(tmp_path, LAYERS + PADDING, batch=4, keeps_batch=False)
    instance = load(context)
    given = [rows_of(0, 1), rows_of(1, 2)]
    requests = [recorded({"X": each}) for each in given]
    execute(instance, *requests)
    whole = recorded({"X": rows_of(2, 4)})
    execute(instance, whole)
    padded = np.concatenate([*given, np.zeros((1, 32), np.float32)])
    expected = answers(path, {"X": padded})["Y"]
    np.testing.assert_allclose(requests[0].arrays()["Y"], expected[:1], rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(requests[1].arrays()["Y"], expected[1:3], rtol=1e-5, atol=1e-6)
    assert whole.arrays()["Y"].shape == (4, 32)


@pytest.mark.parametrize(
    ("datatype", "dtype"),
    [
        ("BOOL", np.bool_),
        ("UINT8", np.uint8),
        ("UINT16", np.uint16),
        ("UINT32", np.uint32),
        ("UINT64", np.uint64),
        ("INT8", np.int8),
        ("INT16", np.int16),
        ("INT32", np.int32),
        ("INT64", np.int64),
        ("FP16", np.float16),
        ("FP32", np.float32),
    ],
)
def test_every_datatype_of_triton_passes_through(tmp_path, datatype, dtype):
    config = (
        'name: "same" backend: "openvino" max_batch_size: 4 '
        f'input {{ name: "X" data_type: TYPE_{datatype} dims: [ 3 ] }} '
        f'output {{ name: "Y" data_type: TYPE_{datatype} dims: [ 3, 1 ] }}'
    )
    context = context_of(tmp_path, config)
    x = parameter("X", dtype, [-1, 3])
    y = opset13.unsqueeze(x, opset13.constant(np.array([2], np.int64)))
    save(context.model_path("model.xml"), [result(y, "Y")], [x])
    given = np.array([[0, 1, 1]], dtype)
    request = recorded({"X": given})
    execute(load(context), request)
    array = request.arrays()["Y"]
    assert array.dtype == given.dtype
    assert np.array_equal(array, given[..., np.newaxis])


def test_datatypes_of_the_config_are_converted_to_the_models(tmp_path):
    config = ADD_SUB.replace("TYPE_INT32", "TYPE_FP32", 2).replace("TYPE_INT32", "TYPE_INT64")
    context = context_of(tmp_path, config)
    save_add_sub(context.model_path("model.xml"))
    request = recorded(
        {"INPUT0": np.full((1, 4), 5, np.float32), "INPUT1": np.full((1, 4), 2, np.float32)}
    )
    execute(load(context), request)
    arrays = request.arrays()
    assert {name: array.dtype for name, array in arrays.items()} == {
        "OUTPUT1": np.int64,
        "OUTPUT0": np.int64,
    }
    assert arrays["OUTPUT1"].tolist() == [[3, 3, 3, 3]]


def test_model_without_batching_and_with_scalars_runs(tmp_path):
    context = context_of(
        tmp_path,
        'name: "s" backend: "openvino" input { name: "X" data_type: TYPE_FP32 dims: [ 1 ] } '
        'output { name: "Y" data_type: TYPE_FP32 dims: [ 1 ] }',
    )
    x = parameter("X", np.float32, [])
    save(context.model_path("model.xml"), [result(opset13.negative(x), "Y")], [x])
    request = recorded({"X": np.array([2.5], np.float32)})
    execute(load(context), request)
    assert request.arrays()["Y"].tolist() == [-2.5]


def test_onnx_file_is_read(tmp_path):
    config = LAYERS.replace("[ 32 ]", "[ 4 ]") + 'default_model_filename: "model.onnx"'
    context = context_of(tmp_path, config)
    save_onnx(
        context.model_path("model.xml"),
        [helper.make_node("Neg", ["X"], ["Y"])],
        [value("X", FLOAT, ["N", 4])],
        [value("Y", FLOAT, ["N", 4])],
    )
    request = recorded({"X": np.array([[1, -2, 3, 0]], np.float32)})
    execute(load(context), request)
    assert request.arrays()["Y"].tolist() == [[-1, 2, -3, 0]]


SUM = """
name: "sum" backend: "openvino" max_batch_size: 1 sequence_batching { direct { } }
input { name: "X" data_type: TYPE_FP32 dims: [ 1 ] }
output { name: "Y" data_type: TYPE_FP32 dims: [ 1 ] }
"""


def step(value, flags=0):
    return recorded({"X": np.array([[value]], np.float32)}, flags=flags)


def test_state_of_the_model_lasts_from_one_start_of_a_sequence_to_the_next(tmp_path):
    context = context_of(tmp_path, SUM)
    save_running_sum(context.model_path("model.xml"))
    instance = load(context)
    steps = [step(1, SEQUENCE_START), step(2), step(3), step(10, SEQUENCE_START), step(1)]
    for each in steps:
        execute(instance, each)
    assert [each.arrays()["Y"].item() for each in steps] == [1, 3, 6, 10, 11]


def test_state_of_a_sequence_outlasts_a_request_that_fails(tmp_path):
    config = (
        'name: "sums" backend: "openvino" sequence_batching { direct { } } '
        'input { name: "A" data_type: TYPE_FP32 dims: [ 1, -1 ] } '
        'input { name: "B" data_type: TYPE_FP32 dims: [ -1, 1 ] } '
        'output { name: "Y" data_type: TYPE_FP32 dims: [ 1, 1 ] }'
    )
    context = context_of(tmp_path, config)
    save_sum_of_products(context.model_path("model.xml"))
    instance = load(context)

    def ask(width, height, flags=0):
        arrays = {"A": np.ones((1, width), np.float32), "B": np.ones((height, 1), np.float32)}
        request = recorded(arrays, flags=flags)
        execute(instance, request)
        return request

    assert ask(2, 2, SEQUENCE_START).arrays()["Y"].item() == 2
    assert isinstance(ask(2, 3).error, InternalError)
    assert ask(3, 3).arrays()["Y"].item() == 5


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("sequence_batching { direct { } }", ""),
        ("max_batch_size: 1", "max_batch_size: 2"),
        ("direct { }", "oldest { max_candidate_sequences: 2 }"),
    ],
)
def test_state_that_would_pass_between_sequences_is_refused(tmp_path, old, new):
    context = context_of(tmp_path, SUM.replace(old, new))
    save_running_sum(context.model_path("model.xml"))
    with pytest.raises(UnsupportedError, match="sequence_batching with the direct strategy"):
        load(context)
