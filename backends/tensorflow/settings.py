# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""What a config asks of TensorFlow, checked without it.

Triton: tensorflow_backend/src/tensorflow.cc ModelState::ParseParameters, CreateModel,
TRITONBACKEND_Initialize
"""

import json
import logging
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from backends.api.backend import LoadContext
from backends.api.errors import InvalidArgumentError, UnsupportedError
from backends.config.pbtxt import to_message
from backends.framework.parameters import Parameters

logger = logging.getLogger(__name__)

SAVED_MODEL = "tensorflow_savedmodel"
GRAPH_DEF = "tensorflow_graphdef"

_FILES = {SAVED_MODEL: "model.savedmodel", GRAPH_DEF: "model.graphdef"}

_TENSORRT_NUMBERS = (
    "minimum_segment_size",
    "max_workspace_size_bytes",
    "max_cached_engines",
)


@dataclass(frozen=True, slots=True)
class Settings:
    """How a session is made.

    Attributes:
        intra_threads: Threads of one operation.
        inter_threads: Threads that run operations side by side.
        own_threads: Whether the session has threads of its own.
        soft_placement: Whether operations may run elsewhere than where the graph places them.
        gpu_memory_fraction: Of a GPU's memory, what to take at once; 0 takes what is needed.
        jit_level: TensorFlow's global JIT level: -1, 0, 1 or 2.
        mixed_precision: Whether parts of the graph compute at FP16.
        init_operations: Names of operations to run once, before the first request.
        operation_libraries: Paths of libraries with operations of the model's own.
    """

    intra_threads: int
    inter_threads: int
    own_threads: bool
    soft_placement: bool
    gpu_memory_fraction: float
    jit_level: int
    mixed_precision: bool
    init_operations: tuple[str, ...]
    operation_libraries: tuple[str, ...]


def model_file(context: LoadContext) -> str:
    """Return the name of the model's file or directory unless the config has another.

    Raises:
        InvalidArgumentError: The platform is none of TensorFlow's, or TensorFlow 1 is asked for.
    """
    config = context.config
    if config.platform not in _FILES:
        raise InvalidArgumentError(
            f"platform {config.platform} not supported for TensorFlow model '{config.name}'; "
            f"expected {' or '.join(_FILES)}"
        )
    if context.backend_config.get("version", "2") == "1":
        raise InvalidArgumentError(
            "starting from 23.04, Triton no longer supports Tensorflow 1. Please switch to "
            "Tensorflow 2. Set --backend-config=tensorflow,version=2, or leave it out"
        )
    return _FILES[config.platform]


def graph_tag(context: LoadContext) -> str:
    """Return the tag of the graph to run; empty for the usual one."""
    return context.config.parameters.get("TF_GRAPH_TAG", "")


def signature_key(context: LoadContext) -> str:
    """Return the key of the signature to run; empty for the usual one."""
    return context.config.parameters.get("TF_SIGNATURE_DEF", "")


def settings(context: LoadContext) -> Settings:
    """Return how the config wants the session.

    Raises:
        InvalidArgumentError: A parameter has a value that it cannot have, or an accelerator is
            unknown.
        UnsupportedError: An accelerator is known and not here.
    """
    given = Parameters(context.config)
    _count(context, "MAX_SESSION_SHARE_COUNT", least=1, what="positive")
    intra = _count(context, "TF_NUM_INTRA_THREADS", least=0, what="non-negative")
    inter = _count(context, "TF_NUM_INTER_THREADS", least=0, what="non-negative")
    message = to_message(context.config)
    level = int(message.optimization.graph.level)
    return Settings(
        intra_threads=intra or max(1, context.thread_count),
        inter_threads=inter or 1,
        own_threads=given.flag("TF_USE_PER_SESSION_THREADS", default=False),
        soft_placement=_soft_placement(context),
        gpu_memory_fraction=_fraction(context),
        jit_level=max(-1, min(level, 2)),
        mixed_precision=_mixed_precision(context, message.optimization.execution_accelerators),
        init_operations=_init_operations(context),
        operation_libraries=tuple(message.model_operations.op_library_filename),
    )


def _count(context: LoadContext, key: str, *, least: int, what: str) -> int:
    """Return a parameter that is a number of at least ``least``; 0 when it is not set."""
    value = Parameters(context.config).integer(key, None)
    if value is not None and value < least:
        raise InvalidArgumentError(
            f"parameter '{key}' must be {what} number for TensorFlow model "
            f"'{context.config.name}'; it is {value}"
        )
    return value or 0


def _soft_placement(context: LoadContext) -> bool:
    text = context.backend_config.get("allow-soft-placement", "true")
    if text.lower() not in {"true", "false", "1", "0", "on", "off"}:
        raise InvalidArgumentError(
            f"failed to convert '{text}' to boolean: --backend-config=tensorflow,"
            "allow-soft-placement must be true or false"
        )
    return text.lower() in {"true", "1", "on"}


def _fraction(context: LoadContext) -> float:
    text = context.backend_config.get("gpu-memory-fraction", "0.0")
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0 <= value <= 1:
        raise InvalidArgumentError(
            f"failed to convert '{text}' to double: --backend-config=tensorflow,"
            "gpu-memory-fraction must be a number from 0 to 1"
        )
    return value


def _mixed_precision(context: LoadContext, accelerators: Any) -> bool:
    if accelerators.cpu_execution_accelerator:
        raise InvalidArgumentError(
            "CPU Execution Accelerator is not supported in TensorFlow backend: remove "
            f"cpu_execution_accelerator from the config of model '{context.config.name}'"
        )
    entries = accelerators.gpu_execution_accelerator
    if entries and context.kind == "CPU":
        logger.warning(
            "GPU Execution Accelerator will be ignored for model instance on CPU: '%s'",
            context.instance_name,
        )
        return False
    for entry in entries:
        if entry.name == "tensorrt":
            _refuse_tensorrt(context, entry.parameters)
        if entry.name not in {"gpu_io", "auto_mixed_precision"}:
            raise InvalidArgumentError(
                f"unknown Execution Accelerator '{entry.name}' is requested by model "
                f"'{context.config.name}'"
            )
    return any(entry.name == "auto_mixed_precision" for entry in entries)


def _refuse_tensorrt(context: LoadContext, parameters: Any) -> None:
    where = f"by model '{context.config.name}'"
    for key, value in parameters.items():
        if key == "precision_mode" and value not in {"FP32", "FP16"}:
            raise InvalidArgumentError(f"unsupported precision mode '{value}' is requested {where}")
        if key != "precision_mode" and key not in _TENSORRT_NUMBERS:
            raise InvalidArgumentError(
                f"unknown parameter '{key}' is provided for TensorRT Execution Accelerator {where}"
            )
    raise UnsupportedError(
        f"model '{context.config.name}' asks for execution accelerator 'tensorrt', which is no "
        "longer part of TensorFlow; convert the model to a TensorRT plan and serve it with "
        "backend 'tensorrt', or remove the accelerator"
    )


def _init_operations(context: LoadContext) -> tuple[str, ...]:
    name = context.config.parameters.get("TF_INIT_OPS_FILE", "")
    if not name:
        return ()
    places = (Path(context.version_dir, name), Path(context.model_dir, name))
    path = next((place for place in places if place.is_file()), None)
    where = f"parameter TF_INIT_OPS_FILE of model '{context.config.name}'"
    if path is None:
        raise InvalidArgumentError(
            f"{where} names '{name}', which is neither in '{context.version_dir}' nor in "
            f"'{context.model_dir}'"
        )
    try:
        operations = json.loads(path.read_text())["init_ops"]
    except (OSError, ValueError, KeyError, TypeError):
        operations = None
    if not isinstance(operations, list) or not all(isinstance(one, str) for one in operations):
        raise InvalidArgumentError(
            f'{where} names \'{path}\', which must hold JSON of the form {{"init_ops": ["<name of '
            'an operation>", ...]}'
        )
    return tuple(operations)
