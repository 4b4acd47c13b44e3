# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""What each backend makes of an optional input that is left out, and of whose memory.

Each backend is asked with the input, without it and with it again; after each answer the request's
memory is written over, as the next request's bytes do. Backend libraries in C run in processes of
their own (`tests.unit.backends.custom`), as does TensorFlow
(`tests.frameworks.test_tensorflow_memory`).
"""

from pathlib import Path

import numpy as np
import onnx.helper
import pytest
from openvino import opset13

from backends.api.errors import InvalidArgumentError, TritonError
from backends.tensorflow import choice
from tests.support import forests, onnx_graphs, openvino_models, saved_models, torch_models
from tests.support import tensorrt_standin as standin
from tests.support.models import context_of, load, write_python_model
from tests.support.recording import execute, recorded
from tests.support.request_memory import RequestMemory
from tests.support.tensorrt_plans import RESIZE
from tests.support.tensorrt_plans import add_sub as tensorrt_plan

# Above what is copied into a response in any case.
SIZE = 8192
FIRST, LAST = 424242, 5
OVERWRITTEN = np.float32(7).tobytes()


def config(backend, *, batch=0, dims=SIZE, more=""):
    a, b = (
        f'{{ name: "{name}" data_type: TYPE_FP32 dims: [ {dims} ] {rest} }}'
        for name, rest in (("INPUT0", ""), ("INPUT1", "optional: true"))
    )
    return (
        f'name: "m" {backend} max_batch_size: {batch} input {a} input {b} '
        f'output {{ name: "OUTPUT0" data_type: TYPE_FP32 dims: [ {dims} ] }} {more}'
    )


def openvino(root, *, batch=0, dims=SIZE, shape=(SIZE,), **fields):
    context = context_of(root, config('backend: "openvino"', batch=batch, dims=dims), **fields)
    a, b = (openvino_models.parameter(name, np.float32, shape) for name in ("INPUT0", "INPUT1"))
    path = context.model_path("model.xml")
    openvino_models.save(path, [openvino_models.result(opset13.add(a, b), "OUTPUT0")], [a, b])
    return context


def saved_model(root, *, batch=0, dims=SIZE, shape=(SIZE,)):
    platform = 'backend: "tensorflow" platform: "tensorflow_savedmodel"'
    text = config(platform, batch=batch, dims=dims)
    more = f'output {{ name: "OUTPUT1" data_type: TYPE_FP32 dims: [ {dims} ] }}'
    context = context_of(root, text + more)
    directory = context.model_path("model.savedmodel")
    saved_models.save_add_sub(directory, shape, datatype="FP32")
    return context


def onnx_file(root, *, batch=0):
    context = context_of(root, config('backend: "onnxruntime"', batch=batch))
    shape = ["N", SIZE] if batch else [SIZE]
    onnx_graphs.save(
        context.model_path("model.onnx"),
        [onnx.helper.make_node("Add", ["INPUT0", "INPUT1"], ["OUTPUT0"])],
        [onnx_graphs.value(name, onnx_graphs.FLOAT, shape) for name in ("INPUT0", "INPUT1")],
        [onnx_graphs.value("OUTPUT0", onnx_graphs.FLOAT, shape)],
    )
    return context


def torch_script(root):
    text = config('platform: "pytorch_libtorch"').replace('"OUTPUT0"', '"OUTPUT__0"')
    context = context_of(root, text)
    torch_models.save_script(torch_models.Sum(), context.model_path("model.pt"))
    return context


def torch_class(root, *, batch=0, name="MaybeSum"):
    context = context_of(root, config('backend: "pytorch" runtime: "model.py"', batch=batch))
    Path(context.version_dir, "model.py").write_text(
        f"from tests.support.torch_models import {name} as Net"
    )
    return context


def python(root, *, batch=0):
    context = context_of(root, config('backend: "python"', batch=batch))
    source = """
class TritonPythonModel:
    def execute(self, requests):
        return [pb_utils.InferenceResponse([pb_utils.Tensor("OUTPUT0", self.total(request))])
                for request in requests]

    def total(self, request):
        return sum(each.as_numpy() for each in request.inputs())
"""
    write_python_model(context, source)
    return context


def tensorrt(root, *, batch=0, shape=(SIZE,)):
    more = f'output {{ name: "OUTPUT1" data_type: TYPE_FP32 dims: [ {SIZE} ] }}'
    text = config('platform: "tensorrt_plan"', batch=batch, more=more)
    context = context_of(root, text, kind="GPU")
    limits = [[4 if dim < 0 else dim for dim in shape]] * 3
    profile = dict.fromkeys(("INPUT0", "INPUT1"), limits)
    plan = tensorrt_plan(shape=shape, profiles=(profile,))
    Path(context.version_dir, "model.plan").write_bytes(plan)
    return context


def identity(root, *, batch=0):
    second = f'output {{ name: "OUTPUT1" data_type: TYPE_FP32 dims: [ {SIZE} ] }}'
    return context_of(root, config('backend: "identity"', batch=batch, more=second))


# What comes without the optional input: the number that OUTPUT0 is full of, or the error's text.
NEEDS_EVERY_INPUT = "request for model 'm' lacks input 'INPUT1', which the model itself needs"
# Or that the model itself keeps its input, which then is a copy.
KEPT = object()
SERVED = {
    "OpenVINO, fixed shapes": (openvino, {}, NEEDS_EVERY_INPUT),
    "OpenVINO, any shapes": (openvino, {"dims": -1, "shape": [-1]}, NEEDS_EVERY_INPUT),
    "OpenVINO, threads": (openvino, {"thread_count": 2}, NEEDS_EVERY_INPUT),
    "SavedModel on OpenVINO": (saved_model, {}, NEEDS_EVERY_INPUT),
    "SavedModel on OpenVINO, any shapes": (
        saved_model,
        {"dims": -1, "shape": (-1,)},
        NEEDS_EVERY_INPUT,
    ),
    "ONNX Runtime": (onnx_file, {}, "onnx runtime error: Required inputs (['INPUT1']) are missing"),
    "TorchScript": (torch_script, {}, "PyTorch execute failure: "),
    "PyTorch class": (torch_class, {}, 1),
    "PyTorch class, batching": (torch_class, {"batch": 4}, 1),
    "PyTorch class that keeps what it got": (torch_class, {"name": "LastAddend"}, KEPT),
    "Python": (python, {}, 1),
    "Python, batching": (python, {"batch": 4}, 1),
    "TensorRT": (
        tensorrt,
        {},
        "failed to specify the dimensions of all input tensors or values of all input shape "
        "tensors: 'm_0_0' got no input 'INPUT1'",
    ),
    "identity": (identity, {}, 1),
    "identity, batching": (identity, {"batch": 4}, 1),
}
# Triton's text, of a load.
NOT_IN_BATCHES = (
    "unable to load model 'm', optional input 'INPUT1' is not supported for models that support "
    "batching"
)
REFUSED = {
    "OpenVINO": (openvino, {"batch": 4, "shape": [-1, SIZE]}),
    "SavedModel on OpenVINO": (saved_model, {"batch": 4, "shape": (-1, SIZE)}),
    "ONNX Runtime": (onnx_file, {"batch": 4}),
}


@pytest.fixture(autouse=True)
def surroundings(tmp_path, monkeypatch):
    """No cache that outlasts a test, no TensorFlow, and a stand-in for TensorRT."""
    monkeypatch.setenv("MANTA_OPENVINO_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(choice, "is_installed", lambda package: package != "tensorflow")
    standin.install(monkeypatch)


def ask(instance, shape, **values):
    """Return the only number of the only output, or the error's text."""
    request = recorded({name: np.full(shape, value, np.float32) for name, value in values.items()})
    memory = RequestMemory(request)
    execute(instance, request)
    memory.pass_on(OVERWRITTEN)
    if isinstance(request.answers[0], TritonError):
        return request.error.message
    (number,) = set(next(iter(request.arrays().values())).ravel())
    return number


@pytest.mark.parametrize(("make", "fields", "without"), SERVED.values(), ids=SERVED)
def test_optional_input_that_is_left_out_is_read_from_no_earlier_request(
    tmp_path, make, fields, without
):
    context = make(tmp_path, **fields)
    shape = (1, SIZE) if context.config.max_batch_size > 0 else (SIZE,)
    instance = load(context)
    for second in (FIRST, LAST):
        # The first output of an identity model is its first input.
        expected = 1 if make is identity else 1 + second
        assert ask(instance, shape, INPUT0=1, INPUT1=second) == expected
        found = ask(instance, shape, INPUT0=1)
        if isinstance(without, str):
            assert without in found
        else:
            assert found == (expected if without is KEPT else without)
    instance.close()


def test_torch_script_that_keeps_its_input_keeps_a_copy(tmp_path):
    text = (
        'name: "m" platform: "pytorch_libtorch" '
        f'input {{ name: "INPUT0" data_type: TYPE_FP32 dims: [ {SIZE} ] }} '
        f'output {{ name: "OUTPUT__0" data_type: TYPE_FP32 dims: [ {SIZE} ] }}'
    )
    context = context_of(tmp_path, text)
    torch_models.save_script(torch_models.Before(), context.model_path("model.pt"))
    instance = load(context)
    assert [ask(instance, (SIZE,), INPUT0=value) for value in (FIRST, LAST, 0)] == [0, FIRST, LAST]


def test_shape_tensor_that_tensorrt_reads_in_host_memory_is_a_copy(tmp_path):
    plan = standin.plan_of(
        "resize",
        [
            standin.tensor("X", [-1]),
            standin.tensor("S", [1], "INT32", is_shape=True),
            standin.tensor("Y", [-1], is_input=False),
            standin.tensor("MADE", [1], "INT32", is_input=False, is_shape=True),
        ],
        {"X": [[1], [2], [9]], "S": [[1], [2], [9]]},
    )
    text = RESIZE.replace("max_batch_size: 4", "max_batch_size: 0")
    context = context_of(tmp_path, text, kind="GPU")
    Path(context.version_dir, "model.plan").write_bytes(plan)
    instance = load(context)
    request = recorded({"S": np.array([3], np.int32), "X": np.array([1, 2], np.float32)})
    memory = RequestMemory(request)
    execute(instance, request)
    memory.pass_on(OVERWRITTEN)
    assert request.arrays()["Y"].tolist() == [1, 2, 1]


@pytest.mark.parametrize(("make", "fields"), REFUSED.values(), ids=REFUSED)
def test_optional_input_of_a_model_that_batches_is_refused_where_triton_refuses_it(
    tmp_path, make, fields
):
    with pytest.raises(InvalidArgumentError, match=NOT_IN_BATCHES):
        load(make(tmp_path, **fields))


def test_forest_without_its_only_input_is_told_so(tmp_path):
    text = forests.config(max_batch_size=0).replace(
        "dims: [ -1, 2 ]", "dims: [ -1, 2 ] optional: true"
    )
    instance = load(forests.saved(tmp_path, text, forests.build([forests.TREE])))
    rows = recorded({"input__0": np.array([[2, 0]], np.float32)})
    memory = RequestMemory(rows)
    execute(instance, rows)
    memory.pass_on(OVERWRITTEN)
    assert rows.arrays()["output__0"].tolist() == [2.0]
    nothing = recorded({})
    execute(instance, nothing)
    assert nothing.error.message.startswith("request for model 'm' lacks input 'input__0'")
