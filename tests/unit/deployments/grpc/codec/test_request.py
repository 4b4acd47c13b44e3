# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""ModelInferRequest decoding; texts are those a running Triton answers with."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tritonclient.grpc import service_pb2

from backends.api.datatypes import DATATYPES
from backends.api.errors import InternalError, TritonError, UnsupportedError
from backends.api.request import SEQUENCE_END, SEQUENCE_START, Extent
from deployments.grpc.codec.request import RequestDecoder, tensor_offset

RAW = b"\x01\x00\x00\x00"


def set_parameter(target, value):
    if isinstance(value, tuple):
        setattr(target, *value)
    elif isinstance(value, bool):
        target.bool_param = value
    elif isinstance(value, int):
        target.int64_param = value
    elif isinstance(value, float):
        target.double_param = value
    elif isinstance(value, str):
        target.string_param = value
    else:
        target.SetInParent()


def message(parameters=None, inputs=({},), raw=(RAW,), outputs=()):
    request = service_pb2.ModelInferRequest(
        model_name="simple", model_version="7", id="the id", raw_input_contents=list(raw)
    )
    for key, value in (parameters or {}).items():
        set_parameter(request.parameters[key], value)
    for index, each in enumerate(inputs):
        tensor = request.inputs.add(
            name=f"INPUT{index}", datatype=each.get("datatype", "INT32"), shape=[1]
        )
        for name, values in each.get("contents", {}).items():
            tensor.contents.SetInParent()
            getattr(tensor.contents, name).extend(values)
        for key, value in each.get("parameters", {}).items():
            set_parameter(tensor.parameters[key], value)
    for parameters_of_output in outputs:
        output = request.outputs.add(name=f"OUTPUT{len(request.outputs)}")
        for key, value in parameters_of_output.items():
            set_parameter(output.parameters[key], value)
    return request


def build(request, decoder=None):
    return (decoder or RequestDecoder()).decode(request.SerializeToString()).build(1)


def refusal(request):
    with pytest.raises(TritonError) as caught:
        build(request)
    return caught.value.message


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


def test_request_parameters_become_fields():
    request = build(
        message(
            {
                "sequence_id": 5,
                "sequence_start": True,
                "sequence_end": True,
                "priority": ("uint64_param", 2),
                "timeout": 9000,
                "text": "x",
                "flag": True,
                "number": 1.5,
            }
        )
    )
    assert request.correlation_id == 5
    assert request.flags == SEQUENCE_START | SEQUENCE_END
    assert (request.priority, request.timeout_us) == (2, 9000)
    assert request.parameters == {"text": "x", "flag": True, "number": 1.5}


def test_a_long_sequence_id_is_not_supported():
    assert build(message({"sequence_id": "x" * 128})).correlation_id == "x" * 128
    with pytest.raises(UnsupportedError) as caught:
        build(message({"sequence_id": "ö" * 65}))
    assert caught.value.message == "string correlation ID cannot be longer than 128 characters"


def test_negative_sequence_id_wraps_and_text_stays_text():
    assert build(message({"sequence_id": -3})).correlation_id == 2**64 - 3
    assert build(message({"sequence_id": "abc"})).correlation_id == "abc"


@pytest.mark.parametrize("wish", [True, False])
def test_empty_final_wish_is_no_custom_parameter(wish):
    data = message({"triton_enable_empty_final_response": wish}).SerializeToString()
    decoded = RequestDecoder().decode(data)
    assert decoded.wants_empty_final is wish
    assert decoded.build(1).parameters == {}


SEQUENCE_ID = (
    "invalid value type for 'sequence_id' parameter, expected int64_param or string_param."
)
PRIORITY = "invalid value type for 'priority' parameter, expected int64_param or uint64_param."
CUSTOM = "invalid value type for 'u' parameter, expected int64_param, bool_param, or string_param."
RESERVED = (
    "parameter keys starting with 'triton_' are reserved for Triton usage. Only the following "
    "keys starting with 'triton_' are allowed: triton_enable_empty_final_response"
)


@pytest.mark.parametrize(
    ("key", "value", "text"),
    [
        ("sequence_id", True, SEQUENCE_ID),
        ("sequence_id", ("uint64_param", 9), SEQUENCE_ID),
        ("sequence_id", None, SEQUENCE_ID),
        (
            "sequence_start",
            1,
            "invalid value type for 'sequence_start' parameter, expected bool_param.",
        ),
        (
            "sequence_end",
            "x",
            "invalid value type for 'sequence_end' parameter, expected bool_param.",
        ),
        ("priority", "1", PRIORITY),
        ("priority", True, PRIORITY),
        ("priority", -1, "invalid value for 'priority', expected value >= 0."),
        ("timeout", "1", "invalid value type for 'timeout' parameter, expected int64_param."),
        (
            "timeout",
            ("uint64_param", 5),
            "invalid value type for 'timeout' parameter, expected int64_param.",
        ),
        ("u", ("uint64_param", 5), CUSTOM),
        ("u", None, CUSTOM),
        ("triton_foo", 1, RESERVED),
        (
            "triton_enable_empty_final_response",
            "x",
            "invalid value type for 'triton_enable_empty_final_response' parameter, "
            "expected bool_param.",
        ),
    ],
)
def test_wrong_request_parameter_is_refused(key, value, text):
    assert refusal(message({key: value})) == text


UNEXPECTED = "unexpected explicit tensor data for input tensor 'INPUT0' for model 'simple'"
NO_DATA = "unable to find data for input tensor 'INPUT{}' for model 'simple' in request."
BOTH = (
    "contents field must not be specified when using raw_input_contents for 'INPUT0' for model "
    "'simple'"
)
INTS = {"contents": {"int_contents": [1]}}


@pytest.mark.parametrize(
    ("inputs", "raw", "text"),
    [
        (({},), (), NO_DATA.format(0)),
        (({}, {}), (RAW,), NO_DATA.format(1)),
        ((INTS, {}), (), NO_DATA.format(1)),
        ((INTS,), (RAW,), BOTH),
        (({"contents": {"int_contents": []}},), (RAW,), BOTH),
        (
            ({"contents": {"fp32_contents": [1]}},),
            (),
            f"{UNEXPECTED} of type 'FP32', expected datatype 'INT32'",
        ),
        (
            ({"contents": {"fp32_contents": [1], "int_contents": [1]}},),
            (),
            f"{UNEXPECTED}, binary data was already supplied.",
        ),
        (
            ({"contents": {"bool_contents": [True], "int_contents": [1]}},),
            (),
            f"{UNEXPECTED} of type 'BOOL', expected datatype 'INT32'",
        ),
        (
            ({"datatype": "FP16", "contents": {"fp32_contents": [1]}},),
            (),
            f"{UNEXPECTED} of type 'FP32', expected datatype 'FP16'",
        ),
        (
            ({"datatype": "XX", "contents": {"int_contents": [1]}},),
            (),
            f"{UNEXPECTED} of type 'INT32', expected datatype '<invalid>'",
        ),
    ],
)
def test_missing_or_wrong_data_is_refused(inputs, raw, text):
    assert refusal(message(inputs=inputs, raw=raw)) == text


def test_surplus_raw_buffers_are_accepted():
    assert len(build(message(raw=(RAW, RAW))).inputs) == 1


def test_unknown_datatype_is_named_invalid():
    assert build(message(inputs=({"datatype": "INT33"},))).inputs[0].datatype == "<invalid>"


@pytest.mark.parametrize(
    ("datatype", "field", "values", "expected"),
    [
        ("BOOL", "bool_contents", [True, False], b"\x01\x00"),
        ("INT8", "int_contents", [-128, 300], b"\x80\x2c"),
        ("INT16", "int_contents", [70000], b"\x70\x11"),
        ("UINT16", "uint_contents", [70000], b"\x70\x11"),
        ("UINT64", "uint64_contents", [0, 2**64 - 1], bytes(8) + b"\xff" * 8),
        ("INT64", "int64_contents", [-1], b"\xff" * 8),
        ("FP32", "fp32_contents", [0.5], np.float32(0.5).tobytes()),
        ("FP64", "fp64_contents", [0.5], np.float64(0.5).tobytes()),
        ("BYTES", "bytes_contents", [b"a", b""], b"\x01\x00\x00\x00a\x00\x00\x00\x00"),
        ("INT32", "int_contents", [], b""),
    ],
)
def test_typed_contents_become_wire_bytes(datatype, field, values, expected):
    request = build(message(inputs=({"datatype": datatype, "contents": {field: values}},), raw=()))
    assert bytes(request.inputs[0].data) == expected


REGION = {"shared_memory_region": "r", "shared_memory_byte_size": 64}


@pytest.mark.parametrize("place", ["INPUT0", "OUTPUT0"])
@pytest.mark.parametrize(
    ("parameters", "text"),
    [
        (
            {"shared_memory_region": "r"},
            "'shared_memory_byte_size' must be specified along with 'shared_memory_region' "
            "parameter for tensor '{}'",
        ),
        (
            {"shared_memory_offset": 1},
            "'shared_memory_offset' can not be specified without 'shared_memory_region' "
            "parameter for tensor '{}'",
        ),
        (
            {"shared_memory_byte_size": "1"},
            "'shared_memory_byte_size' can not be specified without 'shared_memory_region' "
            "parameter for tensor '{}'",
        ),
        (
            REGION | {"shared_memory_region": 1},
            "invalid value type for 'shared_memory_region' parameter for tensor '{}', expected "
            "string_param.",
        ),
        (
            REGION | {"shared_memory_offset": "x"},
            "invalid value type for 'shared_memory_offset' parameter for tensor '{}', expected "
            "int64_param.",
        ),
    ],
)
def test_shared_memory_parameters_are_checked(place, parameters, text):
    request = (
        message(inputs=({"parameters": parameters},), raw=())
        if place == "INPUT0"
        else message(outputs=(parameters,))
    )
    assert refusal(request) == text.format(place)


def test_regions_become_extents():
    request = build(message(inputs=({"parameters": REGION},), outputs=(REGION,), raw=()))
    size = REGION["shared_memory_byte_size"]
    assert request.inputs[0].extent == Extent("r", 0, size)
    assert request.regions == {"OUTPUT0": Extent("r", 0, size)}


def test_request_without_regions_has_none():
    assert build(message(raw=(RAW,))).regions is None


def test_contents_with_shared_memory_are_refused():
    text = refusal(message(inputs=(INTS | {"parameters": REGION},), raw=()))
    assert text == (
        "unexpected 'content' provided when using shared memory for input tensor 'INPUT0' for "
        "model 'simple'"
    )


def test_other_parameters_of_tensors_are_ignored():
    parameters = {"foo": "x"}
    request = build(message(inputs=({"parameters": parameters},), outputs=(parameters,)))
    assert bytes(request.inputs[0].data) == RAW


def test_classification_counts_are_kept_by_output():
    data = message(outputs=({"classification": 3}, {})).SerializeToString()
    assert RequestDecoder().decode(data).classes == {"OUTPUT0": 3}


@pytest.mark.parametrize(
    ("parameters", "text"),
    [
        ({"classification": 0}, "invalid value for 'classification' parameter, expected >= 0"),
        ({"classification": -1}, "invalid value for 'classification' parameter, expected >= 0"),
        (
            {"classification": "2"},
            "invalid value type for 'classification' parameter, expected int64_param",
        ),
        (
            REGION | {"classification": 1},
            "output can't set both 'shared_memory_region' and 'classification'",
        ),
    ],
)
def test_wrong_classification_is_refused(parameters, text):
    assert refusal(message(outputs=(parameters,))) == text


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


@settings(max_examples=60, deadline=None)
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


@settings(max_examples=200, deadline=None)
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


@settings(max_examples=100)
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


@pytest.mark.parametrize("cut", [0, 1, 20, 10_000])
def test_the_first_tensor_is_found_in_the_first_part_of_a_message(cut):
    request = message(raw=(b"x" * 300, b"y" * 300))
    data = request.SerializeToString()
    expected = data.index(b"xxx")
    assert tensor_offset(memoryview(data)[: cut or len(data)]) in {expected, 0}
    assert tensor_offset(memoryview(data)) == expected
