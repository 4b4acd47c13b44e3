# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""The models that the benchmarks serve."""

from itertools import pairwise
from pathlib import Path

import numpy as np
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
max_batch_size: 64
input [ { name: "INPUT0" data_type: TYPE_FP32 dims: [ 16 ] } ]
output [ { name: "OUTPUT0" data_type: TYPE_FP32 dims: [ 16 ] } ]
ensemble_scheduling { step [
  { model_name: "step1" model_version: -1
    input_map { key: "INPUT0" value: "INPUT0" } output_map { key: "OUTPUT0" value: "first" } },
  { model_name: "step2" model_version: -1
    input_map { key: "INPUT0" value: "first" } output_map { key: "OUTPUT0" value: "second" } },
  { model_name: "step3" model_version: -1
    input_map { key: "INPUT0" value: "second" } output_map { key: "OUTPUT0" value: "OUTPUT0" } }
] }
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
MLP_CONFIG = """
platform: "onnxruntime_onnx"
input [ { name: "X" data_type: TYPE_FP32 dims: [ 64 ] } ]
output [ { name: "Y" data_type: TYPE_FP32 dims: [ 64 ] } ]
parameters { key: "intra_op_thread_count" value { string_value: "1" } }
instance_group [ { kind: KIND_CPU count: 1 } ]
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


def write_repository(root: Path) -> None:
    """Write the repository that both servers serve."""
    for name, code, config in (
        ("add_sub", ADD_SUB, ADD_SUB_CONFIG),
        ("identity", IDENTITY, IDENTITY_CONFIG),
        *((f"step{number}", IDENTITY, STEP_CONFIG) for number in (1, 2, 3)),
        ("chain", "", ENSEMBLE_CONFIG),
        ("repeat", REPEAT, REPEAT_CONFIG),
    ):
        (root / name / "1").mkdir(parents=True)
        if code:
            (root / name / "1" / "model.py").write_text(code)
        (root / name / "config.pbtxt").write_text(f'name: "{name}"{config}')


def write_sleeper(
    root: Path, name: str, instances: int, config: str, sleep_ms: float | None = None
) -> None:
    """Write a model that sleeps for ``sleep_ms``, or as many milliseconds as its input says."""
    (root / name / "1").mkdir(parents=True)
    (root / name / "1" / "model.py").write_text(SLEEPER.format(sleep_ms=sleep_ms))
    group = f"instance_group [ {{ kind: KIND_CPU count: {instances} }} ]"
    (root / name / "config.pbtxt").write_text(f'name: "{name}"{SLEEPER_CONFIG}{config}\n{group}\n')


def write_mlp(path: Path, width: int, layers: int) -> None:
    """Write an ONNX network of ``[n,64]`` -> ``[n,64]`` FP32 with hidden layers of one width.

    A single row reads all weights for little arithmetic, so that rows in a batch cost little more.
    """
    random = np.random.default_rng(0)
    sizes = [64, *[width] * layers, 64]
    nodes, weights, last = [], [], "X"
    for index, (rows, columns) in enumerate(pairwise(sizes)):
        values = random.standard_normal((rows, columns), np.float32) / np.sqrt(rows, dtype="f4")
        weights.append(numpy_helper.from_array(values, f"W{index}"))
        nodes.append(helper.make_node("MatMul", [last, f"W{index}"], [f"M{index}"]))
        last = "Y" if index == layers else f"R{index}"
        nodes.append(helper.make_node("Relu", [f"M{index}"], [last]))
    ends = [helper.make_tensor_value_info(n, TensorProto.FLOAT, ["n", 64]) for n in ("X", "Y")]
    graph = helper.make_graph(nodes, "mlp", ends[:1], ends[1:], weights)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    path.parent.mkdir(parents=True, exist_ok=True)
    onnx.save(model, str(path))
