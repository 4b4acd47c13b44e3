# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
import json
import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from backends.api.bytes_tensor import serialize_bytes
from backends.api.errors import InternalError, InvalidArgumentError, TritonError
from backends.api.request import InferenceResponse, Tensor, tensor_from_numpy
from deployments.http.codec.infer_response import EncodedInfer, InferEncoder, json_data
from deployments.http.codec.infer_spec import OutputsSpec, RequestedOutput
from tests.support.examples import examples

JSON = OutputsSpec()
BINARY = OutputsSpec(is_binary=True)


def encode(
    tensors: list[Tensor], outputs: OutputsSpec = JSON, request_id: str = "", **fields: Any
) -> EncodedInfer:
    response = InferenceResponse("m", "1", request_id, tensors, **fields)
    return InferEncoder().encode(response, outputs, {"O": ("cat", "")}, is_batching=True)


def output(array: Any, dtype: str = "i4", name: str = "O") -> Tensor:
    return tensor_from_numpy(name, np.array(array, dtype))


def test_binary_outputs_follow_the_json_in_order() -> None:
    tensors = [output([[1, 2]], name="A"), output([[3.5]], "f4", "B")]
    encoded = encode(tensors, BINARY, "id-1")
    assert encoded.header == (
        b'{"id":"id-1","model_name":"m","model_version":"1","outputs":['
        b'{"name":"A","datatype":"INT32","shape":[1,2],"parameters":{"binary_data_size":8}},'
        b'{"name":"B","datatype":"FP32","shape":[1,1],"parameters":{"binary_data_size":4}}]}'
    )
    assert [bytes(each) for each in encoded.blobs] == [bytes(each.data) for each in tensors]
    assert encoded.blob_bytes == 12


def test_json_outputs_are_flat() -> None:
    encoded = encode([output([[1, 2], [3, 4]])])
    assert encoded.header == (
        b'{"model_name":"m","model_version":"1","outputs":['
        b'{"name":"O","datatype":"INT32","shape":[2,2],"data":[1,2,3,4]}]}'
    )
    assert encoded.blob_bytes == 0


def test_output_listed_without_binary_data_is_json_whatever_the_default() -> None:
    wanted = OutputsSpec(
        is_binary=True, by_name={"A": RequestedOutput(), "B": RequestedOutput(is_binary=True)}
    )
    encoded = encode([output([[1]], name="A"), output([[2]], name="B")], wanted)
    outputs = json.loads(encoded.header)["outputs"]
    assert ["data" in each for each in outputs] == [True, False]


def test_empty_binary_output_has_no_blob() -> None:
    encoded = encode([output(np.zeros((1, 0)))], BINARY)
    assert json.loads(encoded.header)["outputs"][0]["parameters"] == {"binary_data_size": 0}
    assert encoded.blobs == []


def test_parameters_stand_before_the_outputs() -> None:
    encoded = encode([], parameters={"a": 1, "b": True, "c": "x"})
    assert encoded.header == (
        b'{"model_name":"m","model_version":"1","parameters":{"a":1,"b":true,"c":"x"},"outputs":[]}'
    )


def test_infinite_parameter_is_a_bare_token() -> None:
    assert b'"parameters":{"a":Infinity}' in encode([], parameters={"a": math.inf}).header


def test_not_finite_numbers_are_bare_tokens() -> None:
    header = encode([output([math.nan, math.inf, -math.inf, 0.5], "f4")]).header
    assert b'"data":[NaN,Infinity,-Infinity,0.5]' in header
    assert json_data(output([1.0, math.nan, math.nan], "f8")) == b"[1.0,NaN,NaN]"


@settings(max_examples=examples(50), deadline=None)
@given(values=st.lists(st.floats(), min_size=1, max_size=40))
def test_any_doubles_are_read_back_from_json(values: list[float]) -> None:
    text = json_data(tensor_from_numpy("O", np.array(values)))
    assert np.array_equal(np.array(json.loads(text)), np.array(values), equal_nan=True)


def test_fp32_is_printed_with_the_digits_of_its_double() -> None:
    assert b'"data":[0.10000000149011612]' in encode([output([0.1], "f4")]).header


def test_booleans_are_json_booleans() -> None:
    assert b'"data":[true,false]' in encode([output([True, False], "?")]).header


def test_strings_of_any_encoding_are_written_as_they_are() -> None:
    tensor = Tensor("O", "BYTES", (2,), memoryview(serialize_bytes([b'\xff"\n\x01', b"ok"])))
    assert b'"data":["\xff\\"\\n\\u0001","ok"]' in encode([tensor]).header


@pytest.mark.parametrize("datatype", ["FP16", "BF16"])
def test_half_precision_cannot_be_json(datatype: str) -> None:
    with pytest.raises(InvalidArgumentError, match=f"sending {datatype} data via JSON"):
        encode([Tensor("O", datatype, (1, 0))])


@pytest.mark.parametrize(
    "tensor",
    [
        Tensor("O", "INT32", (3,), memoryview(bytes(8))),
        Tensor("O", "BYTES", (2,), memoryview(serialize_bytes(["a"]))),
        Tensor("O", "BYTES", (1,), memoryview(b"\x09\x00\x00\x00a")),
    ],
)
def test_bytes_that_do_not_fit_the_shape_are_an_error(tensor: Tensor) -> None:
    with pytest.raises(InternalError, match="Failed to write 'data' field"):
        encode([tensor])


def test_classification_replaces_the_output() -> None:
    wanted = OutputsSpec(by_name={"O": RequestedOutput(class_count=2)})
    encoded = encode([output([[0.25, 0.5], [0.75, 0.5]], "f4")], wanted)
    assert json.loads(encoded.header)["outputs"] == [
        {
            "name": "O",
            "datatype": "BYTES",
            "shape": [2, 2],
            "data": ["0.500000:1", "0.250000:0:cat", "0.750000:0:cat", "0.500000:1"],
        }
    ]


def test_same_shape_with_another_size_is_not_confused() -> None:
    encoder = InferEncoder()
    for text in ("a", "longer"):
        tensor = Tensor("O", "BYTES", (1,), memoryview(serialize_bytes([text])))
        encoded = encoder.encode(
            InferenceResponse("m", "1", "", [tensor]), BINARY, {}, is_batching=False
        )
        size = json.loads(encoded.header)["outputs"][0]["parameters"]["binary_data_size"]
        assert size == len(text) + 4


@settings(max_examples=examples(60), deadline=None)
@given(
    request_id=st.text(st.characters(exclude_categories=["Cs"]), max_size=8),
    values=st.lists(st.integers(-(2**63), 2**63 - 1), max_size=6),
    floats=st.lists(st.floats(allow_nan=False, allow_infinity=False), max_size=6),
    texts=st.lists(st.text(st.characters(exclude_categories=["Cs"])), max_size=4),
)
def test_json_answer_reads_back(
    request_id: str, values: list[int], floats: list[float], texts: list[str]
) -> None:
    tensors = [
        output(values, "i8", "I"),
        output(floats, "f8", "F"),
        Tensor("T", "BYTES", (len(texts),), memoryview(serialize_bytes(texts))),
    ]
    document = json.loads(encode(tensors, JSON, request_id).header)
    assert document.get("id", "") == request_id
    assert [each["data"] for each in document["outputs"]] == [values, floats, texts]


_RESPONSES = st.builds(
    InferenceResponse,
    st.sampled_from(("m", "n")),
    st.sampled_from(("1", "2")),
    st.sampled_from(("", "id")),
    st.lists(
        st.builds(
            output,
            st.sampled_from(([[1, 2]], [[3, 4]], [[1], [2]], [[]])),
            st.sampled_from(("i4", "f4", "i8")),
            st.sampled_from(("O", "P")),
        ),
        max_size=3,
    ),
    st.sampled_from(({}, {"k": 1})),
)


@given(
    st.lists(_RESPONSES, min_size=2, max_size=5),
    st.sampled_from(
        (
            OutputsSpec(),
            OutputsSpec(is_binary=True),
            OutputsSpec(by_name={"O": RequestedOutput(is_binary=True)}),
            OutputsSpec(is_binary=True, by_name={"O": RequestedOutput(is_binary=False)}),
            OutputsSpec(by_name={"O": RequestedOutput(is_binary=True, class_count=1)}),
        )
    ),
)
def test_responses_before_make_no_difference(
    responses: list[InferenceResponse], wanted: OutputsSpec
) -> None:
    encoder = InferEncoder()
    spec = OutputsSpec(wanted.is_binary, wanted.by_name)
    for response in [each for each in responses for _ in range(2)]:
        fresh = OutputsSpec(wanted.is_binary, wanted.by_name)
        assert _encoded(encoder, response, spec) == _encoded(InferEncoder(), response, fresh)


def _encoded(encoder: InferEncoder, response: InferenceResponse, spec: OutputsSpec) -> object:
    try:
        encoded = encoder.encode(response, spec, {}, is_batching=True)
    except TritonError as error:
        return error.message
    return encoded.header, [bytes(each) for each in encoded.blobs], encoded.blob_bytes
