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
from backends.framework.files import operator_libraries
from backends.onnxruntime.failure import runtime_error
from backends.onnxruntime.settings import read_settings

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
    options = onnxruntime.SessionOptions()
    options.log_severity_level = _ONLY_ERRORS
    settings = read_settings(context)
    options.intra_op_num_threads = settings.intra_op_threads
    options.inter_op_num_threads = settings.inter_op_threads
    # Spinning threads win microseconds for one model and starve all others on the machine.
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    options.graph_optimization_level = _GRAPH_LEVEL[settings.graph_level]
    options.execution_mode = _EXECUTION_MODE[settings.execution_mode]
    for attribute, flag in settings.flags.items():
        setattr(options, attribute, flag)
    if settings.shares_session:
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


def _register_operators(context: LoadContext, options: Any) -> None:
    """Have libraries of custom operators loaded: paths in the model's directory, or absolute."""
    for path in operator_libraries(context):
        try:
            options.register_custom_ops_library(path)
        except Exception as error:
            raise runtime_error(error, f"model '{context.config.name}', file '{path}'") from error
