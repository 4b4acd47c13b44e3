# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""The models that chaos befalls. Each answer tells by its value whose it is."""

import base64
import json
from pathlib import Path
from typing import Final

SIMPLE: Final = "simple"
CHAIN: Final = "chain"
CALLER: Final = "caller"
REPEAT: Final = "repeat"
SUMS: Final = "sums"
ALL: Final = (SIMPLE, CALLER, REPEAT, SUMS, CHAIN)

_ADDING: Final = """
import numpy as np
import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def execute(self, requests):
        return [self.answer(request) for request in requests]

    def answer(self, request):
        value = lambda name: pb_utils.get_input_tensor_by_name(request, name).as_numpy()
        total = pb_utils.Tensor("SUM", value("LEFT") + value("RIGHT"))
        return pb_utils.InferenceResponse([total])
"""
_CALLING: Final = f"""
import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    async def execute(self, requests):
        return [await self.answer(request) for request in requests]

    async def answer(self, request):
        called = await pb_utils.InferenceRequest(
            model_name="{SIMPLE}", requested_output_names=["SUM"],
            inputs=request.inputs()).async_exec()
        if called.has_error():
            return pb_utils.InferenceResponse(error=called.error())
        return pb_utils.InferenceResponse(called.output_tensors())
"""
# As many responses as COUNT says, each with what was sent and its own place.
_REPEATING: Final = """
import time
import numpy as np
import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def execute(self, requests):
        for request in requests:
            value = lambda name: pb_utils.get_input_tensor_by_name(request, name).as_numpy().item()
            sender = request.get_response_sender()
            for place in range(value("COUNT")):
                row = np.array([value("VALUE"), place], np.int32)
                sender.send(pb_utils.InferenceResponse([pb_utils.Tensor("ROW", row)]))
                time.sleep(0.002)
            sender.send(flags=pb_utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL)
        return None
"""
# The model itself keeps the sum, by correlation id: a request at the wrong instance, twice or out
# of its order gives another one.
_SUMMING: Final = """
import numpy as np
import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def initialize(self, args):
        self.sums = {}

    def execute(self, requests):
        return [self.answer(request) for request in requests]

    def answer(self, request):
        value = lambda name: pb_utils.get_input_tensor_by_name(request, name).as_numpy().item()
        sequence = value("CORRID")
        if value("START"):
            self.sums[sequence] = 0
        self.sums[sequence] = self.sums.get(sequence, -1_000_000_000) + value("VALUE")
        row = np.array([[self.sums[sequence], sequence]], np.int64)
        if value("END"):
            del self.sums[sequence]
        return pb_utils.InferenceResponse([pb_utils.Tensor("ROW", row)])
"""

_ADDS: Final = """
max_batch_size: 8
input [ { name: "LEFT" data_type: TYPE_INT32 dims: [ -1 ] },
        { name: "RIGHT" data_type: TYPE_INT32 dims: [ -1 ] } ]
output [ { name: "SUM" data_type: TYPE_INT32 dims: [ -1 ] } ]
"""
_CHAIN_CONFIG: Final = f"""
platform: "ensemble"{_ADDS}
ensemble_scheduling {{ step [
  {{ model_name: "{SIMPLE}" model_version: -1
    input_map {{ key: "LEFT" value: "LEFT" }} input_map {{ key: "RIGHT" value: "RIGHT" }}
    output_map {{ key: "SUM" value: "half" }} }},
  {{ model_name: "{SIMPLE}" model_version: -1
    input_map {{ key: "LEFT" value: "half" }} input_map {{ key: "RIGHT" value: "RIGHT" }}
    output_map {{ key: "SUM" value: "SUM" }} }} ] }}
"""
_REPEAT_CONFIG: Final = """
backend: "python" max_batch_size: 0
model_transaction_policy { decoupled: true }
input [ { name: "VALUE" data_type: TYPE_INT32 dims: [ 1 ] },
        { name: "COUNT" data_type: TYPE_INT32 dims: [ 1 ] } ]
output [ { name: "ROW" data_type: TYPE_INT32 dims: [ 2 ] } ]
"""
_SUMS_CONFIG: Final = """
backend: "python" max_batch_size: 8
input [ { name: "VALUE" data_type: TYPE_INT64 dims: [ 1 ] } ]
output [ { name: "ROW" data_type: TYPE_INT64 dims: [ 2 ] } ]
sequence_batching {
  max_sequence_idle_microseconds: 60000000
  oldest { max_candidate_sequences: 64 }
  control_input { name: "START"
                  control { kind: CONTROL_SEQUENCE_START int32_false_true: [ 0, 1 ] } }
  control_input { name: "END" control { kind: CONTROL_SEQUENCE_END int32_false_true: [ 0, 1 ] } }
  control_input { name: "CORRID"
                  control { kind: CONTROL_SEQUENCE_CORRID data_type: TYPE_UINT64 } } }
"""
# Two at least: what cannot be sent to another instance is lost with one.
INSTANCES: Final = {SIMPLE: 4, CALLER: 2, REPEAT: 2, SUMS: 2}
EXTRA: Final = "extra"
_EXTRA_BYTES: Final = 2 << 20
_CODES: Final = {SIMPLE: _ADDING, CALLER: _CALLING, REPEAT: _REPEATING, SUMS: _SUMMING}
_CONFIGS: Final = {
    SIMPLE: f'backend: "python"{_ADDS}dynamic_batching {{ max_queue_delay_microseconds: 100 }}',
    CALLER: f'backend: "python"{_ADDS}dynamic_batching {{ }}',
    REPEAT: _REPEAT_CONFIG,
    SUMS: _SUMS_CONFIG,
    CHAIN: _CHAIN_CONFIG,
}


def write_models(repository: Path) -> None:
    """Write all models."""
    for name in ALL:
        (repository / name / "1").mkdir(parents=True)
        if name in _CODES:
            (repository / name / "1/model.py").write_text(_CODES[name])
        write_config(repository, name, INSTANCES.get(name, 0), 0)


def write_config(repository: Path, name: str, instances: int, number: int) -> None:
    """Write a model's configuration; another number makes it another one."""
    group = f"\ninstance_group {{ kind: KIND_CPU count: {instances} }}" if name in _CODES else ""
    parameter = f'\nparameters {{ key: "round" value {{ string_value: "{number}" }} }}\n'
    target = repository / name / "config.pbtxt"
    # Whole or not at all: who reads it meanwhile is not to find half of it.
    fresh = target.with_suffix(".new")
    fresh.write_text(_CONFIGS[name] + group + parameter)
    fresh.replace(target)


def load_with_files() -> dict[str, object]:
    """Return the body of a load of `EXTRA`, which brings all its files along."""
    tensors = [{"name": "IN", "data_type": "TYPE_INT32", "dims": [1]}]
    config = {
        "backend": "identity",
        "input": tensors,
        "output": [{**tensors[0], "name": "OUT"}],
    }
    # Larger than what is left on a full disk.
    content = base64.b64encode(bytes(_EXTRA_BYTES)).decode()
    return {"parameters": {"config": json.dumps(config), "file:1/weights.bin": content}}
