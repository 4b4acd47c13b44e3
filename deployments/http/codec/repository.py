# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""The JSON bodies of the model repository API.

Triton: server/src/http_server.cc HandleRepositoryIndex, HandleRepositoryControl @e1db8a6
"""

import base64
import binascii
import re
from typing import Final

import msgspec

from backends.api.errors import InternalError, InvalidArgumentError
from backends.api.request import ParameterValue
from deployments.http.codec.json_text import as_bool, as_string, find, labelled, read

# Documents nested deeper than we read are refused, but that this one is no boolean can be told.
_READY_IS_CONTAINER: Final = re.compile(rb'"ready"\s*:\s*[\[{]')


def read_ready_only(body: bytes) -> bool:
    """Return the ``ready`` of a request for the index; False where it is missing.

    Raises:
        InvalidArgumentError: ``ready`` is not a boolean.
        TritonError: The body is not JSON.
    """
    try:
        ready = find(read(body), "ready") if body else msgspec.UNSET
    except InvalidArgumentError:
        if _READY_IS_CONTAINER.search(body) is None:
            raise
        ready = None
    if ready is msgspec.UNSET:
        return False
    if not isinstance(ready, bool):
        raise InvalidArgumentError("Invalid value for 'ready': expected a boolean")
    return ready


def load_parameters(document: object) -> dict[str, ParameterValue | bytes]:
    """Return the parameters of a load: ``config`` as text, ``file:<path>`` as bytes.

    Raises:
        TritonError: A parameter is unknown or wrong.
    """
    given = find(document, "parameters")
    if given is msgspec.UNSET:
        return {}
    if not isinstance(given, dict):
        raise InternalError("attempt to get members for non-object")
    parameters: dict[str, ParameterValue | bytes] = {}
    for key, value in given.items():
        text = as_string(value)
        if key != "config" and not key.startswith("file:"):
            raise InternalError("unexpected error on creating Triton parameter")
        if key.startswith("file:"):
            parameters[key] = _decode_base64(key, text)
        else:
            parameters[key] = text
    return parameters


def unload_dependents(document: object) -> bool:
    """Return the parameter of an unload; False where it is missing.

    Raises:
        InternalError: It is not a boolean. Triton makes this error, and goes on without it.
    """
    given = find(find(document, "parameters"), "unload_dependents")
    if given is msgspec.UNSET:
        return False
    with labelled("Unable to parse 'unload_dependents'"):
        return as_bool(given)


def _decode_base64(key: str, text: str) -> bytes:
    try:
        return base64.b64decode(text)
    except (binascii.Error, ValueError):
        raise InvalidArgumentError(
            f"the content of load parameter '{key}' is no base64; send the file's bytes in base64"
        ) from None
