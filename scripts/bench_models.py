# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""The models that the benchmarks serve."""

from itertools import pairwise
from pathlib import Path

import numpy as np
import numpy.typing as npt
import onnx
from onnx import TensorProto, helper, numpy_helper

REPEAT_COUNT = 100

ADD_SUB = """
import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def execute(self, requests):
        responses = []
        for request in requests:
            a = pb_utils.get_input_tensor_by_name(request, "INPUT0").as_numpy()
            b = pb_utils.get_input_tensor_by_name(request, "INPUT1").as_numpy()
            responses.append(pb_utils.InferenceResponse(output_tensors=[
                pb_utils.Tensor("OUTPUT0", a + b), pb_utils.Tensor("OUTPUT1", a - b)]))
        return responses
"""
ADD_SUB_CONFIG = """
backend: "python"
max_batch_size: 64
input [ { name: "INPUT0" data_type: TYPE_INT32 dims: [ 16 ] },
        { name: "INPUT1" data_type: TYPE_INT32 dims: [ 16 ] } ]
output [ { name: "OUTPUT0" data_type: TYPE_INT32 dims: [ 16 ] },
         { name: "OUTPUT1" data_type: TYPE_INT32 dims: [ 16 ] } ]
dynamic_batching { }
instance_group [ { kind: KIND_CPU count: 1 } ]
"""
IDENTITY = """
import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def execute(self, requests):
        return [pb_utils.InferenceResponse(output_tensors=[pb_utils.Tensor(
            "OUTPUT0", pb_utils.get_input_tensor_by_name(request, "INPUT0").as_numpy())])
            for request in requests]
"""
IDENTITY_CONFIG = """
backend: "python"
max_batch_size: 0
input [ { name: "INPUT0" data_type: TYPE_FP32 dims: [ -1 ] } ]
output [ { name: "OUTPUT0" data_type: TYPE_FP32 dims: [ -1 ] } ]
instance_group [ { kind: KIND_CPU count: 1 } ]
"""
# Two slots for each of the clients' sequences, so that none of them waits for one.
SEQUENCE_CONFIG = """
backend: "python"
max_batch_size: 32
input [ { name: "INPUT0" data_type: TYPE_FP32 dims: [ 1 ] } ]
output [ { name: "OUTPUT0" data_type: TYPE_FP32 dims: [ 1 ] } ]
sequence_batching {
  oldest { max_candidate_sequences: 32 }
  control_input [
    { name: "START" control [ { kind: CONTROL_SEQUENCE_START fp32_false_true: [ 0, 1 ] } ] } ]
}
instance_group [ { kind: KIND_CPU count: 1 } ]
"""
STEP_CONFIG = """
backend: "python"
max_batch_size: 64
input [ { name: "INPUT0" data_type: TYPE_FP32 dims: [ 16 ] } ]
output [ { name: "OUTPUT0" data_type: TYPE_FP32 dims: [ 16 ] } ]
dynamic_batching { }
instance_group [ { kind: KIND_CPU count: 1 } ]
"""
ENSEMBLE_CONFIG = """
platform: "ensemble"
max_batch_size: {batch}
input [ {{ name: "INPUT0" data_type: TYPE_FP32 dims: [ {dims} ] }} ]
output [ {{ name: "OUTPUT0" data_type: TYPE_FP32 dims: [ {dims} ] }} ]
ensemble_scheduling {{ step [
  {{ model_name: "{step}1" model_version: -1
    input_map {{ key: "INPUT0" value: "INPUT0" }} output_map {{ key: "OUTPUT0" value: "first" }} }},
  {{ model_name: "{step}2" model_version: -1
    input_map {{ key: "INPUT0" value: "first" }} output_map {{ key: "OUTPUT0" value: "second" }} }},
  {{ model_name: "{step}3" model_version: -1
    input_map {{ key: "INPUT0" value: "second" }}
    output_map {{ key: "OUTPUT0" value: "OUTPUT0" }} }}
] }}
"""
# Small responses, as fast as a sender takes them.
REPEAT = f"""
import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def execute(self, requests):
        for request in requests:
            value = pb_utils.get_input_tensor_by_name(request, "INPUT0").as_numpy()
            sender = request.get_response_sender()
            for _ in range({REPEAT_COUNT}):
                sender.send(pb_utils.InferenceResponse(output_tensors=[
                    pb_utils.Tensor("OUTPUT0", value)]))
            sender.send(flags=pb_utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL)
"""
REPEAT_CONFIG = """
backend: "python"
max_batch_size: 0
model_transaction_policy { decoupled: true }
input [ { name: "INPUT0" data_type: TYPE_FP32 dims: [ 1 ] } ]
output [ { name: "OUTPUT0" data_type: TYPE_FP32 dims: [ 1 ] } ]
instance_group [ { kind: KIND_CPU count: 1 } ]
"""
ONE_THREAD = 'parameters { key: "intra_op_thread_count" value { string_value: "1" } }\n'
MLP_CONFIG = f"""
platform: "onnxruntime_onnx"
input [ {{ name: "X" data_type: TYPE_FP32 dims: [ 64 ] }} ]
output [ {{ name: "Y" data_type: TYPE_FP32 dims: [ 64 ] }} ]
{ONE_THREAD}instance_group [ {{ kind: KIND_CPU count: 1 }} ]
"""

# Sleeps once a batch, as long as its first row says or always the same time.
SLEEPER = """
import time
import triton_python_backend_utils as pb_utils

SLEEP_MS = {sleep_ms}


class TritonPythonModel:
    def execute(self, requests):
        rows = [pb_utils.get_input_tensor_by_name(r, "INPUT0").as_numpy() for r in requests]
        time.sleep((float(rows[0].flat[0]) if SLEEP_MS is None else SLEEP_MS) / 1000)
        return [pb_utils.InferenceResponse(output_tensors=[pb_utils.Tensor("OUTPUT0", each)])
                for each in rows]
"""
SLEEPER_CONFIG = """
backend: "python"
input [ { name: "INPUT0" data_type: TYPE_FP32 dims: [ 1 ] } ]
output [ { name: "OUTPUT0" data_type: TYPE_FP32 dims: [ 1 ] } ]
"""


STEPS = (1, 2, 3)
STRINGS_CONFIG = IDENTITY_CONFIG.replace("TYPE_FP32", "TYPE_STRING")
# perf_analyzer takes the first dimension for that of batches where it writes JSON.
ONE_BATCH = ("max_batch_size: 0", "max_batch_size: 1")
CACHED_CONFIG = ADD_SUB_CONFIG + "response_cache { enable: true }\n"
MODELS = {
    "add_sub": (ADD_SUB, ADD_SUB_CONFIG),
    "cached": (ADD_SUB, CACHED_CONFIG),
    "identity": (IDENTITY, IDENTITY_CONFIG),
    "strings": (IDENTITY, STRINGS_CONFIG),
    "json_floats": (IDENTITY, IDENTITY_CONFIG.replace(*ONE_BATCH)),
    "json_strings": (IDENTITY, STRINGS_CONFIG.replace(*ONE_BATCH)),
    "sequence": (IDENTITY, SEQUENCE_CONFIG),
    "repeat": (REPEAT, REPEAT_CONFIG),
    **{f"step{number}": (IDENTITY, STEP_CONFIG) for number in STEPS},
    **{f"large_step{number}": (IDENTITY, IDENTITY_CONFIG) for number in STEPS},
    "chain": ("", ENSEMBLE_CONFIG.format(step="step", batch=64, dims=16)),
    "large_chain": ("", ENSEMBLE_CONFIG.format(step="large_step", batch=0, dims=-1)),
}


# What an ensemble needs.
PARTS = {
    "chain": [f"step{number}" for number in STEPS],
    "large_chain": [f"large_step{number}" for number in STEPS],
}


def write_repository(root: Path, names: set[str]) -> None:
    """Write a repository of models of those names, and of their parts."""
    names = names.union(*(PARTS.get(name, []) for name in names))
    root.mkdir()
    for name in MODELS.keys() & names:
        code, config = MODELS[name]
        (root / name / "1").mkdir(parents=True)
        if code:
            (root / name / "1" / "model.py").write_text(code)
        (root / name / "config.pbtxt").write_text(f'name: "{name}"{config}')


def write_onnx_repository(root: Path, names: set[str]) -> None:
    """Write those ONNX models; they do the same as the Python backend's, with one thread each."""
    root.mkdir()
    integers, floats = TensorProto.INT32, TensorProto.FLOAT
    add_sub = helper.make_graph(
        [
            helper.make_node("Add", ["INPUT0", "INPUT1"], ["OUTPUT0"]),
            helper.make_node("Sub", ["INPUT0", "INPUT1"], ["OUTPUT1"]),
        ],
        "add_sub",
        [helper.make_tensor_value_info(f"INPUT{i}", integers, ["n", 16]) for i in (0, 1)],
        [helper.make_tensor_value_info(f"OUTPUT{i}", integers, ["n", 16]) for i in (0, 1)],
    )
    identity = helper.make_graph(
        [helper.make_node("Identity", ["INPUT0"], ["OUTPUT0"])],
        "identity",
        [helper.make_tensor_value_info("INPUT0", floats, ["n"])],
        [helper.make_tensor_value_info("OUTPUT0", floats, ["n"])],
    )
    found = {
        "add_sub_onnx": (add_sub, ADD_SUB_CONFIG),
        "identity_onnx": (identity, IDENTITY_CONFIG),
    }
    for name in found.keys() & names:
        graph, config = found[name]
        _save(graph, root / name / "1" / "model.onnx")
        onnx_config = config.replace('backend: "python"', 'platform: "onnxruntime_onnx"')
        text = f'name: "{name}"{onnx_config}{ONE_THREAD}'
        (root / name / "config.pbtxt").write_text(text)


def write_sleeper(
    root: Path, name: str, instances: int, config: str, sleep_ms: float | None = None
) -> None:
    """Write a model that sleeps for ``sleep_ms``, or as many milliseconds as its input says."""
    (root / name / "1").mkdir(parents=True)
    (root / name / "1" / "model.py").write_text(SLEEPER.format(sleep_ms=sleep_ms))
    group = f"instance_group [ {{ kind: KIND_CPU count: {instances} }} ]"
    (root / name / "config.pbtxt").write_text(f'name: "{name}"{SLEEPER_CONFIG}{config}\n{group}\n')


def mlp_weights(width: int, layers: int) -> list[npt.NDArray[np.float32]]:
    """Return the weights of a network of 64 features with hidden layers of one width."""
    random = np.random.default_rng(0)
    return [
        random.standard_normal((rows, columns), np.float32) / np.sqrt(rows, dtype="f4")
        for rows, columns in pairwise([64, *[width] * layers, 64])
    ]


def write_mlp(path: Path, width: int, layers: int) -> None:
    """Write an ONNX network of ``[n,64]`` -> ``[n,64]`` FP32 with hidden layers of one width.

    A single row reads all weights for little arithmetic, so that rows in a batch cost little more.
    """
    nodes, weights, last = [], [], "X"
    for index, values in enumerate(mlp_weights(width, layers)):
        weights.append(numpy_helper.from_array(values, f"W{index}"))
        nodes.append(helper.make_node("MatMul", [last, f"W{index}"], [f"M{index}"]))
        last = "Y" if index == layers else f"R{index}"
        nodes.append(helper.make_node("Relu", [f"M{index}"], [last]))
    ends = [helper.make_tensor_value_info(n, TensorProto.FLOAT, ["n", 64]) for n in ("X", "Y")]
    graph = helper.make_graph(nodes, "mlp", ends[:1], ends[1:], weights)
    _save(graph, path)


def _save(graph: onnx.GraphProto, path: Path) -> None:
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    path.parent.mkdir(parents=True, exist_ok=True)
    onnx.save(model, str(path))
