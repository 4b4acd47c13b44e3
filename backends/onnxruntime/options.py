# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Options of ONNX Runtime's sessions and runs, as a config asks for them.

Triton: onnxruntime_backend/src/onnxruntime.cc ModelState::ModelState, README.md "Model Config
Options", "Command line options"
"""

import logging
from typing import Any, Final

import onnxruntime

from backends.api.backend import LoadContext
from backends.api.errors import InvalidArgumentError
from backends.config.pbtxt import to_message
from backends.framework.files import operator_libraries
from backends.framework.parameters import Parameters, thread_count
from backends.onnxruntime.failure import runtime_error

logger = logging.getLogger(__name__)

_ONLY_ERRORS: Final = 3
_SHRINKAGE: Final = "memory.enable_memory_arena_shrinkage"

_GRAPH_LEVEL: Final = {
    -1: onnxruntime.GraphOptimizationLevel.ORT_ENABLE_BASIC,
    0: onnxruntime.GraphOptimizationLevel.ORT_ENABLE_ALL,
    1: onnxruntime.GraphOptimizationLevel.ORT_ENABLE_EXTENDED,
    2: onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL,
}

_EXECUTION_MODE: Final = {
    0: onnxruntime.ExecutionMode.ORT_SEQUENTIAL,
    1: onnxruntime.ExecutionMode.ORT_PARALLEL,
}

_FLAGS: Final = {
    "enable_mem_arena": "enable_cpu_mem_arena",
    "enable_mem_pattern": "enable_mem_pattern",
}


def reading_options(context: LoadContext) -> Any:
    """Return the options of a session that only tells the model's signature.

    Raises:
        UnavailableError: A library of operators is missing.
        InvalidArgumentError: Its path leads out of the model's directory.
        InternalError: It cannot be loaded.
    """
    options = onnxruntime.SessionOptions()
    options.log_severity_level = _ONLY_ERRORS
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    _register_operators(context, options)
    return options


def session_options(context: LoadContext) -> Any:
    """Return the options of a session that runs the model.

    Raises:
        UnavailableError: A library of operators is missing.
        InvalidArgumentError: A parameter has a value that is none.
        InternalError: A library of operators cannot be loaded.
    """
    config = context.config
    parameters = Parameters(config)
    options = onnxruntime.SessionOptions()
    options.log_severity_level = _ONLY_ERRORS
    _set_threads(context, options)
    options.graph_optimization_level = _graph_level(context)
    options.execution_mode = _execution_mode(parameters)
    for key, attribute in _FLAGS.items():
        flag = parameters.flag(key, None)
        if flag is not None:
            setattr(options, attribute, flag)
    if parameters.flag("share_session_between_instances", default=False):
        logger.info(
            "model '%s' has share_session_between_instances, which has no effect: each instance is "
            "a process with a session of its own",
            config.name,
        )
    for key, value in config.parameters.items():
        if key.startswith("session."):
            options.add_session_config_entry(key, value)
    _register_operators(context, options)
    return options


def run_options(context: LoadContext) -> Any:
    """Return the options of every run; None for ONNX Runtime's own."""
    shrinkage = context.config.parameters.get(_SHRINKAGE)
    if not shrinkage:
        return None
    options = onnxruntime.RunOptions()
    options.add_run_config_entry(_SHRINKAGE, shrinkage)
    return options


def _set_threads(context: LoadContext, options: Any) -> None:
    """Set the sizes of the session's thread pools.

    With ``enable-global-threadpool`` those of the backend config count and the model's do not. The
    pool is then that of the process, and a process has one session.
    """
    given = context.backend_config
    if _setting(context, "enable-global-threadpool"):
        intra = _setting(context, "intra_op_thread_count") or max(1, context.thread_count)
        inter = _setting(context, "inter_op_thread_count") or 1
        logger.info("threads of '%s' are those of --backend-config %s", context.config.name, given)
    else:
        intra = thread_count(context, "intra_op_thread_count")
        inter = Parameters(context.config).integer("inter_op_thread_count", 0, least=0) or 1
    options.intra_op_num_threads = intra
    options.inter_op_num_threads = inter
    # Spinning threads win microseconds for one model and starve all others on the machine.
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")


def _setting(context: LoadContext, key: str) -> int:
    """Return a setting of ``--backend-config=onnxruntime,`` as a number; 0 when it is not set."""
    text = context.backend_config.get(key, "0")
    try:
        return max(0, int(text))
    except ValueError:
        raise InvalidArgumentError(
            f"failed to convert '{text}' to integral number: --backend-config onnxruntime,{key} of "
            f"model '{context.config.name}' must be an integer"
        ) from None


def _execution_mode(parameters: Parameters) -> Any:
    mode = parameters.integer("execution_mode", 0)
    if mode not in _EXECUTION_MODE:
        raise InvalidArgumentError(
            "Invalid configuration value provided. Expected values for  execution_mode are 0 or 1 "
            f"but got {mode} . Model '{parameters.config.name}' runs operators one after the other "
            "with 0, in parallel with 1"
        )
    return _EXECUTION_MODE[mode]


def _graph_level(context: LoadContext) -> Any:
    level = to_message(context.config).optimization.graph.level
    found = _GRAPH_LEVEL.get(level)
    if found is None:
        raise InvalidArgumentError(
            f"model '{context.config.name}' has optimization graph level {level}, expected -1 "
            "(basic), 0 (all), 1 (extended) or 2 (none)"
        )
    return found


def _register_operators(context: LoadContext, options: Any) -> None:
    """Have libraries of custom operators loaded: paths in the model's directory, or absolute."""
    for path in operator_libraries(context):
        try:
            options.register_custom_ops_library(path)
        except Exception as error:
            raise runtime_error(error, f"model '{context.config.name}', file '{path}'") from error
