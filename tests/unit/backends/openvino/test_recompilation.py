# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""What inferences that fail cost those that follow."""

import numpy as np
import openvino
import pytest
from openvino import opset13

from backends.api.errors import InternalError, UnavailableError
from backends.openvino.recompilation import CompilationBudget
from tests.support.models import context_of, load
from tests.support.openvino_models import parameter, result, save
from tests.support.recording import execute, recorded

SUM = """
name: "sum" backend: "openvino" max_batch_size: 8
input { name: "A" data_type: TYPE_FP32 dims: [ -1 ] }
input { name: "B" data_type: TYPE_FP32 dims: [ -1 ] }
output { name: "Y" data_type: TYPE_FP32 dims: [ -1 ] }
"""
PRODUCT = """
name: "product" backend: "openvino" max_batch_size: 8
input { name: "X" data_type: TYPE_FP32 dims: [ -1 ] }
input { name: "SHAPE" data_type: TYPE_INT64 dims: [ 1 ] }
output { name: "Y" data_type: TYPE_FP32 dims: [ -1 ] }
"""
THREADS = pytest.mark.parametrize("threads", [1, 2])


@pytest.fixture
def compilations(monkeypatch):
    """Grows by one with each compilation."""
    made = []
    compiles = openvino.Core.compile_model

    def compile_model(core, *arguments, **fields):
        made.append(1)
        return compiles(core, *arguments, **fields)

    monkeypatch.setattr(openvino.Core, "compile_model", compile_model)
    return made


def sum_model(tmp_path, **fields):
    """Y = A + B."""
    context = context_of(tmp_path, SUM, **fields)
    a, b = (parameter(name, np.float32, [-1, -1]) for name in ("A", "B"))
    save(context.model_path("model.xml"), [result(opset13.add(opset13.relu(a), b), "Y")], [a, b])
    return load(context)


def summands(width, other):
    return recorded({"A": np.ones((1, width), np.float32), "B": np.ones((1, other), np.float32)})


def reshaping(tmp_path, config=PRODUCT, **fields):
    """Y [1, n] = the values of X, if their number is the one that SHAPE says."""
    context = context_of(tmp_path, config, **fields)
    x, shape = parameter("X", np.float32, [-1, -1]), parameter("SHAPE", np.int64, [-1, 1])
    one = opset13.constant(np.array([1], np.int64))
    wanted = opset13.concat([one, opset13.reshape(shape, one, False)], 0)
    y = opset13.reshape(opset13.relu(x), wanted, False)
    save(context.model_path("model.xml"), [result(y, "Y")], [x, shape])
    return load(context)


def values(count, said):
    return recorded({"X": np.ones((1, count), np.float32), "SHAPE": np.array([[said]], np.int64)})


@THREADS
def test_request_that_is_refused_over_its_shapes_compiles_nothing(tmp_path, compilations, threads):
    instance = sum_model(tmp_path, thread_count=threads)
    compilations.clear()
    for width, other in ((4, 4), (4, 3), (4, 4), (5, 3), (4, 3), (3, 3), (4, 4)):
        request = summands(width, other)
        execute(instance, request)
        if width == other:
            assert request.arrays()["Y"].tolist() == [[2] * width]
        else:
            assert isinstance(request.error, InternalError)
            assert "Argument shapes are inconsistent" in request.error.message
            assert f"'A' [1, {width}], 'B' [1, {other}]" in request.error.message
    assert not compilations


def test_batch_whose_requests_are_refused_over_their_shapes_compiles_nothing(
    tmp_path, compilations
):
    instance = sum_model(tmp_path)
    compilations.clear()
    requests = [summands(4, 3) for _ in range(8)]
    execute(instance, *requests)
    assert all(isinstance(request.error, InternalError) for request in requests)
    assert not compilations


def test_shapes_are_refused_also_once_more_are_known_than_are_remembered(tmp_path, compilations):
    instance = sum_model(tmp_path)
    compilations.clear()
    requests = [summands(4, width) for width in range(2, 1200)]
    for request in requests:
        execute(instance, request)
    assert [
        request for request in requests if not isinstance(request.answers[0], InternalError)
    ] == [requests[2]]
    assert not compilations


@THREADS
def test_inference_that_fails_over_values_leaves_nothing_behind(tmp_path, compilations, threads):
    instance = reshaping(tmp_path, thread_count=threads)
    compilations.clear()
    for count, said in ((4, 4), (3, 4), (4, 4), (4, 3), (4, 4), (3, 3)):
        request = values(count, said)
        execute(instance, request)
        if count == said:
            assert request.arrays()["Y"].tolist() == [[1] * count]
        else:
            assert isinstance(request.error, InternalError)
    assert len(compilations) == 2


def test_model_is_compiled_anew_for_the_next_request_only(tmp_path, compilations):
    instance = reshaping(tmp_path)
    compilations.clear()
    execute(instance, values(4, 3))
    assert not compilations


def test_instance_that_compiles_too_often_is_unavailable_until_it_may(tmp_path, compilations):
    instance = reshaping(tmp_path)
    clock = [0.0]
    instance.compilation_budget = budget = CompilationBudget(lambda: clock[0])
    compilations.clear()
    execute(instance, values(4, 3))
    budget.spend(30)
    refused = values(4, 4)
    execute(instance, refused)
    assert isinstance(refused.error, UnavailableError)
    assert "model 'product' has to be compiled anew" in refused.error.message
    assert "send the request again in 40 s" in refused.error.message
    assert not compilations
    clock[0] += 40
    served = values(4, 4)
    execute(instance, served)
    assert served.arrays()["Y"].tolist() == [[1, 1, 1, 1]]
    assert len(compilations) == 1


def test_half_of_the_time_goes_into_compilations_and_ten_seconds_are_saved():
    clock = [100.0]
    budget = CompilationBudget(lambda: clock[0])
    assert budget.wait_s() == 0
    budget.spend(10)
    assert budget.wait_s() == 0
    budget.spend(60)
    assert budget.wait_s() == 120
    clock[0] += 100
    assert budget.wait_s() == 20
    clock[0] += 10_000
    budget.spend(11)
    assert budget.wait_s() == 2
