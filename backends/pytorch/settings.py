# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""The parameters of PyTorch models.

Threads and the modes of TorchScript belong to the process, which is the instance's own.

Triton: pytorch_backend/src/pt/model_state.cc ParseParameters; src/model.py _set_torch_parallelism,
_get_torch_compile_params
"""

import json
import logging
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch

from backends.api.backend import LoadContext
from backends.api.errors import InvalidArgumentError
from backends.framework.parameters import Parameters

logger = logging.getLogger(__name__)

_COMPILE = "TORCH_COMPILE"
_COMPILE_OPTIONS = "TORCH_COMPILE_OPTIONAL_PARAMETERS"
_AUTOCAST = {"bfloat16": torch.bfloat16, "float16": torch.float16}
# For the two ways that Triton names the same: in C++ and in Python.
_INTRA_OP = ("INTRA_OP_THREAD_COUNT", "NUM_THREADS")
_INTER_OP = ("INTER_OP_THREAD_COUNT", "NUM_INTEROP_THREADS")

# Of TorchScript, set only when given: parameter, name in the log, switch.
_MODES = (
    ("ENABLE_TENSOR_FUSER", "Tensor fuser", torch._C._jit_set_texpr_fuser_enabled),  # noqa: SLF001 - there is no public way
    ("ENABLE_JIT_PROFILING", "Jit profiling", torch._C._jit_set_profiling_mode),  # noqa: SLF001 - the same
    ("ENABLE_JIT_EXECUTOR", "Jit executor", torch._C._jit_set_profiling_executor),  # noqa: SLF001 - the same
)


@dataclass(frozen=True, slots=True)
class Settings:
    """What a config's parameters say.

    Attributes:
        inference_mode: Whether executions run in inference mode, else without gradients only.
        autocast: What floating-point operations are computed in, of those that allow it; None
            leaves that to the model. Manta's own parameter.
        shares_weights: Whether instances of a node share the memory of their weights.
        cleans_cache: Whether the GPU's cached memory is given back after every execution.
        compile_options: Keywords of ``torch.compile``; None does not compile.
    """

    inference_mode: bool = True
    autocast: torch.dtype | None = None
    shares_weights: bool = False
    cleans_cache: bool = False
    compile_options: Mapping[str, Any] | None = None


def read_settings(context: LoadContext) -> Settings:
    """Read a config's parameters.

    Raises:
        InvalidArgumentError: One has a value that it cannot have.
    """
    parameters = Parameters(context.config)
    return Settings(
        inference_mode=parameters.flag("INFERENCE_MODE", True),
        autocast=parameters.choice("AUTOCAST", _AUTOCAST, None),
        shares_weights=parameters.flag("ENABLE_WEIGHT_SHARING", False),
        cleans_cache=any(
            parameters.flag(key, False)
            for key in ("ENABLE_CACHE_CLEANING", "CACHE_CLEANING_ENABLED")
        ),
        compile_options=_compile_options(parameters),
    )


def prepare_process(context: LoadContext) -> None:
    """Set up this process for a model: threads, cuDNN and the modes of TorchScript.

    Raises:
        InvalidArgumentError: A parameter has a value that it cannot have.
    """
    parameters = Parameters(context.config)
    _set_threads(parameters, context.thread_count)
    is_on = {
        "Optimized execution": not parameters.flag("DISABLE_OPTIMIZED_EXECUTION", False),
        "Inference Mode": parameters.flag("INFERENCE_MODE", True),
        "cuDNN": not parameters.flag("DISABLE_CUDNN", False),
    }
    torch.backends.cudnn.enabled = is_on["cuDNN"]
    # Of this thread, which is the one that executes.
    torch._C._set_graph_executor_optimize(is_on["Optimized execution"])  # noqa: SLF001 - there is no public way
    for key, what, switch in _MODES:
        value = parameters.flag(key, None)
        if value is not None:
            is_on[what] = value
            switch(value)
    for what, value in is_on.items():
        logger.info(
            "%s is %s for model instance '%s'",
            what,
            "enabled" if value else "disabled",
            context.config.name,
        )


def _set_threads(parameters: Parameters, share: int) -> None:
    """Set the threads of operations, and those that run operations side by side."""
    torch.set_num_threads(_count(parameters, _INTRA_OP) or max(1, share))
    side_by_side = _count(parameters, _INTER_OP) or 1
    if torch.get_num_interop_threads() == side_by_side:
        return
    try:
        torch.set_num_interop_threads(side_by_side)
    except RuntimeError as error:
        # Once in a process, and before anything has run.
        logger.warning(
            "inter-op threads of model '%s' stay %d, not %d: %s",
            parameters.config.name,
            torch.get_num_interop_threads(),
            side_by_side,
            str(error).partition("\n")[0],
        )


def _count(parameters: Parameters, keys: tuple[str, ...]) -> int:
    """Return the first of several parameters that is above 0; like Triton, others are ignored."""
    return next((count for key in keys if (count := parameters.integer(key, 0)) > 0), 0)


def _compile_options(parameters: Parameters) -> Mapping[str, Any] | None:
    text = parameters.config.parameters.get(_COMPILE_OPTIONS)
    if text is None:
        return {} if parameters.flag(_COMPILE, False) else None
    try:
        options = json.loads(text)
    except ValueError as error:
        raise parameters.refused(_COMPILE_OPTIONS, str(error), "a JSON object") from None
    if not isinstance(options, dict):
        raise parameters.refused(_COMPILE_OPTIONS, f"got '{text}'", "a JSON object")
    if "model" in options:
        raise InvalidArgumentError("'model' is not an optional parameter for 'torch.compile'")
    return options
