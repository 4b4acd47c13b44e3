# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""What a config's parameters mean for OpenVINO.

Triton: openvino_backend/src/openvino.cc ModelState::ParseParameterHelper
"""

import logging
import os
from collections.abc import Callable
from dataclasses import dataclass

from backends.api.backend import LoadContext
from backends.api.errors import InvalidArgumentError

logger = logging.getLogger(__name__)

CPU = "CPU"
STREAMS = "NUM_STREAMS"

_THREADS = "INFERENCE_NUM_THREADS"
_HINTS = ("LATENCY", "THROUGHPUT", "CUMULATIVE_THROUGHPUT")


@dataclass(frozen=True, slots=True)
class _Row:
    """A parameter that becomes a property of the device.

    Attributes:
        parameter: Its name in the config.
        name: The property's name in OpenVINO.
        value: Makes the property's value of the text in lower case; None when it is none.
        expected: What the text must be, for the error.
        on_cpu: Whether the CPU's plugin knows the property.
    """

    parameter: str
    name: str
    value: Callable[[str], str | None]
    expected: str
    on_cpu: bool = True


def _digits(text: str) -> str | None:
    return text if text.isascii() and text.isdigit() else None


def _hint(text: str) -> str | None:
    return text.upper() if text.upper() in _HINTS else None


def _streams(text: str) -> str | None:
    return text.upper() if text in {"auto", "numa"} else _digits(text)


def _bf16(text: str) -> str | None:
    return "bf16" if text == "yes" else None


_NUMBER = "a non-negative number"
_ROWS = (
    _Row("PERFORMANCE_HINT", "PERFORMANCE_HINT", _hint, "/".join(_HINTS)),
    _Row(_THREADS, _THREADS, _digits, _NUMBER),
    _Row("COMPILATION_NUM_THREADS", "COMPILATION_NUM_THREADS", _digits, _NUMBER, on_cpu=False),
    _Row("HINT_BF16", "INFERENCE_PRECISION_HINT", _bf16, "YES"),
    _Row(STREAMS, STREAMS, _streams, "either AUTO/NUMA/<int_value>"),
)


def device_of(context: LoadContext) -> str:
    """Return OpenVINO's name of the device that the model runs on.

    Raises:
        InvalidArgumentError: The instance is of another kind than KIND_CPU.
    """
    name = context.config.name
    if context.kind != CPU:
        raise InvalidArgumentError(
            f"unable to load model '{name}', Triton OpenVINO backend supports only Kind CPU and "
            f"AUTO; instance '{context.instance_name}' has KIND_{context.kind}. Intel's GPUs and "
            "NPUs are chosen by the parameter TARGET_DEVICE, under KIND_CPU"
        )
    return context.config.parameters.get("TARGET_DEVICE", "").upper() or CPU


def properties(context: LoadContext, device: str) -> dict[str, object]:
    """Return the properties to compile with, of the config's parameters and by default.

    On CPUs the default is one stream, as an instance executes one batch at a time, of as many
    threads as the instance has; with one thread no stream, which is the instance's own thread.
    Computed is at FP32 also where the processor has BF16. Threads are never pinned: every process
    would pin its own to the same first cores.

    Raises:
        InvalidArgumentError: A parameter has a value that it cannot have.
    """
    on_cpu = device == CPU
    found: dict[str, object] = {}
    if on_cpu:
        found = {
            _THREADS: str(max(1, context.thread_count)),
            "ENABLE_CPU_PINNING": False,
            "INFERENCE_PRECISION_HINT": "f32",
        }
    for row in _ROWS:
        text = context.config.parameters.get(row.parameter, "").lower()
        if not text:
            continue
        value = row.value(text)
        if value is None:
            raise InvalidArgumentError(
                f"expected the parameter '{row.parameter}' to be {row.expected}, got {text} "
                f"(model '{context.config.name}')"
            )
        if on_cpu and not row.on_cpu:
            logger.warning(
                "model '%s' has parameter %s, which OpenVINO does not know on CPUs: it is ignored",
                context.config.name,
                row.parameter,
            )
            continue
        found[row.name] = value
    if on_cpu and STREAMS not in found:
        has_one_thread = found[_THREADS] == "1" or len(os.sched_getaffinity(0)) == 1
        found[STREAMS] = "0" if has_one_thread else "1"
    return found


def is_yes(context: LoadContext, parameter: str) -> bool:
    """Whether a parameter is ``YES``, in any case; whatever else it is means no, as in Triton."""
    return context.config.parameters.get(parameter, "").lower() == "yes"
