# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""What a config's parameters mean for OpenVINO GenAI; imports nothing of it."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from backends.api.backend import LoadContext
from backends.llm.parameters import read_parameter

CPU: Final = "CPU"
SLOTS: Final = "max_num_seqs"
_DEVICE: Final = "TARGET_DEVICE"
_THREADS: Final = "INFERENCE_NUM_THREADS"
# With one, OpenVINO 2026.4 divides by zero while it loads a model in bf16, which ends the process.
_LEAST_THREADS: Final = 2


@dataclass(frozen=True, slots=True)
class _Row:
    """A parameter of the config.

    Attributes:
        name: Its name in the config and in OpenVINO.
        read: Makes the value of the text; None when it is none.
        expected: What the text must be, for the error.
        usual: The value where the config has none; None for OpenVINO's own.
    """

    name: str
    read: Callable[[str], Any]
    expected: str
    usual: Any = None


def _count(text: str) -> int | None:
    return int(text) if text.isascii() and text.isdigit() and int(text) > 0 else None


def _flag(text: str) -> bool | None:
    return {"true": True, "false": False}.get(text.lower())


def _precision(text: str) -> str | None:
    return text.lower() if text.lower() in {"f32", "f16", "bf16"} else None


def _cache_precision(text: str) -> str | None:
    return text.lower() if text.lower() in {"f32", "f16", "bf16", "u8", "u4"} else None


_POSITIVE = "a positive integer"
# Of the scheduler. Cache sizes are in GB; memory is taken as it is used.
_SCHEDULER: Final = (
    _Row("cache_size", _count, _POSITIVE, 2),
    _Row(SLOTS, _count, _POSITIVE, 64),
    _Row("max_num_batched_tokens", _count, _POSITIVE),
    _Row("dynamic_split_fuse", _flag, "'true' or 'false'"),
    _Row("enable_prefix_caching", _flag, "'true' or 'false'", True),
)
# Of the device.
_PROPERTIES: Final = (
    _Row("INFERENCE_PRECISION_HINT", _precision, "'f32', 'f16' or 'bf16'"),
    _Row("KV_CACHE_PRECISION", _cache_precision, "'f32', 'f16', 'bf16', 'u8' or 'u4'"),
    _Row(_THREADS, _count, _POSITIVE),
)


def device_of(context: LoadContext) -> str:
    """Return OpenVINO's name of the device that the model runs on."""
    return context.config.parameters.get(_DEVICE, "").upper() or CPU


def scheduler_settings(context: LoadContext) -> dict[str, Any]:
    """Return fields of the scheduler's config, of parameters and by default.

    Raises:
        InvalidArgumentError: A parameter has a value that it cannot have.
    """
    return _settings(context, _SCHEDULER)


def device_properties(context: LoadContext) -> dict[str, Any]:
    """Return the properties to compile with, of parameters and by default.

    On CPUs the default is as many threads as the instance has, and at least two, never pinned:
    every process would pin its own to the same first cores.

    Raises:
        InvalidArgumentError: A parameter has a value that it cannot have.
    """
    found = _settings(context, _PROPERTIES)
    if device_of(context) == CPU:
        found.setdefault(_THREADS, max(_LEAST_THREADS, context.thread_count))
        found["ENABLE_CPU_PINNING"] = False
    return found


def _settings(context: LoadContext, rows: tuple[_Row, ...]) -> dict[str, Any]:
    found = {}
    for row in rows:
        value = read_parameter(context.config, row.name, row.read, row.expected)
        value = row.usual if value is None else value
        if value is not None:
            found[row.name] = value
    return found
