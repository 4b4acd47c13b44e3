# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""What a config asks of ONNX Runtime, as values; importing this imports no runtime.

Triton: onnxruntime_backend/src/onnxruntime.cc ModelState::ModelState, README.md "Model Config
Options", "Command line options"
"""

import logging
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from backends.api.backend import LoadContext
from backends.api.errors import InvalidArgumentError
from backends.config.pbtxt import to_message
from backends.framework.files import existing_path
from backends.framework.parameters import Parameters, thread_count

logger = logging.getLogger(__name__)

MODEL_FILE: Final = "model.onnx"

_GRAPH_LEVELS: Final = (-1, 0, 1, 2)
_EXECUTION_MODES: Final = (0, 1)
# Attributes of the session's options, by parameter.
_FLAGS: Final = {
    "enable_mem_arena": "enable_cpu_mem_arena",
    "enable_mem_pattern": "enable_mem_pattern",
}


@dataclass(frozen=True, slots=True)
class Settings:
    """Settings of a session.

    Attributes:
        intra_op_threads: Threads within an operator.
        inter_op_threads: Threads for operators side by side.
        graph_level: Triton's number of the graph's optimizations: -1 basic, 0 all, 1 extended, 2
            none.
        execution_mode: 0 runs operators one after the other, 1 in parallel.
        flags: Attributes of the session's options to set.
        shares_session: Whether the config asks for one session of all instances.
    """

    intra_op_threads: int
    inter_op_threads: int
    graph_level: int
    execution_mode: int
    flags: Mapping[str, bool]
    shares_session: bool


def read_settings(context: LoadContext) -> Settings:
    """Return the settings of a session that runs the model.

    Raises:
        InvalidArgumentError: A parameter has a value that is none.
    """
    parameters = Parameters(context.config)
    intra, inter = _threads(context)
    graph_level, mode = _graph_level(context), _execution_mode(parameters)
    flags = {attribute: parameters.flag(key, None) for key, attribute in _FLAGS.items()}
    return Settings(
        intra_op_threads=intra,
        inter_op_threads=inter,
        graph_level=graph_level,
        execution_mode=mode,
        flags={attribute: flag for attribute, flag in flags.items() if flag is not None},
        shares_session=parameters.flag("share_session_between_instances", default=False),
    )


def model_path(context: LoadContext) -> str:
    """Return the path of the model's file; a directory holds it under its usual name.

    Raises:
        UnavailableError: There is no such file.
        InvalidArgumentError: Its name leads out of the version's directory.
    """
    return existing_path(context, MODEL_FILE, directory_of=MODEL_FILE)


def _threads(context: LoadContext) -> tuple[int, int]:
    """Return the sizes of the session's thread pools, within operators and between them.

    With ``enable-global-threadpool`` those of the backend config count and the model's do not. The
    pool is then that of the process, and a process has one session.
    """
    given = context.backend_config
    if _setting(context, "enable-global-threadpool"):
        logger.info("threads of '%s' are those of --backend-config %s", context.config.name, given)
        intra = _setting(context, "intra_op_thread_count") or max(1, context.thread_count)
        return intra, _setting(context, "inter_op_thread_count") or 1
    intra = thread_count(context, "intra_op_thread_count")
    return intra, Parameters(context.config).integer("inter_op_thread_count", 0, least=0) or 1


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


def _execution_mode(parameters: Parameters) -> int:
    mode = parameters.integer("execution_mode", 0)
    if mode not in _EXECUTION_MODES:
        raise InvalidArgumentError(
            "Invalid configuration value provided. Expected values for  execution_mode are 0 or 1 "
            f"but got {mode} . Model '{parameters.config.name}' runs operators one after the other "
            "with 0, in parallel with 1"
        )
    return mode


def _graph_level(context: LoadContext) -> int:
    level: int = to_message(context.config).optimization.graph.level
    if level not in _GRAPH_LEVELS:
        raise InvalidArgumentError(
            f"model '{context.config.name}' has optimization graph level {level}, expected -1 "
            "(basic), 0 (all), 1 (extended) or 2 (none)"
        )
    return level
