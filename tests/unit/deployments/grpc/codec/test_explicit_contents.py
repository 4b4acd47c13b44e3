# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Explicit contents in every encoding that protobuf allows, against the protobuf runtime."""

import struct
from typing import Any

import pytest
from google.protobuf.message import DecodeError
from hypothesis import given, settings
from hypothesis import strategies as st
from tritonclient.grpc import service_pb2

from backends.api.errors import InternalError, TritonError
from deployments.grpc.codec.request import MALFORMED, DecodedRequest, RequestDecoder, _head
from deployments.grpc.codec.wire import varint
from tests.support.examples import examples
from tests.support.grpc_infer_requests import build, message

LIMIT = 2**64


def field(number: int, content: bytes) -> bytes:
    return varint(number << 3 | 2) + varint(len(content)) + content


@st.composite
def filled(draw: st.DrawFn, number: int) -> bytes:
    """A field of InferTensorContents in one of its encodings, perhaps in several pieces."""
    if number == 8:
        same = draw(st.booleans())
        text = st.binary(max_size=5)
        strings = [draw(text)] * draw(st.integers(0, 70)) if same else draw(st.lists(text))
        return b"".join(field(8, each) for each in strings)
    if number in (6, 7):
        floats = st.floats(width=32, allow_nan=False)
        form, wire_type = ("<f", 5) if number == 6 else ("<d", 1)
        elements = [struct.pack(form, each) for each in draw(st.lists(floats))]
    else:
        wide = st.integers(0, 1) | st.integers(0, 127) | st.integers(-(2**63), 2**64 - 1)
        values = draw(st.lists(st.integers(0, 127)) | st.lists(wide))
        wire_type, elements = 0, [varint(each % LIMIT) for each in values]
    if draw(st.booleans()):
        return b"".join(varint(number << 3 | wire_type) + each for each in elements)
    cut = draw(st.integers(0, len(elements)) | st.none())
    pieces = [elements] if cut is None else [elements[:cut], elements[cut:]]
    return b"".join(field(number, b"".join(piece)) for piece in pieces)


DATATYPES = {
    "BOOL": 1,
    "INT8": 2,
    "INT16": 2,
    "INT32": 2,
    "INT64": 3,
    "UINT8": 4,
    "UINT16": 4,
    "UINT32": 4,
    "UINT64": 5,
    "FP32": 6,
    "FP64": 7,
    "BYTES": 8,
    "FP16": 6,
    "NONE": 2,
}


@st.composite
def inputs(draw: st.DrawFn) -> bytes:
    datatype = draw(st.sampled_from(sorted(DATATYPES)))
    parts = [field(1, b"I"), field(2, datatype.encode()), field(3, b"\x01\x10")]
    own = st.just(DATATYPES[datatype]) | st.integers(1, 8)
    parts += (field(5, draw(filled(number))) for number in draw(st.lists(own, max_size=2)))
    if draw(st.integers(0, 9)) == 0:
        region = service_pb2.ModelInferRequest.InferInputTensor()
        region.parameters["shared_memory_region"].string_param = "r"
        region.parameters["shared_memory_byte_size"].int64_param = 4
        parts.append(region.SerializeToString())
    return b"".join(draw(st.permutations(parts)))


@st.composite
def requests(draw: st.DrawFn) -> bytes:
    parts = [field(1, b"model")]
    parts += (field(5, each) for each in draw(st.lists(inputs(), min_size=1, max_size=3)))
    if draw(st.booleans()):
        parts.append(field(3, b"the id"))
    if draw(st.integers(0, 4)) == 0:
        parts.append(field(7, b"raw"))
    return b"".join(draw(st.permutations(parts)))


def outcome(make: Any) -> Any:
    try:
        request = make().build(1)
    except TritonError as error:
        return type(error), error.message
    tensors = [(t.name, t.datatype, t.shape, bytes(t.data), t.extent) for t in request.inputs]
    return request.model_name, request.id, tensors, request.regions


def by_protobuf(data: bytes) -> DecodedRequest:
    try:
        request = service_pb2.ModelInferRequest.FromString(data)
    except DecodeError:
        raise InternalError(MALFORMED) from None
    raws = [memoryview(raw) for raw in request.raw_input_contents]
    return DecodedRequest(_head(request), request.id, raws)


@pytest.mark.slow
@settings(max_examples=examples(400), deadline=None)
@given(sent=st.lists(requests(), min_size=1, max_size=3))
def test_contents_in_any_encoding_are_read_as_protobuf_reads_them(sent: list[bytes]) -> None:
    decoder = RequestDecoder()
    for data in [*sent, *sent]:
        expected = outcome(lambda data=data: by_protobuf(data))
        assert outcome(lambda data=data: decoder.decode(data)) == expected


@settings(max_examples=examples(400), deadline=None)
@given(
    data=requests(),
    at=st.integers(0, 200),
    inserted=st.binary(max_size=3),
    removed=st.integers(0, 3),
)
def test_mutated_contents_are_refused_or_read_as_protobuf_does(
    data: bytes, at: int, inserted: bytes, removed: int
) -> None:
    mutated = data[:at] + inserted + data[at + removed :]
    decoder = RequestDecoder()
    for each in (data, mutated):
        expected = outcome(lambda each=each: by_protobuf(each))
        assert outcome(lambda each=each: decoder.decode(each)) == expected


def test_packed_floats_are_a_view_that_keeps_every_bit() -> None:
    signaling = b"\x01\x00\xa0\x7f"
    contents = field(6, signaling + b"\x00\x00\x80\x3f")
    tensor = field(1, b"I") + field(2, b"FP32") + field(3, b"\x02") + field(5, contents)
    (read,) = RequestDecoder().decode(field(5, tensor)).build(1).inputs
    assert bytes(read.data[:4]) == signaling
    assert read.data.format == "B"


@pytest.mark.parametrize(
    ("datatype", "name", "values", "wire"),
    [
        ("BYTES", "bytes_contents", [b"x" * 200] * 40, (b"\xc8\0\0\0" + b"x" * 200) * 40),
        ("BYTES", "bytes_contents", [b""] * 40, bytes(160)),
        ("BOOL", "bool_contents", [True, False] * 20, b"\1\0" * 20),
        ("UINT8", "uint_contents", [127] * 3, b"\x7f" * 3),
        ("INT16", "int_contents", [1, 2], b"\1\0\2\0"),
    ],
)
def test_what_numpy_can_read_becomes_wire_bytes(
    datatype: str, name: str, values: list[Any], wire: bytes
) -> None:
    inputs = ({"datatype": datatype, "contents": {name: values}},)
    request = build(message(inputs=inputs, raw=()))
    assert bytes(request.inputs[0].data) == wire


def test_heads_of_explicit_requests_are_remembered_without_their_elements() -> None:
    decoder = RequestDecoder()
    for value in range(5):
        contents = {"contents": {"int_contents": [value]}}
        request = build(message(inputs=(contents,), raw=()), decoder)
        assert bytes(request.inputs[0].data) == struct.pack("<i", value)
    assert len(decoder._explicit_heads) == 1
    assert not decoder._heads


def test_empty_contents_are_a_tensor_without_bytes_each_time() -> None:
    decoder = RequestDecoder()
    for values in ([1], [], [1]):
        contents = {"contents": {"int_contents": values}}
        request = build(message(inputs=(contents,), raw=()), decoder)
        assert request.inputs[0].data.nbytes == 4 * len(values)
