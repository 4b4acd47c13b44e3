# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""The generate extension: flat JSON in, flat JSON out.

Each key of the request that names an input becomes that input's tensor, every other key a request
parameter; the keys inside ``parameters`` count as if they stood outside.

Triton: server/src/http_server.cc GenerateRequestClass @e1db8a6
"""

import json
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from math import prod
from typing import Final

import msgspec
import orjson
from mypy_extensions import mypyc_attr

from backends.api.datatypes import SIZE_BYTES
from backends.api.errors import InternalError, InvalidArgumentError, TritonError
from backends.api.model_config import ModelInput
from backends.api.request import (
    EMPTY,
    InferenceRequest,
    InferenceResponse,
    ParameterValue,
    Tensor,
    element_count,
    id_prefix,
)
from deployments.http.codec.infer_response import json_data
from deployments.http.codec.infer_spec import RequestedModel
from deployments.http.codec.input_limits import json_too_large
from deployments.http.codec.json_data import tensor_bytes
from deployments.http.codec.json_text import as_string, dump, find, labelled, read
from deployments.http.codec.request_parameters import custom_parameter

NOT_ONE_RESPONSE: Final = (
    "generate expects model to produce exactly 1 response, use generate stream for model that "
    "generates various number of responses"
)

_NESTED: Final = "parameters"
_LENGTH_BYTES: Final = 4  # the length indicator before each BYTES element


def decode_generate(body: bytes, model: RequestedModel, max_input_bytes: int) -> InferenceRequest:
    """Decode the body of a generate request.

    Args:
        body: The JSON.
        model: The model asked.
        max_input_bytes: ``--http-max-input-size``; bounds the inputs together.

    Raises:
        TritonError: As Triton answers.
    """
    if len(body) > max_input_bytes:
        raise InvalidArgumentError(json_too_large(len(body), max_input_bytes))
    document = read(body)
    request_id = find(document, "id")
    request = InferenceRequest(model.name, model.version)
    if request_id is not msgspec.UNSET:
        with labelled("Unable to parse 'id'"):
            request.id = as_string(request_id)
    reader = _Reader(model, request, max_input_bytes)
    reader.read(document)
    if any(body.count(orjson.dumps(each.name)) > 1 for each in request.inputs):
        reader.refuse_given_twice(body)
    return request


@mypyc_attr(native_class=False)
class _Pairs(list[tuple[str, object]]):
    """The keys and values of an object in the order of its text, a key perhaps several times."""


@contextmanager
def _converting_nested() -> Iterator[None]:
    """Begin the errors of keys inside ``parameters`` with that word."""
    try:
        yield
    except TritonError as error:
        raise type(error)(f"Converting keyword: 'parameters': {error.message}") from None


class _Reader:
    """Turns the keys of one request into inputs and parameters."""

    __slots__ = ("_inputs", "_is_batching", "_max_input_bytes", "_request", "_total_bytes")

    def __init__(self, model: RequestedModel, request: InferenceRequest, max_bytes: int) -> None:
        self._inputs = {each.name: each for each in model.config.input}
        self._is_batching = model.config.max_batch_size > 0
        self._request = request
        self._max_input_bytes = max_bytes
        self._total_bytes = 0
        request.inputs = []
        request.parameters = {}

    def read(self, document: object) -> None:
        if not isinstance(document, dict):
            raise InternalError("attempt to get members for non-object")
        if _NESTED in self._inputs and _NESTED in document:
            raise InvalidArgumentError(
                "Keyword 'parameters' for nested schema also given as input tensor name"
            )
        for key, value in document.items():
            if key != _NESTED:
                self._take(key, value)
                continue
            if not isinstance(value, dict):
                raise InternalError(
                    "Expected JSON object for keyword: 'parameters': attempt to get members for "
                    "non-object"
                )
            with _converting_nested():
                for inner, inner_value in value.items():
                    self._take(inner, inner_value)

    def refuse_given_twice(self, body: bytes) -> None:
        """Refuse an input whose key comes again.

        A document in memory has each key once, so the text is read once more, by the caller only if
        a key may be there twice.
        """
        pairs: object = ()
        with suppress(ValueError, RecursionError):
            pairs = json.loads(body, object_pairs_hook=_Pairs)
        seen: set[str] = set()
        for key, value in pairs if isinstance(pairs, _Pairs) else ():
            if key != _NESTED:
                self._note(key, seen)
            elif isinstance(value, _Pairs):
                with _converting_nested():
                    for inner, _ in value:
                        self._note(inner, seen)

    def _note(self, key: str, seen: set[str]) -> None:
        if key in seen:
            prefix = id_prefix(self._request.id)
            raise InvalidArgumentError(f"{prefix}input '{key}' already exists in request")
        if key in self._inputs:
            seen.add(key)

    def _take(self, key: str, value: object) -> None:
        given = self._inputs.get(key)
        if given is None:
            parameter: ParameterValue = custom_parameter(key, value)
            self._request.parameters[key] = parameter
        else:
            self._request.inputs.append(self._tensor(given, value))

    def _tensor(self, given: ModelInput, value: object) -> Tensor:
        values = value if isinstance(value, list) else [value]
        dims = (-1, *given.dims) if self._is_batching else given.dims
        shape = _shape(given.name, dims, len(values))
        count = element_count(shape)
        if count == 0:
            return Tensor(given.name, given.datatype, shape, EMPTY)
        self._bound(given, values, count)
        if given.datatype == "BYTES":
            # How many strings there are is for the core checks to compare with the shape.
            count = _string_count(values)
        data = tensor_bytes(given.name, given.datatype, count, values)
        return Tensor(given.name, given.datatype, shape, memoryview(data))

    def _bound(self, given: ModelInput, values: list[object], count: int) -> None:
        size = count * SIZE_BYTES[given.datatype]
        if given.datatype == "BYTES":
            size = sum(_LENGTH_BYTES + len(each) for each in values if isinstance(each, str))
        if self._total_bytes + size > self._max_input_bytes:
            raise InvalidArgumentError(
                f"request size of {self._total_bytes} bytes with input '{given.name}' of size "
                f"{size} bytes exceeds the maximum allowed input size of {self._max_input_bytes}. "
                f"Use --http-max-input-size to increase the limit."
            )
        self._total_bytes += size


def _shape(name: str, dims: tuple[int, ...], count: int) -> tuple[int, ...]:
    """Fit a number of elements into dims: the innermost free one takes what the fixed ones leave.

    Raises:
        InvalidArgumentError: They do not fit.
    """
    fixed = prod(dim for dim in dims if dim >= 0)
    rest, surplus = divmod(count, fixed) if fixed else (0, count)
    free = [index for index, dim in enumerate(dims) if dim < 0]
    if surplus or (not free and rest != 1 and fixed):
        raise InvalidArgumentError(
            f"The schema can not convert input '{name}' to tensor with proper shape"
        )
    shape = [1 if dim < 0 else dim for dim in dims]
    if free:
        shape[free[-1]] = rest
    return tuple(shape)


def _string_count(values: list[object]) -> int:
    return sum(_string_count(each) if isinstance(each, list) else 1 for each in values)


def encode_generate(response: InferenceResponse) -> bytes:
    """Return a response as one flat JSON object; a single element stands without its array.

    Raises:
        TritonError: An output cannot be sent as JSON.
    """
    parts = [
        b'"model_name":%s,"model_version":%s'
        % (orjson.dumps(response.model_name), orjson.dumps(response.model_version))
    ]
    if response.id:
        parts.insert(0, b'"id":' + orjson.dumps(response.id))
    if response.parameters:
        parts.append(dump(response.parameters)[1:-1])
    for tensor in response.outputs:
        data = json_data(tensor)
        if element_count(tensor.shape) == 1:
            data = data[1:-1]
        parts.append(b"%s:%s" % (orjson.dumps(tensor.name), data))
    return b"{%s}" % b",".join(parts)
