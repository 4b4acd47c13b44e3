# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""The models that are served while something fails."""

from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tests.support.model_folders import write_folder

BUSY: Final = "busy"
OTHER: Final = "other"
# Its presence in a model's directory ends the execution thread of one instance.
FATAL_FILE: Final = "end_the_execution_thread"

# OUTPUT0 is the sum; PID the process that executed it.
#
# The instance that gets hold of FATAL_FILE ends its execution thread outside of the model's code,
# as an invariant that is violated or memory that is short would: of the frames below two
# executions those that are the same belong to the thread's own loop, and the next function that
# the loop calls raises. Nothing here knows what that loop is called or where it lies. Compiled
# functions have no frames: then it is the next plain one of ours that they call. Not one of the
# backend's or of a library's, whose errors would be the model's.
_SOURCE: Final = f"""
import json
import os
import sys
import time
import numpy as np
import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def initialize(self, args):
        parameters = json.loads(args["model_config"])["parameters"]
        self.execution_s = float(parameters["execution_s"]["string_value"])
        self.fatal_file = os.path.join(args["model_repository"], "{FATAL_FILE}")
        self.frames = None

    def execute(self, requests):
        if self.frames is not None:
            self.end_the_loop()
        elif os.path.exists(self.fatal_file):
            self.take_the_file()
        time.sleep(self.execution_s)
        return [self.answer(request) for request in requests]

    def answer(self, request):
        value = lambda name: pb_utils.get_input_tensor_by_name(request, name).as_numpy()
        total = value("INPUT0") + value("INPUT1")
        pid = np.full((len(total), 1), os.getpid(), np.int32)
        return pb_utils.InferenceResponse(
            [pb_utils.Tensor("OUTPUT0", total), pb_utils.Tensor("PID", pid)])

    def take_the_file(self):
        try:
            os.unlink(self.fatal_file)
        except FileNotFoundError:
            return
        self.frames = list(callers())

    def end_the_loop(self):
        loop = next(frame for frame in callers() if any(frame is old for old in self.frames))
        self.frames = None

        def fail(frame, event, argument):
            is_ours = "deployments" in frame.f_code.co_filename
            if event == "call" and frame.f_back is loop and is_ours:
                raise SystemExit("fault injected into the execution thread")

        sys.setprofile(fail)


def callers():
    frame = sys._getframe(1)
    while frame is not None:
        yield frame
        frame = frame.f_back
"""

_CONFIG: Final = """
input [ { name: "INPUT0" data_type: TYPE_INT32 dims: [ 16 ] },
        { name: "INPUT1" data_type: TYPE_INT32 dims: [ 16 ] } ]
output [ { name: "OUTPUT0" data_type: TYPE_INT32 dims: [ 16 ] },
         { name: "PID" data_type: TYPE_INT32 dims: [ 1 ] } ]
"""
_ENSEMBLE: Final = f"""
platform: "ensemble"
max_batch_size: 8
{_CONFIG.strip()}
ensemble_scheduling {{ step [ {{
  model_name: "{BUSY}" model_version: -1
  input_map {{ key: "INPUT0" value: "INPUT0" }} input_map {{ key: "INPUT1" value: "INPUT1" }}
  output_map {{ key: "OUTPUT0" value: "OUTPUT0" }} output_map {{ key: "PID" value: "PID" }} }} ] }}
"""
# OUTPUT0 counts the requests of a sequence; the count is its implicit state.
_SEQUENCE_SOURCE: Final = """
import os
import numpy as np
import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def execute(self, requests):
        return [self.answer(request) for request in requests]

    def answer(self, request):
        count = pb_utils.get_input_tensor_by_name(request, "COUNT_IN").as_numpy() + 1
        pid = np.full((1, 1), os.getpid(), np.int32)
        return pb_utils.InferenceResponse([
            pb_utils.Tensor("COUNT_OUT", count), pb_utils.Tensor("OUTPUT0", count),
            pb_utils.Tensor("PID", pid)])
"""
_SEQUENCE_CONFIG: Final = """
backend: "python" max_batch_size: 8
input { name: "INPUT0" data_type: TYPE_INT32 dims: [ 1 ] }
output [ { name: "OUTPUT0" data_type: TYPE_INT32 dims: [ 1 ] },
         { name: "PID" data_type: TYPE_INT32 dims: [ 1 ] } ]
sequence_batching {
  max_sequence_idle_microseconds: 1000000
  state { input_name: "COUNT_IN" output_name: "COUNT_OUT" data_type: TYPE_INT32 dims: [ 1 ] } }
"""


@dataclass(frozen=True)
class Shape:
    """What the busy model is like.

    Attributes:
        instances: Instances of its pool.
        max_batch_size: Largest batch.
        execution_s: How long an execution takes.
        max_queue_delay_us: How long requests wait for a full batch.
    """

    instances: int = 4
    max_batch_size: int = 8
    execution_s: float = 0.0
    max_queue_delay_us: int = 100


SINGLE: Final = Shape(instances=1)


def write_model(repository: Path, name: str, shape: Shape = SINGLE) -> None:
    """Write a Python model that adds."""
    sizes = [shape.max_batch_size // 2, shape.max_batch_size]
    config = (
        f'backend: "python" max_batch_size: {shape.max_batch_size}\n{_CONFIG}'
        f"dynamic_batching {{ preferred_batch_size: {sizes}\n"
        f"  max_queue_delay_microseconds: {shape.max_queue_delay_us} }}\n"
        f"instance_group {{ kind: KIND_CPU count: {shape.instances} }}\n"
        'parameters { key: "execution_s" '
        f'value {{ string_value: "{shape.execution_s}" }} }}\n'
    )
    write_folder(repository, name, config, _SOURCE)


def write_sequence_model(repository: Path, name: str, shape: Shape) -> None:
    """Write a Python model that counts the requests of each sequence."""
    group = f"instance_group {{ kind: KIND_CPU count: {shape.instances} }}\n"
    write_folder(repository, name, _SEQUENCE_CONFIG + group, _SEQUENCE_SOURCE)


def write_ensemble(repository: Path, name: str) -> None:
    """Write an ensemble of the busy model alone: a model without a process."""
    write_folder(repository, name, _ENSEMBLE)


def config_of_round(number: int, shape: Shape) -> dict[str, object]:
    """The busy model's configuration with something in it that makes each round another one."""
    row = {"data_type": "TYPE_INT32", "dims": [16]}
    parameters = {"round": number, "execution_s": shape.execution_s}
    return {
        "backend": "python",
        "max_batch_size": shape.max_batch_size,
        "input": [{"name": "INPUT0", **row}, {"name": "INPUT1", **row}],
        "output": [
            {"name": "OUTPUT0", **row},
            {"name": "PID", "data_type": "TYPE_INT32", "dims": [1]},
        ],
        "dynamic_batching": {
            "preferred_batch_size": [shape.max_batch_size],
            "max_queue_delay_microseconds": shape.max_queue_delay_us,
        },
        "instance_group": [{"kind": "KIND_CPU", "count": shape.instances}],
        "parameters": {key: {"string_value": str(value)} for key, value in parameters.items()},
    }
