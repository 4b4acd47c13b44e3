# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""The frameworks that the benchmark of the backends knows, and a bare process of each.

``bench_frameworks.py NAME`` is that process. It reads commands, one a line, and answers each with
a number: ``ready``, ``import``, ``open FILE``, and ``loop ROWS SECONDS``, whose answer is the
microseconds of a call. Calls are the cheapest that a framework's own Python has, with one thread.
"""

import importlib
import importlib.util
import os
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]
Call = Callable[[Array], Any]

FEATURES: Final = 64
WARM_UP_CALLS: Final = 20
# A turn of a loop, after which it looks at the clock.
TURN_S: Final = 0.02


def open_onnxruntime(path: Path) -> Call:
    """Open a session."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    return lambda rows: session.run(["Y"], {"X": rows})


def _called_in_torch(module: Any) -> Call:
    import torch

    torch.set_num_threads(1)

    def call(rows: Array) -> Any:
        with torch.inference_mode():
            return module(torch.from_numpy(rows)).numpy()

    return call


def open_torchscript(path: Path) -> Call:
    """Load TorchScript."""
    import torch

    return _called_in_torch(torch.jit.load(path))


def open_export(path: Path) -> Call:
    """Load an exported program."""
    import torch

    return _called_in_torch(torch.export.load(path).module())


def open_tensorflow(path: Path) -> Call:
    """Load a SavedModel into a session, whose calls cost less than those of a tf.function."""
    import tensorflow as tf

    v1 = tf.compat.v1
    config = v1.ConfigProto(intra_op_parallelism_threads=1, inter_op_parallelism_threads=1)
    session = v1.Session(graph=v1.Graph(), config=config)
    with session.graph.as_default():
        signature = v1.saved_model.load(session, ["serve"], str(path)).signature_def
    tensors = signature["serving_default"]
    call: Call = session.make_callable(
        [tensors.outputs["Y"].name], feed_list=[tensors.inputs["X"].name]
    )
    return call


def open_openvino(path: Path) -> Call:
    """Compile a model for the CPU."""
    import openvino

    wanted = {"INFERENCE_NUM_THREADS": "1", "INFERENCE_PRECISION_HINT": "f32"}
    compiled = openvino.Core().compile_model(path, "CPU", wanted)
    request = compiled.create_infer_request()

    def call(rows: Array) -> Any:
        request.infer([rows], share_inputs=True)
        return request.get_output_tensor(0).data.copy()

    return call


def open_treelite(path: Path) -> Call:
    """Load a forest."""
    import treelite

    model = treelite.Model.deserialize(str(path))
    return lambda rows: treelite.gtil.predict(model, rows, nthread=1)


@dataclass(frozen=True, slots=True)
class Framework:
    """A framework, in one of the formats that it reads.

    Attributes:
        name: In the tables.
        module: What a process imports that uses it; empty for none.
        file: Of the model, in the version's directory.
        config: The part of the model's config that is the framework's own.
        open: Returns what computes a batch.
        made_by: The modules that the model's file is made with.
    """

    name: str
    module: str
    file: str
    config: str
    open: Callable[[Path], Call] | None
    made_by: tuple[str, ...] = ()

    def is_installed(self) -> bool:
        """Return whether it is there, and what makes its models."""
        modules = (self.module, *self.made_by) if self.module else self.made_by
        return all(importlib.util.find_spec(each) is not None for each in modules)


def _one_thread(parameter: str) -> str:
    return f'parameters {{ key: "{parameter}" value {{ string_value: "1" }} }}'


TENSORS: Final = f"""
input {{ name: "X" data_type: TYPE_FP32 dims: [ {FEATURES} ] }}
output {{ name: "Y" data_type: TYPE_FP32 dims: [ {FEATURES} ] }}
"""
FOREST_TENSORS: Final = f"""
input {{ name: "input__0" data_type: TYPE_FP32 dims: [ {FEATURES} ] }}
output {{ name: "output__0" data_type: TYPE_FP32 dims: [ 1 ] }}
parameters {{ key: "model_type" value {{ string_value: "treelite_checkpoint" }} }}
parameters {{ key: "is_classifier" value {{ string_value: "false" }} }}
"""
TORCH_THREADS: Final = _one_thread("INTRA_OP_THREAD_COUNT")
OPENVINO_THREADS: Final = _one_thread("INFERENCE_NUM_THREADS")

ONNXRUNTIME: Final = Framework(
    "onnxruntime",
    "onnxruntime",
    "model.onnx",
    f'platform: "onnxruntime_onnx" {_one_thread("intra_op_thread_count")} {TENSORS}',
    open_onnxruntime,
    ("onnx",),
)
TORCHSCRIPT: Final = Framework(
    "torchscript",
    "torch",
    "model.pt",
    f'platform: "pytorch_libtorch" {TORCH_THREADS} {TENSORS}',
    open_torchscript,
)
CUSTOM: Final = Framework("c", "", "", f'backend: "copying" {TENSORS}', None)
FRAMEWORKS: Final = {
    each.name: each
    for each in (
        ONNXRUNTIME,
        TORCHSCRIPT,
        Framework(
            "pt2",
            "torch",
            "model.pt2",
            f'platform: "torch_aoti" {TORCH_THREADS} {TENSORS}',
            open_export,
        ),
        Framework(
            "tensorflow",
            "tensorflow",
            "model.savedmodel",
            f'platform: "tensorflow_savedmodel" {_one_thread("TF_NUM_INTRA_THREADS")} {TENSORS}',
            open_tensorflow,
        ),
        # What reads SavedModels where TensorFlow is not installed.
        Framework(
            "savedmodel-openvino",
            "openvino",
            "model.savedmodel",
            f'backend: "openvino" default_model_filename: "model.savedmodel" {OPENVINO_THREADS}'
            f"{TENSORS}",
            open_openvino,
            ("tensorflow",),
        ),
        Framework(
            "openvino",
            "openvino",
            "model.xml",
            f'backend: "openvino" {OPENVINO_THREADS} {TENSORS}',
            open_openvino,
            ("onnx",),
        ),
        Framework(
            "fil",
            "treelite",
            "checkpoint.tl",
            f'backend: "fil" {_one_thread("cpu_nthread")} {FOREST_TENSORS}',
            open_treelite,
        ),
        CUSTOM,
    )
}


def loop(call: Call, rows: int, for_s: float) -> float:
    """Return the microseconds of a call with so many rows, while it is called for some time."""
    batch = np.random.default_rng(0).random((rows, FEATURES), np.float32)
    started_s = time.perf_counter()
    for _ in range(WARM_UP_CALLS):
        call(batch)
    each_s = (time.perf_counter() - started_s) / WARM_UP_CALLS
    turn = range(max(1, int(TURN_S / each_s)))
    count, started_s, elapsed_s = 0, time.perf_counter(), 0.0
    while elapsed_s < for_s:
        for _ in turn:
            call(batch)
        count += len(turn)
        elapsed_s = time.perf_counter() - started_s
    return 1e6 * elapsed_s / count


def main() -> None:
    framework = FRAMEWORKS[sys.argv[1]]
    assert framework.open is not None
    # Whatever a framework prints is no answer.
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)
    call: Call | None = None
    for line in sys.stdin:
        command, *given = line.split()
        answer = 0.0
        if command == "import":
            importlib.import_module(framework.module)
        elif command == "open":
            call = framework.open(Path(given[0]))
        elif command == "loop":
            assert call is not None
            answer = loop(call, int(given[0]), float(given[1]))
        print(answer, file=answers)


if __name__ == "__main__":
    main()
