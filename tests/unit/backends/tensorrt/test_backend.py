# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""The TensorRT backend over a stand-in for TensorRT: no engine was ever run."""

import logging
import sys

import ml_dtypes
import numpy as np
import pytest

from tests.support.models import load
from tests.support.recording import execute, recorded
from tests.support.tensorrt_plans import BARE, FULL, RESIZE, RESIZE_PLAN, add_sub, limits
from tests.support.tensorrt_standin import plan_of, tensor


def rows(count, seed=0, dtype=np.float32):
    random = np.random.default_rng(seed)
    names = ("INPUT0", "INPUT1")
    return {name: random.integers(-9, 9, (count, 4)).astype(dtype) for name in names}


def assert_answers(request, inputs):
    arrays = request.arrays()
    np.testing.assert_array_equal(arrays["OUTPUT0"], inputs["INPUT0"] + inputs["INPUT1"])
    np.testing.assert_array_equal(arrays["OUTPUT1"], inputs["INPUT0"] - inputs["INPUT1"])


def test_batch_is_executed_once_and_each_request_gets_its_own(model, gpu):
    instance = load(model())
    inputs = [rows(count, seed=count) for count in (1, 3, 2)]
    requests = [recorded(each) for each in inputs]
    execute(instance, *requests)
    assert gpu.runs == 1
    for request, each in zip(requests, inputs, strict=True):
        assert_answers(request, each)


def test_only_outputs_that_are_asked_for_leave_the_gpu(model, gpu):
    instance = load(model())
    execute(instance, recorded(rows(1), outputs=["OUTPUT1"]))
    assert gpu.copies == 3


def test_memory_is_kept_grows_and_is_given_back(model, gpu):
    instance = load(model())
    for count in (1, 8, 2):
        inputs = rows(count)
        request = recorded(inputs)
        execute(instance, request)
        assert_answers(request, inputs)
        assert len(gpu.memory) == 4
    instance.close()
    assert gpu.memory == {}


@pytest.mark.parametrize(
    ("dtype", "config", "array"),
    [
        ("HALF", "FP16", np.float16),
        ("BF16", "BF16", ml_dtypes.bfloat16),
        ("INT8", "INT8", np.int8),
        ("INT32", "INT32", np.int32),
        ("INT64", "INT64", np.int64),
    ],
)
def test_datatypes_go_through(model, dtype, config, array):
    instance = load(model(FULL.replace("FP32", config), add_sub(dtype)))
    inputs = rows(2, dtype=array)
    request = recorded(inputs)
    execute(instance, request)
    assert_answers(request, inputs)


def test_batch_runs_with_the_profile_whose_best_shape_is_nearest(model):
    plan = add_sub(profiles=(limits(1, 1, 8), limits(1, 8, 8), limits(2, 2, 2)))
    config = FULL + 'instance_group { name: "m_0" kind: KIND_GPU profile: [ "0", "1" ] }'
    instance = load(model(config, plan))
    used = []
    for index, context in instance._contexts.items():
        run = context.execute_async_v3
        context.execute_async_v3 = lambda s, i=index, r=run: used.append(i) or r(s)
    for count in (1, 7, 2):
        execute(instance, recorded(rows(count)))
    assert used == [0, 1, 0]


def test_request_outside_of_every_profile_fails_alone_and_says_the_bounds(model, caplog):
    instance = load(model(plan=add_sub(profiles=(limits(2, 4, 8),))))
    request = recorded(rows(1))
    execute(instance, request)
    assert request.error.message == (
        "request specifies invalid shape for input 'INPUT0' for m_0_0. Error details: model "
        "expected the shape of dimension 0 to be between 2 and 8 but received 1"
    )
    assert "unable to find a TensorRT optimization profile" in caplog.text
    good = recorded(rows(2))
    execute(instance, good)
    assert_answers(good, rows(2))


def test_missing_input_is_named(model):
    instance = load(model())
    request = recorded({"INPUT0": rows(1)["INPUT0"]})
    execute(instance, request)
    assert request.error.message.startswith(
        "failed to specify the dimensions of all input tensors or values of all input shape tensors"
    )
    assert "'INPUT1'" in request.error.message


def test_shape_tensors_are_values_for_the_whole_batch(model, gpu):
    instance = load(model(RESIZE, RESIZE_PLAN))
    size = np.array([2], np.int32)
    inputs = [np.array(each, np.float32) for each in ([[1, 2]], [[3, 4], [5, 6]])]
    requests = [recorded({"S": size, "X": each}) for each in inputs]
    execute(instance, *requests)
    assert gpu.runs == 1
    for request, each in zip(requests, inputs, strict=True):
        arrays = request.arrays()
        assert arrays["Y"].tolist() == each.tolist()
        assert arrays["MADE"].tolist() == [[2]] * len(each)
    alone = recorded({"S": np.array([3], np.int32), "X": inputs[0]})
    execute(instance, alone)
    assert alone.arrays()["Y"].tolist() == [[1, 2, 1]]


def test_values_of_a_shape_tensor_have_bounds_too(model):
    instance = load(model(RESIZE, RESIZE_PLAN))
    request = recorded({"S": np.array([10], np.int32), "X": np.ones((1, 1), np.float32)})
    execute(instance, request)
    assert "to be between 1 and 9 but received 10" in request.error.message


def test_output_whose_shape_only_the_execution_tells(model):
    config = (
        BARE + 'input { name: "X" data_type: TYPE_FP32 dims: [ 4 ] } '
        'output { name: "Y" data_type: TYPE_FP32 dims: [ -1 ] }'
    )
    tensors = [tensor("X", [4]), tensor("Y", [-1], is_input=False)]
    instance = load(model(config, plan_of("non_zero", tensors, {"X": [[4]] * 3})))
    for array, found in (([1, 0, 2, 0], [1, 2]), ([1, 2, 3, 4], [1, 2, 3, 4]), ([0] * 4, [])):
        request = recorded({"X": np.array(array, np.float32)})
        execute(instance, request)
        assert request.arrays()["Y"].tolist() == found


GRAPHS = "optimization { cuda { graphs: true } } "


def test_graphs_of_common_batch_sizes_are_captured_and_launched(model, gpu):
    instance = load(model(FULL + GRAPHS))
    assert {shapes[0][1][0] for _, shapes in instance._graphs} == {1, 2, 3, 4, 6, 8}
    before = gpu.runs
    for count in (1, 8, 5):
        inputs = rows(count)
        request = recorded(inputs)
        execute(instance, request)
        assert_answers(request, inputs)
    assert (gpu.launches, gpu.runs - before) == (2, 1)


def test_graphs_that_the_config_names_are_the_only_ones(model):
    shape = "".join(
        f'input {{ key: "{name}" value {{ dim: 4 }} }} ' for name in ("INPUT0", "INPUT1")
    )
    spec = f"optimization {{ cuda {{ graphs: true graph_spec {{ batch_size: 5 {shape} }} }} }}"
    instance = load(model(FULL + spec))
    assert [shapes[0][1] for _, shapes in instance._graphs] == [(5, 4)]


def test_graph_that_cannot_be_captured_is_no_reason_to_fail(model, gpu, caplog):
    gpu.failing = "cudaStreamBeginCapture"
    instance = load(model(FULL + GRAPHS))
    assert instance._graphs == {}
    assert "no CUDA graph of 'm_0_0'" in caplog.text
    request = recorded(rows(2))
    execute(instance, request)
    assert_answers(request, rows(2))


def test_graphs_go_when_memory_moves(model, gpu):
    plan = add_sub(shape=(-1, -1), profiles=({n: [[1, 1], [2, 4], [8, 99]] for n in limits(1)},))
    inner = "".join(f'input {{ key: "{n}" value {{ dim: 4 }} }} ' for n in limits(1))
    spec = f"optimization {{ cuda {{ graphs: true graph_spec {{ batch_size: 1 {inner} }} }} }}"
    instance = load(model(FULL.replace("[ 4 ]", "[ -1 ]") + spec, plan))
    assert len(instance._graphs) == 1
    wide = {name: np.ones((1, 99), np.float32) for name in limits(1)}
    request = recorded(wide)
    execute(instance, request)
    assert_answers(request, wide)
    assert instance._graphs == {}


@pytest.mark.parametrize(("priority", "value"), [("MAX", -5), ("MIN", 0), ("DEFAULT", 0)])
def test_priority_is_the_streams(model, gpu, priority, value):
    load(model(FULL + f"optimization {{ priority: PRIORITY_{priority} }}"))
    assert gpu.priorities == [value]


def test_strategy_of_contexts_is_passed_on_and_told(model, caplog):
    config = FULL + (
        'parameters { key: "execution_context_allocation_strategy" '
        'value { string_value: "ON_PROFILE_CHANGE" } }'
    )
    with caplog.at_level(logging.INFO):
        instance = load(model(config))
    assert [each.name for each in instance._native.strategies] == ["ON_PROFILE_CHANGE"]
    assert caplog.messages == [
        "'execution_context_allocation_strategy' set to 'ON_PROFILE_CHANGE' for model instance 'm'"
    ]


def test_strategy_of_contexts_is_static_unless_told(model):
    instance = load(model())
    assert [each.name for each in instance._native.strategies] == ["STATIC"]


def test_call_of_cuda_that_fails_is_named_and_the_next_request_works(model, gpu):
    instance = load(model())
    gpu.failing = "cudaMalloc"
    request = recorded(rows(1))
    execute(instance, request)
    assert request.error.message == "cudaMalloc failed on GPU 0: out of memory"
    gpu.failing = None
    request = recorded(rows(1))
    execute(instance, request)
    assert_answers(request, rows(1))


def test_engine_that_does_not_start_fails_the_request(model):
    instance = load(model(plan=add_sub(fails=True)))
    request = recorded(rows(1))
    execute(instance, request)
    assert request.error.message.startswith("failed to run TRT inference")


def test_lean_runtime_is_used_where_there_is_no_other(model, monkeypatch):
    context = model()
    monkeypatch.setitem(sys.modules, "tensorrt_lean", sys.modules["tensorrt"])
    monkeypatch.setitem(sys.modules, "tensorrt", None)
    instance = load(context)
    execute(instance, request := recorded(rows(1)))
    assert_answers(request, rows(1))
