# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""The JSON bodies of trace settings, log settings and shared-memory registrations.

Triton: server/src/http_server.cc HandleTrace, HandleLogging, HandleSystemSharedMemory @e1db8a6
"""

import base64
import binascii
from typing import Any, Final

import msgspec

from backends.api.errors import InvalidArgumentError, UnavailableError
from deployments.http.codec.json_text import as_array, as_bool, as_string, as_uint, find, member
from deployments.protocol import settings_values as values
from deployments.settings.server_settings import HANDLE_BYTES

_INT32_MAX: Final = 2**31 - 1


def read_trace_change(document: object) -> dict[str, Any]:
    """Return the trace settings a body sets; None for those it clears.

    Raises:
        TritonError: A value is wrong.
    """
    if find(document, values.TRACE_FILE) is not msgspec.UNSET:
        values.refuse_trace_file()
    change: dict[str, Any] = {}
    level = find(document, values.TRACE_LEVEL)
    if level is None:
        change["level"] = None
    elif level is not msgspec.UNSET:
        change["level"] = values.read_trace_level(map(as_string, as_array(level)))
    for key, attribute in values.TRACE_NUMBERS.items():
        value = find(document, key)
        if value is None:
            change[attribute] = None
        elif value is not msgspec.UNSET:
            change[attribute] = values.read_trace_number(key, as_string(value))
    return change


def read_log_change(document: object) -> dict[str, Any]:
    """Return the log settings a body sets.

    Raises:
        TritonError: A value is wrong.
    """
    if _is_given(document, values.LOG_FILE):
        values.refuse_log_file()
    change: dict[str, Any] = {}
    for key, attribute in values.LOG_FLAGS.items():
        if _is_given(document, key):
            change[attribute] = as_bool(find(document, key))
    if _is_given(document, values.LOG_LEVEL):
        # Kept as a 32-bit number, as Triton does.
        change["verbose_level"] = min(as_uint(find(document, values.LOG_LEVEL)), _INT32_MAX)
    if _is_given(document, values.LOG_FORMAT):
        style = as_string(find(document, values.LOG_FORMAT))
        if style not in values.LOG_FORMATS:
            raise UnavailableError(f"invalid argument for --log_format, got: {style}")
        change["format"] = style
    return change


def _is_given(document: object, key: str) -> bool:
    return find(document, key) not in (None, msgspec.UNSET)


def read_system_registration(document: object) -> tuple[str, int, int]:
    """Return key, offset and size of a registration.

    Raises:
        TritonError: A field is missing or wrong.
    """
    if find(document, "key") is msgspec.UNSET:
        raise InvalidArgumentError("Shared memory register request has no 'key' field")
    key = as_string(find(document, "key"))
    offset = find(document, "offset")
    offset_bytes = 0 if offset is msgspec.UNSET else as_uint(offset)
    return key, offset_bytes, _size(document)


def read_cuda_registration(document: object) -> tuple[bytes, int, int]:
    """Return handle, device and size of a registration.

    Raises:
        TritonError: A field is missing or wrong.
    """
    handle = find(document, "raw_handle")
    if handle is msgspec.UNSET:
        raise InvalidArgumentError("Shared memory register request has no 'raw_handle' field")
    text = as_string(member(handle, "b64"))
    device = find(document, "device_id")
    if device is msgspec.UNSET:
        raise InvalidArgumentError("Shared memory register request has no 'device_id' field")
    number, size = as_uint(device), _size(document)
    try:
        raw = base64.b64decode(text)
    except (binascii.Error, ValueError):
        raw = b""
    if len(raw) != HANDLE_BYTES:
        raise InvalidArgumentError("'raw_handle' must be a valid base64 encoded cudaIpcMemHandle_t")
    return raw, number, size


def _size(document: object) -> int:
    size = find(document, "byte_size")
    if size is msgspec.UNSET:
        raise InvalidArgumentError("Shared memory register request has no 'byte_size' field")
    return as_uint(size)
