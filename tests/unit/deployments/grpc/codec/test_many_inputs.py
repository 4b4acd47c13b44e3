# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Messages of a hundred thousand small fields are read in linear time, and few of them by hand."""

import pytest
from tritonclient.grpc import service_pb2

from backends.api.errors import InvalidArgumentError
from deployments.grpc.codec.explicit_contents import cut_contents
from deployments.grpc.codec.request import RequestDecoder
from deployments.grpc.codec.response import encode_failure, encode_rejection
from deployments.grpc.codec.wire import varint
from deployments.protocol.input_count import check_input_count
from tests.support.http_plane import identity_config

COUNT = 3000


def _message(count: int, *, is_raw: bool) -> service_pb2.ModelInferRequest:
    message = service_pb2.ModelInferRequest(model_name="m", id="a")
    for at in range(count):
        each = message.inputs.add(name=f"i{at}", datatype="INT32", shape=(1,))
        if is_raw:
            message.raw_input_contents.append(at.to_bytes(4, "little"))
        else:
            each.contents.int_contents.append(at)
    return message


@pytest.mark.parametrize("is_raw", [True, False])
@pytest.mark.parametrize("count", [1000, 1025, COUNT])
def test_many_inputs_are_what_few_are(count: int, *, is_raw: bool) -> None:
    message = _message(count, is_raw=is_raw)
    for _ in range(2):
        decoded = RequestDecoder().decode(message.SerializeToString())
        assert decoded.input_count == count
        tensors = decoded.build(1).inputs
        assert [each.name for each in tensors] == [f"i{at}" for at in range(count)]
        assert [int.from_bytes(each.data, "little") for each in tensors] == list(range(count))


@pytest.mark.parametrize("is_raw", [True, False])
def test_very_many_inputs_are_not_read_before_the_model_is_known(*, is_raw: bool) -> None:
    decoded = RequestDecoder().decode(_message(COUNT, is_raw=is_raw).SerializeToString())
    assert decoded._head.inputs == []
    with pytest.raises(InvalidArgumentError) as caught:
        check_input_count(decoded.input_count, identity_config("FP32"), decoded.id)
    assert caught.value.message == (
        "[request id: a] expected 1 inputs but got 3000 inputs for model 'id_fp32'. Please send "
        "each input of the model once"
    )


def test_some_inputs_too_many_are_left_to_the_core_checks() -> None:
    check_input_count(66, identity_config("FP32"), "a")


def test_fields_of_an_input_are_looked_at_up_to_a_number() -> None:
    # Joined one by one, as bytes are, they would be copied half a million times.
    fields = b"\x0a\x00" * 500_000
    message = b"\x2a" + varint(len(fields)) + fields
    assert cut_contents(message) is None
    [given] = service_pb2.ModelInferRequest.FromString(message).inputs
    assert given.name == ""


def test_streamed_errors_are_cut() -> None:
    error = InvalidArgumentError("x" * 1_000_000)
    assert len(encode_failure(error, "a", "m")) < 70_000
    assert len(encode_rejection(error, "a")) < 70_000
