# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""The messages of TraceSetting, LogSettings and the shared-memory RPCs.

Triton: server/src/grpc/grpc_server.cc @e1db8a6
"""

from collections.abc import Iterable
from typing import Any, Final

from backends.api.errors import InvalidArgumentError
from deployments.grpc.codec.messages import service_pb2
from deployments.protocol import settings_values as values
from deployments.settings.server_settings import LogSettings, Region, TraceSettings

# What Triton calls the value's type, and the field of the message.
_LOG_KINDS: Final = {
    **dict.fromkeys(values.LOG_FLAGS, ("boolean", "bool_param")),
    values.LOG_LEVEL: ("int32", "uint32_param"),
    values.LOG_FORMAT: ("string", "string_param"),
}
_LOG_ATTRIBUTES: Final = {
    **values.LOG_FLAGS,
    values.LOG_LEVEL: "verbose_level",
    values.LOG_FORMAT: "format",
}


def read_trace_change(request: Any) -> dict[str, Any]:
    """Return the trace settings a request sets; None for those it clears.

    Raises:
        TritonError: A value is wrong.
    """
    given = request.settings
    if values.TRACE_FILE in given:
        values.refuse_trace_file()
    change: dict[str, Any] = {}
    if values.TRACE_LEVEL in given:
        names = list(given[values.TRACE_LEVEL].value)
        change["level"] = values.read_trace_level(names) if names else None
    for key, attribute in values.TRACE_NUMBERS.items():
        if key not in given:
            continue
        texts = given[key].value
        if len(texts) > 1:
            raise InvalidArgumentError(f"expect only 1 value for '{key}'")
        change[attribute] = values.read_trace_number(key, texts[0]) if texts else None
    return change


def render_trace(trace: TraceSettings) -> bytes:
    """Render TraceSettingResponse."""
    message = service_pb2.TraceSettingResponse()
    for key, value in values.render_trace(trace).items():
        message.settings[key].value.extend(value if isinstance(value, list) else [value])
    return bytes(message.SerializeToString())


def read_log_change(request: Any) -> dict[str, Any]:
    """Return the log settings a request sets.

    Raises:
        TritonError: A value is wrong.
    """
    given = request.settings
    if values.LOG_FILE in given:
        values.refuse_log_file()
    change: dict[str, Any] = {}
    for key, (kind, field) in _LOG_KINDS.items():
        if key not in given:
            continue
        if given[key].WhichOneof("parameter_choice") != field:
            raise InvalidArgumentError(f"expect {kind} for '{key}'")
        change[_LOG_ATTRIBUTES[key]] = getattr(given[key], field)
    style = change.get("format", values.LOG_FORMATS[0])
    if style not in values.LOG_FORMATS:
        raise InvalidArgumentError(f"invalid argument for log_format, got: {style}")
    return change


def render_log(log: LogSettings) -> bytes:
    """Render LogSettingsResponse."""
    message = service_pb2.LogSettingsResponse()
    for key, value in values.render_log(log).items():
        kind = _LOG_KINDS.get(key, ("", "string_param"))[1]
        setattr(message.settings[key], kind, value)
    return bytes(message.SerializeToString())


def render_system_regions(regions: Iterable[Region]) -> bytes:
    """Render SystemSharedMemoryStatusResponse."""
    message = service_pb2.SystemSharedMemoryStatusResponse()
    for region in regions:
        row = message.regions[region.name]
        row.name, row.key = region.name, region.key
        row.offset, row.byte_size = region.offset, region.size_bytes
    return bytes(message.SerializeToString())


def render_cuda_regions(regions: Iterable[Region]) -> bytes:
    """Render CudaSharedMemoryStatusResponse."""
    message = service_pb2.CudaSharedMemoryStatusResponse()
    for region in regions:
        row = message.regions[region.name]
        row.name, row.device_id = region.name, region.device_id or 0
        row.byte_size = region.size_bytes
    return bytes(message.SerializeToString())
