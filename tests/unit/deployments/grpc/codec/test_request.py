# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""ModelInferRequest decoding; texts are those a running Triton answers with."""

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from tritonclient.grpc import service_pb2

from backends.api.datatypes import DATATYPES
from backends.api.errors import InternalError, TritonError
from deployments.grpc.codec.request import RequestDecoder, tensor_offset
from tests.support.examples import examples
from tests.support.grpc_infer_requests import RAW, build, message, set_parameter


def test_lookup_fields_are_read_before_the_model_is_known():
    decoded = RequestDecoder().decode(message().SerializeToString())
    assert (decoded.model_name, decoded.model_version, decoded.id) == ("simple", "7", "the id")


def test_tensors_are_views_of_the_message():
    data = message(inputs=({}, {}), raw=(RAW, RAW)).SerializeToString()
    for tensor in RequestDecoder().decode(data).build(1).inputs:
        assert tensor.data.obj is data
        assert tensor.data.format == "B"


def test_same_head_with_another_id_and_data_is_another_request():
    decoder = RequestDecoder()
    first, second = message(), message(raw=(b"\x02\x00\x00\x00",))
    second.id = "other"
    one, two = build(first, decoder), build(second, decoder)
    assert (one.id, bytes(one.inputs[0].data)) == ("the id", RAW)
    assert (two.id, bytes(two.inputs[0].data)) == ("other", b"\x02\x00\x00\x00")


def test_requests_of_one_head_share_nothing_mutable():
    decoder = RequestDecoder()
    one = build(message({"a": 1}, outputs=({},)), decoder)
    one.outputs.append("x")
    one.parameters["b"] = 2
    one.inputs[0].name = "changed"
    two = build(message({"a": 1}, outputs=({},)), decoder)
    assert (two.outputs, two.parameters, two.inputs[0].name) == (["OUTPUT0"], {"a": 1}, "INPUT0")


def test_heads_remembered_are_bounded():
    decoder = RequestDecoder()
    for number in range(3000):
        build(message({"n": number}), decoder)
    assert len(decoder._heads) <= 1024


@pytest.mark.parametrize(
    "data",
    [
        b"\xff\xff\xff",
        b"\x0a\x05ab",
        b"\x0a\x02\xff\xfe",
        b"\x1a\x01\xff",
        b"\x3a",
        b"\x3a" + b"\xff" * 11,
    ],
)
def test_malformed_message_is_internal(data):
    with pytest.raises(InternalError, match="Unable to parse request"):
        RequestDecoder().decode(data)


def test_unknown_fields_are_skipped():
    unknown = b"\x98\x06\x01" + b"\xa0\x01\x05"
    decoded = RequestDecoder().decode(unknown + message().SerializeToString())
    assert bytes(decoded.build(1).inputs[0].data) == RAW


requests = st.builds(
    lambda names, raws, rid, outputs, parameters: (names, raws, rid, outputs, parameters),
    st.lists(
        st.tuples(
            st.text(max_size=5), st.sampled_from(sorted(DATATYPES)), st.lists(st.integers(-1, 300))
        ),
        max_size=4,
    ),
    st.lists(st.binary(max_size=300), min_size=4, max_size=5),
    st.text(max_size=200),
    st.lists(st.text(max_size=5), max_size=3),
    st.dictionaries(
        st.text(max_size=3),
        st.one_of(st.booleans(), st.text(), st.floats(allow_nan=False)),
        max_size=3,
    ),
)


def random_message(parts):
    names, raws, rid, outputs, parameters = parts
    request = service_pb2.ModelInferRequest(model_name="m", id=rid, raw_input_contents=raws)
    for name, datatype, shape in names:
        request.inputs.add(name=name, datatype=datatype, shape=shape)
    for name in outputs:
        request.outputs.add(name=name)
    for key, value in parameters.items():
        set_parameter(request.parameters[key], value)
    return request


@settings(max_examples=examples(60), deadline=None)
@given(requests, st.booleans())
def test_decoding_returns_what_was_encoded(parts, as_view):
    names, raws, rid, outputs, parameters = parts
    data = random_message(parts).SerializeToString()
    request = RequestDecoder().decode(memoryview(data) if as_view else data).build(3)
    assert (request.model_name, request.model_version, request.id) == ("m", 3, rid)
    assert [(each.name, each.datatype, list(each.shape)) for each in request.inputs] == names
    assert [bytes(each.data) for each in request.inputs] == raws[: len(names)]
    assert request.outputs == outputs
    assert request.parameters == parameters


@settings(max_examples=examples(200), deadline=None)
@example(([], [b"", b"", b"", b""], "0\x80\x80\U00010000", ["", ""], {}), [(0.5, 0), (0.75, 26)])
@given(requests, st.lists(st.tuples(st.floats(0, 1), st.integers(0, 255)), min_size=1, max_size=4))
def test_mutated_bytes_raise_only_triton_errors(parts, mutations):
    data = bytearray(random_message(parts).SerializeToString())
    for place, byte in mutations:
        data[int(place * (len(data) - 1))] = byte
    try:
        expected = service_pb2.ModelInferRequest.FromString(bytes(data))
    except Exception:
        expected = None
    try:
        decoded = RequestDecoder().decode(bytes(data))
    except InternalError:
        assert expected is None
        return
    assert expected is not None
    assert (decoded.model_name, decoded.id) == (expected.model_name, expected.id)
    try:
        request = decoded.build(1)
    except TritonError:
        return
    assert [each.name for each in request.inputs] == [each.name for each in expected.inputs]


def _raw_last(head: bytes, *raw: bytes) -> bytes:
    return head + b"".join(b"\x3a" + bytes((len(each),)) + each for each in raw)


@settings(max_examples=examples(100))
@given(
    st.lists(
        st.tuples(
            st.sampled_from(("m", "model")),
            st.sampled_from(("", "id")),
            st.lists(st.binary(max_size=9), max_size=3),
            st.binary(max_size=3),
        ),
        min_size=2,
        max_size=8,
    )
)
def test_messages_before_make_no_difference(given_messages):
    used = RequestDecoder()
    for name, request_id, raws, rest in given_messages:
        head = service_pb2.ModelInferRequest(model_name=name, id=request_id)
        for number in range(2):
            head.inputs.add(name=f"I{number}", datatype="INT8", shape=[len(raws)])
        data = _raw_last(head.SerializeToString(), *raws) + rest
        for _ in range(2):
            assert _decoded(used, data) == _decoded(RequestDecoder(), data)


def _decoded(decoder, data):
    try:
        decoded = decoder.decode(data)
        return decoded.id, decoded.build(1)
    except TritonError as error:
        return error.message


@pytest.mark.parametrize("more", [1, 2, 150, 299, 300, 301, 450, 10_000])
def test_the_first_tensor_is_found_in_a_first_part_that_it_begins_in(more):
    data = message(raw=(b"x" * 300, b"y" * 300)).SerializeToString()
    begin = data.index(b"xxx")
    assert tensor_offset(memoryview(data)[: begin + more]) == begin


@pytest.mark.parametrize("less", [3, 10, 10_000])
def test_no_tensor_is_found_in_a_part_that_ends_before_it(less):
    data = message(raw=(b"x" * 300, b"y" * 300)).SerializeToString()
    # The tag and the length are the three bytes before.
    end = max(data.index(b"xxx") - less, 0)
    assert tensor_offset(memoryview(data)[:end]) == 0


def test_what_is_wrong_is_wrong_each_time():
    decoder = RequestDecoder()
    for _ in range(2):
        with pytest.raises(TritonError, match="sequence_start"):
            build(message({"sequence_id": 1, "sequence_start": 5}), decoder)
    assert not decoder._heads


def test_a_head_beyond_the_size_limit_is_not_kept():
    decoder = RequestDecoder()
    build(message({"text": "x" * (1 << 16)}), decoder)
    assert not decoder._heads
