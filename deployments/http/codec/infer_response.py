# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""`InferenceResponse` to the body of an HTTP infer response.

The JSON of a binary output depends on nothing but its name, datatype, shape and size, and clients
ask for the same few over and over, so those fragments are kept; and of the last response to each
kind of request the whole JSON, if all its outputs were binary. Tensors are never joined here.

Triton: server/src/http_server.cc InferRequestClass::FinalizeResponse @e1db8a6
"""

import math
import re
from collections.abc import Mapping
from typing import Final

import numpy as np
import numpy.typing as npt
import orjson

from backends.api.bytes_tensor import deserialize_bytes
from backends.api.errors import InternalError, InvalidArgumentError
from backends.api.request import InferenceResponse, Tensor, tensor_as_numpy
from deployments.http.codec.infer_spec import OutputsSpec, RequestedOutput
from deployments.http.codec.json_text import dump, quote
from deployments.protocol.classification import classify

# Fragments kept; shapes with a free dimension would otherwise pile up.
_FRAGMENT_LIMIT: Final = 4096

_NULL = re.compile(b"null")
_FLOATS: Final = frozenset(("FP32", "FP64"))
_NO_JSON: Final = frozenset(("FP16", "BF16"))


class EncodedInfer:
    """The body of a response.

    Attributes:
        header: The JSON.
        blobs: Bytes of the binary outputs, in the order of the outputs in the JSON.
        blob_bytes: How many they are.
    """

    __slots__ = ("blob_bytes", "blobs", "header")

    def __init__(self, header: bytes, blobs: list[memoryview], blob_bytes: int) -> None:
        self.header = header
        self.blobs = blobs
        self.blob_bytes = blob_bytes


class _Layout:
    """A response whose outputs were all binary, without its id and its bytes."""

    __slots__ = ("_blob_bytes", "_json", "_model_name", "_model_version", "_rows", "_whole_json")

    def __init__(self, response: InferenceResponse, json_rest: bytes, blob_bytes: int) -> None:
        self._model_name = response.model_name
        self._model_version = response.model_version
        self._rows = [
            (each.name, each.datatype, each.shape, each.data.nbytes) for each in response.outputs
        ]
        self._json = json_rest
        self._whole_json = b"{" + json_rest
        self._blob_bytes = blob_bytes

    def fits(self, response: InferenceResponse) -> bool:
        """Whether a response differs in nothing but its id and its bytes."""
        outputs, rows = response.outputs, self._rows
        if (
            len(outputs) != len(rows)
            or response.parameters
            or response.model_version != self._model_version
            or response.model_name != self._model_name
        ):
            return False
        for tensor, (name, datatype, shape, size) in zip(outputs, rows, strict=True):
            if (
                tensor.name != name
                or tensor.shape != shape
                or tensor.data.nbytes != size
                or tensor.datatype != datatype
            ):
                return False
        return True

    def encode(self, response: InferenceResponse) -> EncodedInfer:
        """Encode a response that fits."""
        header = _begun(response, self._json) if response.id else self._whole_json
        return EncodedInfer(header, [each.data for each in response.outputs], self._blob_bytes)


def _begun(response: InferenceResponse, rest: bytes) -> bytes:
    return b'{"id":%s,%s' % (orjson.dumps(response.id), rest) if response.id else b"{" + rest


class InferEncoder:
    """Encodes infer responses."""

    __slots__ = ("_fragments", "_models")

    def __init__(self) -> None:
        self._fragments: dict[tuple[str, str, tuple[int, ...], int], bytes] = {}
        self._models: dict[tuple[str, str], bytes] = {}

    def encode(
        self,
        response: InferenceResponse,
        outputs: OutputsSpec,
        labels: Mapping[str, tuple[str, ...]],
        *,
        is_batching: bool,
    ) -> EncodedInfer:
        """Encode a response.

        Args:
            response: The response; views of its outputs go into the result.
            outputs: How the client wants the outputs.
            labels: Class labels by output name.
            is_batching: Whether outputs have a batch dimension.

        Raises:
            InvalidArgumentError: An output cannot be sent the way it is wanted.
            InternalError: An output's bytes do not fit its shape.
        """
        layout: _Layout | None = outputs.layout
        if layout is not None and layout.fits(response):
            return layout.encode(response)
        parts: list[bytes] = []
        blobs: list[memoryview] = []
        blob_bytes = 0
        by_name = outputs.by_name
        fragments = self._fragments
        for tensor in response.outputs:
            is_binary = outputs.is_binary
            wanted = by_name.get(tensor.name) if by_name else None
            if wanted is not None:
                is_binary = wanted.is_binary
                if wanted.extent is not None:
                    parts.append(_described(tensor) + b"}")
                    continue
                if wanted.class_count:
                    tensor = _classified(tensor, wanted, labels, is_batching)  # noqa: PLW2901
            if not is_binary:
                parts.append(_json_output(tensor))
                continue
            data = tensor.data
            size = data.nbytes
            key = (tensor.name, tensor.datatype, tensor.shape, size)
            fragment = fragments.get(key)
            parts.append(fragment if fragment is not None else self._add_fragment(tensor, key))
            if size:
                blobs.append(data)
                blob_bytes += size
        listed = b',"outputs":[%s]}' % b",".join(parts)
        # A classified output's bytes are not those of the response.
        is_plain = list(map(id, blobs)) == [id(each.data) for each in response.outputs]
        if is_plain and not response.parameters:
            outputs.layout = _Layout(response, self._model(response) + listed, blob_bytes)
        return EncodedInfer(self._prefix(response) + listed, blobs, blob_bytes)

    def _add_fragment(self, tensor: Tensor, key: tuple[str, str, tuple[int, ...], int]) -> bytes:
        if len(self._fragments) >= _FRAGMENT_LIMIT:
            self._fragments.clear()
        fragment = b'%s,"parameters":{"binary_data_size":%d}}' % (_described(tensor), key[3])
        self._fragments[key] = fragment
        return fragment

    def _model(self, response: InferenceResponse) -> bytes:
        key = (response.model_name, response.model_version)
        model = self._models.get(key)
        if model is None:
            if len(self._models) >= _FRAGMENT_LIMIT:
                self._models.clear()
            model = self._models[key] = b'"model_name":%s,"model_version":%s' % (
                orjson.dumps(response.model_name),
                orjson.dumps(response.model_version),
            )
        return model

    def _prefix(self, response: InferenceResponse) -> bytes:
        prefix = _begun(response, self._model(response))
        if response.parameters:
            return b'%s,"parameters":%s' % (prefix, dump(response.parameters))
        return prefix


def _classified(
    tensor: Tensor,
    wanted: RequestedOutput,
    labels: Mapping[str, tuple[str, ...]],
    is_batching: bool,
) -> Tensor:
    return classify(tensor, wanted.class_count, labels.get(tensor.name, ()), is_batched=is_batching)


def _described(tensor: Tensor) -> bytes:
    return b'{"name":%s,"datatype":%s,"shape":%s' % (
        orjson.dumps(tensor.name),
        orjson.dumps(tensor.datatype),
        orjson.dumps(tensor.shape),
    )


def _json_output(tensor: Tensor) -> bytes:
    return b'%s,"data":%s}' % (_described(tensor), json_data(tensor))


def json_data(tensor: Tensor) -> bytes:
    """Return a tensor's elements as a flat JSON array.

    Raises:
        InvalidArgumentError: Its datatype cannot go into JSON.
        InternalError: Its bytes do not fit its shape.
    """
    datatype = tensor.datatype
    if datatype in _NO_JSON:
        raise InvalidArgumentError(
            f"sending {datatype} data via JSON is not supported. Please use the binary data format "
            f"for output"
        )
    try:
        return _json_strings(tensor) if datatype == "BYTES" else _json_numbers(tensor)
    except ValueError:
        raise InternalError(
            f"Failed to write 'data' field: output tensor shape does not match size of output for "
            f"'{tensor.name}'"
        ) from None


def _json_numbers(tensor: Tensor) -> bytes:
    values = tensor_as_numpy(tensor).reshape(-1)
    if tensor.datatype in _FLOATS:
        # Triton prints FP32 with the digits of the double it is cast to.
        doubles = values.astype(np.float64, copy=False)
        if not np.isfinite(doubles).all():
            return _with_tokens(doubles)
        values = doubles
    return orjson.dumps(values, option=orjson.OPT_SERIALIZE_NUMPY)


def _with_tokens(values: npt.NDArray[np.float64]) -> bytes:
    """Return numbers as orjson writes them, and NaN and infinities, its nulls, as tokens."""
    pieces = _NULL.split(orjson.dumps(values, option=orjson.OPT_SERIALIZE_NUMPY))
    if not np.isinf(values).any():
        return b"NaN".join(pieces)
    parts = [pieces[0]]
    odd: list[float] = values[~np.isfinite(values)].tolist()
    for value, piece in zip(odd, pieces[1:], strict=True):
        if value == math.inf:
            parts.append(b"Infinity")
        else:
            parts.append(b"-Infinity" if value == -math.inf else b"NaN")
        parts.append(piece)
    return b"".join(parts)


def _json_strings(tensor: Tensor) -> bytes:
    elements = deserialize_bytes(tensor.data)
    if len(elements) != int(np.prod(tensor.shape, dtype=np.int64)):
        raise ValueError(tensor.name)
    try:
        return orjson.dumps(list(map(bytes.decode, elements)))
    except UnicodeDecodeError:
        return b"[" + b",".join(map(quote, elements)) + b"]"
