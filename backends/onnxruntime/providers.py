# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Execution providers of ONNX Runtime and their options, as a config asks for them.

Nothing here needs the providers: `onnxruntime` is told names and options. Accelerators of GPUs
count for instances on GPUs only, as in Triton.

Triton: onnxruntime_backend/src/onnxruntime.cc ModelState::LoadModel, README.md "Parameter mapping
between ONNX Runtime and Triton ONNXRuntime Backend"
"""

import logging
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from backends.api.backend import LoadContext
from backends.api.errors import InvalidArgumentError, UnavailableError, UnsupportedError
from backends.config.pbtxt import to_message
from backends.onnxruntime.engine_cache import engine_folder

logger = logging.getLogger(__name__)

CPU: Final = "CPUExecutionProvider"
CUDA: Final = "CUDAExecutionProvider"
TENSORRT: Final = "TensorrtExecutionProvider"
OPENVINO: Final = "OpenVINOExecutionProvider"

# A provider by its name, or with options.
Provider = str | tuple[str, dict[str, str]]
# From a parameter's text to the option's; raises ValueError.
Read = Callable[[str], str]

_FLAGS: Final = {
    **dict.fromkeys(("true", "on", "1"), True),
    **dict.fromkeys(("false", "off", "0"), False),
}


def _flag(text: str) -> bool:
    if text.lower() not in _FLAGS:
        raise ValueError(f"failed to convert '{text}' to boolean")
    return _FLAGS[text.lower()]


def _number(text: str) -> str:
    return _integer(text, "integral number")


def _size(text: str) -> str:
    if text.startswith("-"):
        raise ValueError(f"failed to convert '{text}' to unsigned long long integral number")
    return _integer(text, "unsigned long long integral number")


def _integer(text: str, kind: str) -> str:
    try:
        int(text)
    except ValueError:
        raise ValueError(f"failed to convert '{text}' to {kind}") from None
    return text


def _text(text: str) -> str:
    return text


def _tensorrt_flag(text: str) -> str:
    # The Python binding of this provider takes these two words, and of CUDA's others.
    return "True" if _flag(text) else "False"


def _cuda_flag(text: str) -> str:
    return "1" if _flag(text) else "0"


_TENSORRT_OPTIONS: Final[Mapping[str, tuple[str, Read]]] = {
    "max_workspace_size_bytes": ("trt_max_workspace_size", _size),
    "int8_calibration_table_name": ("trt_int8_calibration_table_name", _text),
    "int8_use_native_calibration_table": (
        "trt_int8_use_native_calibration_table",
        _tensorrt_flag,
    ),
    **{
        name: (name, _number)
        for name in (
            "trt_auxiliary_streams",
            "trt_builder_optimization_level",
            "trt_dla_core",
            "trt_ep_context_embed_mode",
            "trt_max_partition_iterations",
            "trt_min_subgraph_size",
        )
    },
    **{
        name: (name, _tensorrt_flag)
        for name in (
            "trt_build_heuristics_enable",
            "trt_context_memory_sharing_enable",
            "trt_cuda_graph_enable",
            "trt_detailed_build_log",
            "trt_dla_enable",
            "trt_dump_ep_context_model",
            "trt_dump_subgraphs",
            "trt_engine_cache_enable",
            "trt_force_sequential_engine_build",
            "trt_force_timing_cache",
            "trt_layer_norm_fp32_fallback",
            "trt_sparsity_enable",
            "trt_timing_cache_enable",
        )
    },
    **{
        name: (name, _text)
        for name in (
            "trt_engine_cache_path",
            "trt_engine_cache_prefix",
            "trt_ep_context_file_path",
            "trt_extra_plugin_lib_paths",
            "trt_profile_max_shapes",
            "trt_profile_min_shapes",
            "trt_profile_opt_shapes",
            "trt_tactic_sources",
            "trt_timing_cache_path",
        )
    },
}

_PRECISIONS: Final = {
    "FP32": {},
    "FP16": {"trt_fp16_enable": "True"},
    "BF16": {"trt_bf16_enable": "True"},
    "INT8": {"trt_int8_enable": "True"},
}

_ALGORITHMS: Final = {"0": "EXHAUSTIVE", "1": "HEURISTIC", "2": "DEFAULT"}
_STRATEGIES: Final = {"0": "kNextPowerOfTwo", "1": "kSameAsRequested"}


def _one_of(key: str, table: Mapping[str, str]) -> Read:
    """Return a reader of Triton's number or ONNX Runtime's own word for it."""

    def read(text: str) -> str:
        if text in table.values():
            return text
        if text not in table:
            raise ValueError(f"unsupported {key} value '{text}' is requested")
        return table[text]

    return read


# Options that need reading; all others go to the provider as they are.
_CUDA_READERS: Final[Mapping[str, Read]] = {
    "arena_extend_strategy": _one_of("arena_extend_strategy", _STRATEGIES),
    "cudnn_conv_algo_search": _one_of("cudnn_conv_algo_search", _ALGORITHMS),
    "do_copy_in_default_stream": _cuda_flag,
    "use_ep_level_unified_stream": _cuda_flag,
}
# Those that may stand among the config's parameters, where Triton had them first.
_CUDA_PARAMETERS: Final = (
    "arena_extend_strategy",
    "cudnn_conv_algo_search",
    "do_copy_in_default_stream",
    "gpu_mem_limit",
)


@dataclass(frozen=True, slots=True)
class Accelerator:
    """One ``execution_accelerators`` entry of a config."""

    name: str
    parameters: Mapping[str, str]


def _value(read: Read, key: str, text: str) -> str:
    try:
        return read(text)
    except ValueError as error:
        raise InvalidArgumentError(f"{error}: parameter {key} of an execution provider") from None


def tensorrt_options(parameters: Mapping[str, str], device_id: int) -> dict[str, str]:
    """Return the provider's options for an accelerator's parameters.

    Raises:
        InvalidArgumentError: A parameter is unknown, or a value is none.
    """
    options: dict[str, str] = {}
    for key, text in parameters.items():
        if key == "precision_mode":
            if text not in _PRECISIONS:
                raise InvalidArgumentError(f"unsupported precision mode '{text}' is requested")
            options |= _PRECISIONS[text]
            continue
        if key not in _TENSORRT_OPTIONS:
            raise InvalidArgumentError(
                f"unknown parameter '{key}' is provided for TensorRT Execution Accelerator"
            )
        name, read = _TENSORRT_OPTIONS[key]
        if text:
            options[name] = _value(read, key, text)
    return options | {"device_id": str(device_id)}


def cuda_options(
    parameters: Mapping[str, str], accelerator: Mapping[str, str], device_id: int
) -> dict[str, str]:
    """Return the provider's options.

    Args:
        parameters: The config's parameters, of which four are options.
        accelerator: The parameters of its accelerator ``cuda``, which win.
        device_id: The GPU.

    Raises:
        InvalidArgumentError: A value is none.
    """
    given = {key: parameters[key] for key in _CUDA_PARAMETERS if key in parameters}
    return {
        key: _value(_CUDA_READERS.get(key, _text), key, text)
        for key, text in (given | dict(accelerator)).items()
        if text
    } | {"device_id": str(device_id)}


def wanted_providers(context: LoadContext, path: str, available: Collection[str]) -> list[Provider]:
    """Return the execution providers of an instance, the one that is asked first at the front.

    Args:
        context: The instance.
        path: The ONNX file.
        available: Providers that the installed onnxruntime was built with.

    Raises:
        InvalidArgumentError: An accelerator is unknown, or one of its parameters is wrong.
        UnavailableError: The installed onnxruntime lacks a provider for GPUs.
        UnsupportedError: It lacks the one of OpenVINO.
    """
    entries = to_message(context.config).optimization.execution_accelerators
    on_gpu = _accelerators(entries.gpu_execution_accelerator)
    on_cpu = _accelerators(entries.cpu_execution_accelerator)
    providers: list[Provider] = []
    if context.kind == "GPU":
        providers += _gpu_providers(context, on_gpu, path, available)
    elif on_gpu:
        logger.warning(
            "GPU Execution Accelerator will be ignored for model instance on CPU: %s",
            context.instance_name,
        )
    for each in on_cpu:
        if each.name != "openvino":
            raise _unknown(context, each.name, "openvino")
        _require_openvino(context, available)
        providers.append((OPENVINO, {"device_type": "CPU", **each.parameters}))
    return [*providers, CPU]


def _gpu_providers(
    context: LoadContext, accelerators: Iterable[Accelerator], path: str, available: Collection[str]
) -> list[Provider]:
    if CUDA not in available:
        raise UnavailableError(
            f"model instance '{context.instance_name}' is KIND_GPU but the installed onnxruntime "
            "has no CUDA support; install onnxruntime-gpu instead, or use KIND_CPU"
        )
    providers: list[Provider] = []
    cuda: dict[str, str] = {}
    for each in accelerators:
        if each.name == "cuda":
            cuda |= each.parameters
        elif each.name == "tensorrt":
            options = tensorrt_options(each.parameters, context.device_id)
            _require_tensorrt(context, available)
            providers.append((TENSORRT, _cached(options, path)))
        else:
            raise _unknown(context, each.name, "tensorrt or cuda")
    options = cuda_options(context.config.parameters, cuda, context.device_id)
    return [*providers, (CUDA, options)]


def _cached(options: dict[str, str], path: str) -> dict[str, str]:
    """Have engines kept on the node, unless the config says something about it."""
    if options.keys() & {"trt_engine_cache_enable", "trt_dump_ep_context_model"}:
        return options
    folder = engine_folder(path)
    if not folder:
        return options
    return {"trt_engine_cache_path": folder, **options, "trt_engine_cache_enable": "True"}


def _accelerators(entries: Iterable[Any]) -> list[Accelerator]:
    return [Accelerator(entry.name, dict(entry.parameters)) for entry in entries]


def _unknown(context: LoadContext, name: str, known: str) -> InvalidArgumentError:
    return InvalidArgumentError(
        f"unknown Execution Accelerator '{name}' is requested: model '{context.config.name}' may "
        f"ask for {known}"
    )


def _require_tensorrt(context: LoadContext, available: Collection[str]) -> None:
    if TENSORRT not in available:
        raise UnavailableError(
            f"model instance '{context.instance_name}' asks for Execution Accelerator 'tensorrt', "
            "but the installed onnxruntime has no TensorRT support; install onnxruntime-gpu and "
            "TensorRT, or remove the accelerator to run with CUDA, or convert the model to a plan "
            "and serve it with backend 'tensorrt'"
        )


def _require_openvino(context: LoadContext, available: Collection[str]) -> None:
    if OPENVINO not in available:
        raise UnsupportedError(
            f"model '{context.config.name}' asks for Execution Accelerator 'openvino', which the "
            "installed onnxruntime does not have; serve the model with backend 'openvino', or "
            "remove the accelerator to run with ONNX Runtime's own CPU kernels"
        )
