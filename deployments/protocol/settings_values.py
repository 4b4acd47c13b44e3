# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Trace and log settings as both protocols spell them.

Triton: server/src/http_server.cc HandleTrace, HandleLogging; grpc_server.cc @e1db8a6
"""

import re
from collections.abc import Iterable
from typing import Any, Final

from backends.api.errors import InvalidArgumentError, UnsupportedError
from deployments.settings.server_settings import TRITON_MODE, LogSettings, TraceSettings

TRACE_FILE: Final = "trace_file"
TRACE_LEVEL: Final = "trace_level"
# Keys whose value is a number in a string, and the attributes they set, in Triton's order.
TRACE_NUMBERS: Final = {
    "trace_rate": "rate",
    "trace_count": "count",
    "log_frequency": "log_frequency",
}
# Keys of log settings, in Triton's order, and the attributes they set.
LOG_FLAGS: Final = {"log_info": "info", "log_warning": "warning", "log_error": "error"}
LOG_LEVEL: Final = "log_verbose_level"
LOG_FORMAT: Final = "log_format"
LOG_FILE: Final = "log_file"
LOG_FORMATS: Final = ("default", "ISO8601", "json")

_LEVELS: Final = ("TIMESTAMPS", "TENSORS")
_OFF: Final = "OFF"
_INTEGER: Final = re.compile(r"\s*([+-]?[0-9]{1,40})")
_UINT32_MAX: Final = 2**32 - 1
_INT32_MIN: Final = -(2**31)
_INT32_MAX: Final = 2**31 - 1


def refuse_trace_file() -> None:
    """Refuse to change where traces go.

    Raises:
        UnsupportedError: Always.
    """
    raise UnsupportedError("trace file location can not be updated through network protocol")


def refuse_log_file() -> None:
    """Refuse to change where logs go.

    Raises:
        UnsupportedError: Always.
    """
    raise UnsupportedError("log file location can not be updated through network protocol")


def read_trace_level(names: Iterable[str]) -> tuple[str, ...]:
    """Return the levels named; unknown names are ignored, as in Triton.

    Raises:
        InvalidArgumentError: OFF is named together with others.
    """
    given = list(names)
    if _OFF in given and len(given) > 1:
        raise InvalidArgumentError("Expect only one trace level 'OFF' is specified")
    return tuple(level for level in _LEVELS if level in given)


def read_trace_number(key: str, text: str) -> int:
    """Read a number as C++'s ``stoi`` does; other than a count, it wraps where it is negative.

    Raises:
        InvalidArgumentError: The text is not a number, or out of range.
    """
    match = _INTEGER.match(text)
    if match is None:
        raise InvalidArgumentError(f"Unable to parse '{key}', got: {text}")
    number = int(match[1])
    is_count = key == "trace_count"
    if not _INT32_MIN <= number <= _INT32_MAX:
        # The range in the text is that of the setting, not of the numbers taken.
        shown = f"-1, {_INT32_MAX}" if is_count else f"0, {_UINT32_MAX}"
        raise InvalidArgumentError(
            f"Unable to parse '{key}', value is out of range [ {shown} ], got: {text}"
        )
    if not is_count:
        return number & _UINT32_MAX
    if number < -1:
        raise InvalidArgumentError(
            f"Unable to parse 'trace_count'. Expecting value >= -1, got:{text}"
        )
    return number


def render_trace(trace: TraceSettings) -> dict[str, Any]:
    """Return trace settings as the HTTP endpoint shows them."""
    shown: dict[str, Any] = {
        TRACE_LEVEL: list(trace.level) or [_OFF],
        "trace_rate": str(trace.rate),
        "trace_count": str(trace.count),
    }
    if trace.mode == TRITON_MODE:
        shown |= {"log_frequency": str(trace.log_frequency), TRACE_FILE: trace.file}
    return {**shown, "trace_mode": trace.mode, **dict(trace.extra)}


def render_log(log: LogSettings) -> dict[str, Any]:
    """Return log settings as the HTTP endpoint shows them."""
    return {
        LOG_FILE: log.file,
        "log_info": log.info,
        "log_warning": log.warning,
        "log_error": log.error,
        LOG_LEVEL: log.verbose_level,
        LOG_FORMAT: log.format,
    }
