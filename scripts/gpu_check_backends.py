# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Manta's backends in one process, without a server and without Ray, for gpu_check.py.

Needs Manta's own packages. What is missing beyond them raises ``unittest.SkipTest``.
"""

import base64
import tempfile
from ctypes.util import find_library
from importlib.util import find_spec
from pathlib import Path
from typing import Any
from unittest import SkipTest

import numpy as np
from gpu_check import ADD_MODEL

from backends.api.backend import ExecuteBatch, LoadContext, ModelInstance
from backends.api.errors import TritonError, UnavailableError
from backends.api.request import (
    InferenceRequest,
    InferenceResponse,
    tensor_as_numpy,
    tensor_from_numpy,
)
from backends.config.pbtxt import parse_pbtxt
from backends.registry import backend_for

Arrays = dict[str, np.ndarray[Any, Any]]

ADD = """
name: "add" backend: "onnxruntime"
input { name: "x" data_type: TYPE_FP32 dims: [ 4 ] }
output { name: "y" data_type: TYPE_FP32 dims: [ 4 ] }
"""
ACCELERATOR = (
    'optimization {{ execution_accelerators {{ gpu_execution_accelerator {{ name: "{}" }} }} }}'
)


class Asked:
    """An ``ExecuteRequest`` that keeps its only answer."""

    is_cancelled = False

    def __init__(self, inputs: Arrays) -> None:
        tensors = [tensor_from_numpy(name, array) for name, array in inputs.items()]
        self.request = InferenceRequest("model", inputs=tensors)
        self._answer: InferenceResponse | TritonError | None = None

    def respond(self, response: InferenceResponse | None, *, final: bool = True) -> None:
        if response is not None and final:
            self._answer = response

    def fail(self, error: TritonError, *, final: bool = True) -> None:
        if final:
            self._answer = error

    def reschedule(self) -> None:
        raise RuntimeError("nothing here has sequences")

    def arrays(self) -> Arrays:
        """Return the outputs, or raise the error that the request was answered with."""
        if isinstance(self._answer, TritonError):
            raise self._answer
        if self._answer is None:
            raise RuntimeError("the instance left a request unanswered")
        return {output.name: tensor_as_numpy(output) for output in self._answer.outputs}


def execute(instance: ModelInstance, *inputs: Arrays) -> list[Arrays]:
    """Execute requests as one batch; return the outputs of each."""
    requests = [Asked(each) for each in inputs]
    instance.execute(ExecuteBatch(requests))
    return [request.arrays() for request in requests]


def context_of(folder: str, config: str, **fields: Any) -> LoadContext:
    """Return the context of version 1 of a model, whose folder is there then."""
    parsed = parse_pbtxt(config, "config.pbtxt")
    Path(folder, parsed.name, "1").mkdir(parents=True, exist_ok=True)
    return LoadContext(parsed, f"{folder}/{parsed.name}", 1, f"{parsed.name}_0_0", **fields)


def load(context: LoadContext) -> ModelInstance:
    """Load an instance with the backend that the config names."""
    return backend_for(context).load(context)


def onnxruntime_providers() -> dict[str, str]:
    """Run a model on each provider of GPUs that is there; one that is not has to be named."""
    try:
        import onnxruntime  # noqa: PLC0415 - the rest works without
    except ImportError as error:
        raise SkipTest(f"onnxruntime is not there: {error}") from None
    available = onnxruntime.get_available_providers()
    wanted = {"cuda": "CUDAExecutionProvider", "tensorrt": "TensorrtExecutionProvider"}
    return {
        provider: _on_provider(name, provider, is_there=provider in available)
        for name, provider in wanted.items()
    }


def _lacks_libraries(name: str) -> bool:
    """Whether a provider that is built in cannot be used for want of what it is built on."""
    return name == "tensorrt" and find_spec("tensorrt") is None and find_library("nvinfer") is None


def _on_provider(name: str, provider: str, *, is_there: bool) -> str:
    with tempfile.TemporaryDirectory() as folder:
        context = context_of(folder, ADD + ACCELERATOR.format(name), kind="GPU")
        Path(context.version_dir, "model.onnx").write_bytes(base64.b64decode(ADD_MODEL))
        try:
            instance = load(context)
        except UnavailableError as error:
            if is_there and not _lacks_libraries(name):
                raise
            return f"absent, and an instance that needs it says: {error.message}"
        if not is_there:
            raise RuntimeError(f"an instance loads for {provider}, which is not there")
        (answer,) = execute(instance, {"x": np.arange(4, dtype=np.float32)})
        if answer["y"].tolist() != [0.0, 2.0, 4.0, 6.0]:
            raise RuntimeError(f"{provider}: twice 0 1 2 3 is {answer['y'].tolist()}")
        return "runs"
