# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Opens ONNX Runtime sessions as configs ask for.

Triton: onnxruntime_backend/src/onnxruntime.cc ModelState, README.md "Model Config Options"
"""

from typing import Any

import onnxruntime

from backends.api.backend import LoadContext
from backends.api.errors import (
    InternalError,
    InvalidArgumentError,
    UnavailableError,
    UnsupportedError,
)
from backends.config.pbtxt import to_message
from backends.framework.files import existing_path
from backends.onnxruntime.failure import runtime_error

MODEL_FILE = "model.onnx"
_CPU = "CPUExecutionProvider"
_CUDA = "CUDAExecutionProvider"
_ONLY_ERRORS = 3

_GRAPH_LEVEL = {
    -1: onnxruntime.GraphOptimizationLevel.ORT_ENABLE_BASIC,
    0: onnxruntime.GraphOptimizationLevel.ORT_ENABLE_ALL,
    1: onnxruntime.GraphOptimizationLevel.ORT_ENABLE_EXTENDED,
    2: onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL,
}

_EXECUTION_MODE = {
    "0": onnxruntime.ExecutionMode.ORT_SEQUENTIAL,
    "1": onnxruntime.ExecutionMode.ORT_PARALLEL,
}

_CUDA_OPTIONS = (
    "arena_extend_strategy",
    "cudnn_conv_algo_search",
    "do_copy_in_default_stream",
    "gpu_mem_limit",
)

_FLAGS = {"enable_mem_arena": "enable_cpu_mem_arena", "enable_mem_pattern": "enable_mem_pattern"}

_ACCELERATOR_ADVICE = {
    "tensorrt": "convert the model to a TensorRT plan and serve it with backend 'tensorrt', or "
    "remove the accelerator to run with CUDA",
    "openvino": "serve the model with backend 'openvino', or remove the accelerator to run with "
    "ONNX Runtime's own CPU kernels",
}


def open_for_reading(context: LoadContext) -> Any:
    """Open a session that only tells the model's signature; cheaper than one that can run.

    Raises:
        UnavailableError: The file is missing.
        InternalError: It is no ONNX model this runtime can read.
    """
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.log_severity_level = _ONLY_ERRORS
    return _open(context, options, [_CPU])


def open_session(context: LoadContext) -> Any:
    """Open a session on the instance's device.

    Raises:
        UnavailableError: The file is missing, or the device cannot be used.
        UnsupportedError: An execution accelerator is asked for that this backend lacks.
        InvalidArgumentError: A parameter has a value of the wrong type.
        InternalError: The model cannot be loaded.
    """
    _refuse_accelerators(context)
    providers = _providers(context)
    session = _open(context, _session_options(context), providers)
    wanted = providers[0] if isinstance(providers[0], str) else providers[0][0]
    used = session.get_providers()[0]
    if used != wanted:
        # The runtime falls back to the CPU silently, which would look like a slow GPU.
        raise UnavailableError(
            f"model instance '{context.instance_name}' asked for {wanted} on GPU "
            f"{context.device_id} but ONNX Runtime fell back to {used}; check the GPU driver and "
            "CUDA libraries, or use KIND_CPU"
        )
    return session


def _open(context: LoadContext, options: Any, providers: list[Any]) -> Any:
    # A directory holds the model under its usual name.
    path = existing_path(context, MODEL_FILE, directory_of=MODEL_FILE)
    try:
        return onnxruntime.InferenceSession(path, options, providers=providers)
    except Exception as error:
        raise runtime_error(error, f"model '{context.config.name}', file '{path}'") from error


def _providers(context: LoadContext) -> list[Any]:
    if context.kind != "GPU":
        return [_CPU]
    if _CUDA not in onnxruntime.get_available_providers():
        raise UnavailableError(
            f"model instance '{context.instance_name}' is KIND_GPU but the installed onnxruntime "
            "has no CUDA support; install onnxruntime-gpu instead, or use KIND_CPU"
        )
    parameters = context.config.parameters
    options = {key: parameters[key] for key in _CUDA_OPTIONS if key in parameters}
    return [(_CUDA, {"device_id": str(context.device_id), **options}), _CPU]


def _session_options(context: LoadContext) -> Any:
    parameters = context.config.parameters
    options = onnxruntime.SessionOptions()
    options.log_severity_level = _ONLY_ERRORS
    options.intra_op_num_threads = _number(context, "intra_op_thread_count") or max(
        1, context.thread_count
    )
    options.inter_op_num_threads = _number(context, "inter_op_thread_count") or 1
    # Spinning threads win microseconds for one model and starve all others on the machine.
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    options.graph_optimization_level = _graph_level(context)
    if "execution_mode" in parameters:
        mode = _EXECUTION_MODE.get(parameters["execution_mode"])
        if mode is None:
            raise _bad_parameter(context, "execution_mode", "0 (sequential) or 1 (parallel)")
        options.execution_mode = mode
    for key, attribute in _FLAGS.items():
        if key in parameters:
            setattr(options, attribute, _number(context, key) != 0)
    for key, value in parameters.items():
        if key.startswith("session."):
            options.add_session_config_entry(key, value)
    return options


def _graph_level(context: LoadContext) -> Any:
    level = to_message(context.config).optimization.graph.level
    found = _GRAPH_LEVEL.get(level)
    if found is None:
        raise InvalidArgumentError(
            f"model '{context.config.name}' has optimization graph level {level}, expected -1 "
            "(basic), 0 (all), 1 (extended) or 2 (none)"
        )
    return found


def _number(context: LoadContext, key: str) -> int:
    """Return a parameter as an integer; 0 when it is not set."""
    try:
        value = int(context.config.parameters.get(key, "0"))
    except ValueError:
        raise _bad_parameter(context, key, "an integer") from None
    if value < 0:
        raise _bad_parameter(context, key, "an integer that is not negative")
    return value


def _bad_parameter(context: LoadContext, key: str, expected: str) -> InvalidArgumentError:
    return InvalidArgumentError(
        f"model '{context.config.name}' has parameter {key} "
        f"'{context.config.parameters[key]}', expected {expected}"
    )


def _refuse_accelerators(context: LoadContext) -> None:
    accelerators = to_message(context.config).optimization.execution_accelerators
    for entry in (
        *accelerators.gpu_execution_accelerator,
        *accelerators.cpu_execution_accelerator,
    ):
        if entry.name == "cuda":
            continue
        advice = _ACCELERATOR_ADVICE.get(entry.name)
        if advice is None:
            raise InternalError(
                f"unknown Execution Accelerator '{entry.name}' is requested by model "
                f"'{context.config.name}'"
            )
        raise UnsupportedError(
            f"model '{context.config.name}' asks for execution accelerator '{entry.name}', which "
            f"the onnxruntime backend does not support; {advice}"
        )
