# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Claims about the generate codec."""

import json
from math import prod
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from backends.api.bytes_tensor import deserialize_bytes
from backends.api.errors import TritonError
from backends.api.model_config import ModelConfig, ModelInput
from backends.api.request import (
    InferenceRequest,
    InferenceResponse,
    tensor_as_numpy,
    tensor_from_numpy,
)
from deployments.http.codec.generate import _Reader, decode_generate, encode_generate
from tests.support.examples import examples


class Model:
    name = "gen"
    version = 1
    labels: dict[str, tuple[str, ...]] = {}

    def __init__(self, max_batch_size: int = 0, *inputs: ModelInput) -> None:
        self.config = ModelConfig(
            "gen",
            max_batch_size=max_batch_size,
            input=inputs
            or (ModelInput("text_input", "BYTES", (-1,)), ModelInput("max_tokens", "INT32", (1,))),
        )


def decode(body: Any, model: Model | None = None, limit: int = 1 << 20) -> InferenceRequest:
    return decode_generate(json.dumps(body).encode(), model or Model(), limit)


def refusal(body: Any, model: Model | None = None, limit: int = 1 << 20) -> TritonError:
    with pytest.raises(TritonError) as caught:
        decode(body, model, limit)
    return caught.value


def decode_limited(body: Any, model: Model, limit: int) -> TritonError:
    """The refusal of inputs that are too large, the document itself apart."""
    request = InferenceRequest(model.name, model.version)
    with pytest.raises(TritonError) as caught:
        _Reader(model, request, limit).read(body)
    return caught.value


def test_keys_that_name_inputs_become_tensors_and_others_parameters() -> None:
    request = decode({"id": "g1", "text_input": "one", "max_tokens": 2, "t": 0.5, "on": True})
    text, tokens = request.inputs
    assert (text.name, text.shape, deserialize_bytes(text.data)) == ("text_input", (1,), [b"one"])
    assert (tokens.shape, tensor_as_numpy(tokens).tolist()) == ((1,), [2])
    assert request.id == "g1"
    assert request.parameters == {"id": "g1", "t": 0.5, "on": True}


def test_keys_triton_reserves_elsewhere_are_parameters_here() -> None:
    assert decode({"text_input": "a", "triton_x": 1}).parameters == {"triton_x": 1}


def test_keys_inside_parameters_count_as_outside() -> None:
    request = decode({"text_input": "one", "parameters": {"max_tokens": 3, "s": "x"}})
    assert [each.name for each in request.inputs] == ["text_input", "max_tokens"]
    assert request.parameters == {"s": "x"}


@pytest.mark.parametrize(
    ("dims", "batch", "count", "shape"),
    [
        ((-1,), 0, 3, (3,)),
        ((16,), 8, 32, (2, 16)),
        ((-1,), 8, 2, (1, 2)),
        ((2, -1), 8, 6, (1, 2, 3)),
        ((-1, 2), 0, 6, (3, 2)),
        ((1,), 0, 1, (1,)),
    ],
)
def test_elements_fill_the_innermost_free_dimension(
    dims: tuple[int, ...], batch: int, count: int, shape: tuple[int, ...]
) -> None:
    model = Model(batch, ModelInput("X", "FP32", dims))
    (tensor,) = decode({"X": [1.5] * count}, model).inputs
    assert tensor.shape == shape


@given(st.lists(st.sampled_from([-1, 1, 2, 3]), min_size=1, max_size=4), st.integers(0, 40))
@settings(max_examples=examples(60), deadline=None)
def test_a_shape_holds_exactly_the_elements_or_is_refused(dims: list[int], count: int) -> None:
    model = Model(0, ModelInput("X", "INT64", tuple(dims)))
    fixed = prod(dim for dim in dims if dim > 0)
    fits = count % fixed == 0 if -1 in dims else count == fixed
    if fits:
        (tensor,) = decode({"X": list(range(count))}, model).inputs
        assert tensor_as_numpy(tensor).reshape(-1).tolist() == list(range(count))
    else:
        assert refusal({"X": list(range(count))}, model).message == (
            "The schema can not convert input 'X' to tensor with proper shape"
        )


@pytest.mark.parametrize(
    ("body", "code", "text"),
    [
        ([], "Internal", "attempt to get members for non-object"),
        (
            {"text_input": 5},
            "Internal",
            "Unable to parse JSON bytes array: attempt to access JSON non-string as string",
        ),
        (
            {"max_tokens": "2"},
            "Internal",
            "Unable to parse 'data': attempt to access JSON non-signed-integer as signed-integer",
        ),
        (
            {"max_tokens": [1, 2]},
            "Invalid argument",
            "The schema can not convert input 'max_tokens' to tensor with proper shape",
        ),
        (
            {"x": None},
            "Invalid argument",
            "parameter 'x' has invalid type. It should be either 'int', 'bool', or 'string'.",
        ),
        (
            {"parameters": {"x": [1]}},
            "Invalid argument",
            "Converting keyword: 'parameters': parameter 'x' has invalid type. It should be either "
            "'int', 'bool', or 'string'.",
        ),
        (
            {"parameters": 1},
            "Internal",
            "Expected JSON object for keyword: 'parameters': attempt to get members for non-object",
        ),
        (
            {"id": 5},
            "Internal",
            "Unable to parse 'id': attempt to access JSON non-string as string",
        ),
    ],
)
def test_wrong_request_has_the_text_of_triton(body: Any, code: str, text: str) -> None:
    error = refusal(body)
    assert (error.code, error.message) == (code, text)


def test_input_called_parameters_is_refused() -> None:
    model = Model(0, ModelInput("parameters", "INT32", (1,)))
    assert refusal({"parameters": 1}, model).message == (
        "Keyword 'parameters' for nested schema also given as input tensor name"
    )


def test_inputs_together_are_bounded() -> None:
    model = Model(0, ModelInput("A", "FP64", (-1,)), ModelInput("B", "FP64", (-1,)))
    decode({"A": [0] * 4}, model, limit=32)
    assert refusal({"A": [0] * 3, "B": [0] * 2}, model, limit=32).message == (
        "request size of 24 bytes with input 'B' of size 16 bytes exceeds the maximum allowed "
        "input size of 32. Use --http-max-input-size to increase the limit."
    )


def test_a_third_input_is_bounded_with_both_before_it() -> None:
    model = Model(0, *(ModelInput(name, "BYTES", (-1,)) for name in "ABC"))
    body = {"A": ["four"], "B": ["four"], "C": ["four"]}
    assert len(decode(body, model, limit=100).inputs) == 3
    assert "request size of 16 bytes with input 'C' of size 8 bytes" in (
        decode_limited(body, model, 23).message
    )


def test_a_model_of_batches_of_one_has_a_batch_dimension() -> None:
    assert decode({"I": 5}, Model(1, ModelInput("I", "INT32", (1,)))).inputs[0].shape == (1, 1)


def test_document_over_the_limit_is_refused_before_it_is_read() -> None:
    with pytest.raises(TritonError) as caught:
        decode_generate(b"[" * 101, Model(), 100)
    assert caught.value.message == (
        "request JSON size of 101 bytes exceeds the maximum allowed input size of 100 bytes. "
        "Use --http-max-input-size to increase the limit."
    )


TWO_INPUTS = Model(0, ModelInput("A", "INT32", (1,)), ModelInput("B", "INT32", (1,)))


@pytest.mark.parametrize(
    ("body", "text"),
    [
        (b'{"A": 1, "B": 1, "A": 2}', "[request id: <id_unknown>] input 'A'"),
        (b'{"id": "x", "A": 1, "B": 1, "B": 2, "A": 2}', "[request id: x] input 'B'"),
        (
            b'{"A": 1, "parameters": {"A": 2}}',
            "Converting keyword: 'parameters': [request id: <id_unknown>] input 'A'",
        ),
        (
            b'{"parameters": {"B": 1, "B": 2}, "A": 1, "A": 2}',
            "Converting keyword: 'parameters': [request id: <id_unknown>] input 'B'",
        ),
    ],
)
def test_input_given_twice_is_refused_in_the_order_of_the_text(body: bytes, text: str) -> None:
    with pytest.raises(TritonError) as caught:
        decode_generate(body, TWO_INPUTS, 1000)
    assert caught.value.message == f"{text} already exists in request"


def test_name_of_an_input_elsewhere_is_not_an_input_given_twice() -> None:
    body = b'{"A": 1, "B": 2, "more": "A", "text": "\\"A\\""}'
    decoded = decode_generate(body, TWO_INPUTS, 1000)
    assert [each.name for each in decoded.inputs] == ["A", "B"]


def test_response_is_flat_and_a_single_element_stands_alone() -> None:
    outputs = [
        tensor_from_numpy("text_output", np.array(["hé"], dtype=np.object_)),
        tensor_from_numpy("pair", np.array([1.5, -2.0], np.float32)),
        tensor_from_numpy("none", np.zeros((0,), np.int32)),
    ]
    response = InferenceResponse("gen", "1", "g1", outputs, {"n": 3})
    assert json.loads(encode_generate(response)) == {
        "id": "g1",
        "model_name": "gen",
        "model_version": "1",
        "n": 3,
        "text_output": "hé",
        "pair": [1.5, -2.0],
        "none": [],
    }
