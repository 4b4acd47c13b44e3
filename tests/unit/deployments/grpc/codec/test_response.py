# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Response encoding, read back with the stock messages."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tritonclient.grpc import service_pb2

from backends.api.datatypes import DATATYPES
from backends.api.errors import InvalidArgumentError, NotFoundError
from backends.api.quoting import MOST_TEXT_CHARACTERS, shorten
from backends.api.request import InferenceResponse, Tensor
from deployments.grpc.codec.response import (
    ResponseEncoder,
    encode_empty_final,
    encode_failure,
    encode_rejection,
)
from tests.support.examples import examples

outputs = st.lists(
    st.builds(
        lambda name, datatype, shape, data: Tensor(name, datatype, tuple(shape), memoryview(data)),
        st.text(max_size=5),
        st.sampled_from(sorted(DATATYPES)),
        st.lists(st.integers(0, 2**40), max_size=3),
        st.binary(max_size=300),
    ),
    max_size=4,
)
values = st.one_of(
    st.booleans(), st.integers(-(2**63), 2**64 - 1), st.floats(allow_nan=False), st.text(max_size=5)
)
responses = st.builds(
    InferenceResponse,
    st.text(max_size=5),
    st.text(max_size=3),
    st.text(max_size=200),
    outputs,
    st.dictionaries(st.text(max_size=3), values, max_size=3),
)


def joined(encoded):
    return encoded if isinstance(encoded, bytes) else b"".join(encoded)


def check(message, response):
    assert message.model_name == response.model_name
    assert message.model_version == response.model_version
    assert message.id == response.id
    assert [(each.name, each.datatype, tuple(each.shape)) for each in message.outputs] == [
        (each.name, each.datatype, each.shape) for each in response.outputs
    ]
    assert list(message.raw_output_contents) == [bytes(each.data) for each in response.outputs]


def parameters_of(message):
    return {
        key: getattr(value, value.WhichOneof("parameter_choice"))
        for key, value in message.parameters.items()
    }


@settings(max_examples=examples(60), deadline=None)
@given(st.lists(responses, min_size=1, max_size=3))
def test_stock_messages_read_what_was_encoded(several):
    encoder = ResponseEncoder()
    for response in [*several, *several]:
        message = service_pb2.ModelInferResponse.FromString(joined(encoder.encode(response)))
        check(message, response)
        assert parameters_of(message) == response.parameters


@settings(max_examples=examples(30), deadline=None)
@given(responses, st.booleans())
def test_streamed_responses_add_the_final_flag(response, final):
    encoded = joined(ResponseEncoder().encode_streamed(response, final=final))
    message = service_pb2.ModelStreamInferResponse.FromString(encoded)
    assert message.error_message == ""
    check(message.infer_response, response)
    flag = message.infer_response.parameters["triton_final_response"]
    assert flag.WhichOneof("parameter_choice") == "bool_param"
    assert flag.bool_param is final


@pytest.mark.parametrize("streamed", [False, True])
def test_large_tensors_are_not_copied(streamed):
    data = memoryview(bytes(200_000))
    response = InferenceResponse("m", "1", "i", [Tensor("O", "UINT8", (200_000,), data)])
    encoder = ResponseEncoder()
    parts = encoder.encode_streamed(response, final=True) if streamed else encoder.encode(response)
    assert any(part is data for part in parts)


def test_zero_size_output_still_has_its_raw_entry():
    response = InferenceResponse(
        "m", "1", "", [Tensor("A", "FP32", (0,)), Tensor("B", "UINT8", (1,), memoryview(b"x"))]
    )
    message = service_pb2.ModelInferResponse.FromString(joined(ResponseEncoder().encode(response)))
    assert list(message.raw_output_contents) == [b"", b"x"]


def test_heads_remembered_are_bounded():
    encoder = ResponseEncoder()
    for number in range(3000):
        encoder.encode(InferenceResponse("m", "1", "", [Tensor("O", "FP32", (number,))]))
    assert len(encoder._heads) <= 1024


def test_response_over_the_size_limit_is_invalid():
    response = InferenceResponse(
        "m", "1", "", [Tensor("O", "UINT8", (200,), memoryview(bytes(200)))]
    )
    with pytest.raises(InvalidArgumentError, match=r"exceeds gRPC's byte size limit 100\."):
        ResponseEncoder(100).encode(response)


def test_stream_errors_carry_text_and_id():
    error = NotFoundError("gone")
    rejected = service_pb2.ModelStreamInferResponse.FromString(encode_rejection(error, "i"))
    assert (rejected.error_message, rejected.infer_response.id) == ("gone", "i")
    assert not rejected.infer_response.parameters
    failed = service_pb2.ModelStreamInferResponse.FromString(encode_failure(error, "i", "m"))
    assert (failed.error_message, failed.infer_response.model_name) == ("gone", "m")
    assert failed.infer_response.parameters["triton_final_response"].bool_param


def test_empty_final_response_has_no_version():
    message = service_pb2.ModelStreamInferResponse.FromString(encode_empty_final("i", "m"))
    assert (message.infer_response.id, message.infer_response.model_name) == ("i", "m")
    assert message.infer_response.model_version == ""
    assert message.infer_response.parameters["triton_final_response"].bool_param


def test_responses_that_differ_in_one_output_are_told_apart():
    def sent(encoder, *names):
        tensors = [Tensor(name, "INT8", (1,), memoryview(b"x")) for name in names]
        data = joined(encoder.encode(InferenceResponse("m", "1", outputs=tensors)))
        return [each.name for each in service_pb2.ModelInferResponse.FromString(data).outputs]

    encoder = ResponseEncoder()
    for names in (["a", "z"], ["b", "z"], ["a"], ["a", "z"]):
        assert sent(encoder, *names) == names


def test_a_head_that_is_known_is_not_made_again():
    encoder = ResponseEncoder()
    response = InferenceResponse("m", "1", outputs=[Tensor("a", "INT8", (1,), memoryview(b"x"))])
    assert encoder._head(response) is encoder._head(response)


def test_a_small_response_is_one_piece_and_a_text_too_long_is_cut():
    tensor = Tensor("a", "INT8", (1,), memoryview(b"x"))
    encoder = ResponseEncoder()
    assert isinstance(encoder.encode(InferenceResponse("m", "1", outputs=[tensor])), bytes)
    data = encode_rejection(NotFoundError("x" * 100_000), "7")
    text = service_pb2.ModelStreamInferResponse.FromString(data).error_message
    assert text == shorten("x" * 100_000, MOST_TEXT_CHARACTERS)
    assert len(text) < 100_000
