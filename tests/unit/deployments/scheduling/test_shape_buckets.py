# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Padding of inputs to common lengths, and cutting of outputs."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from backends.api.errors import InvalidArgumentError
from backends.api.model_config import DynamicBatching, ModelConfig, ModelInput, ModelOutput
from backends.api.request import (
    InferenceRequest,
    InferenceResponse,
    Tensor,
    tensor_as_numpy,
    tensor_from_numpy,
)
from deployments.scheduling.factory import make_signature
from deployments.scheduling.shape_buckets import ShapeBuckets, shape_buckets_of


def config(**fields: object) -> ModelConfig:
    given: dict[str, object] = {
        "max_batch_size": 8,
        "dynamic_batching": DynamicBatching(),
        "input": (ModelInput("ids", "INT64", (-1,)), ModelInput("x", "FP32", (2, -1, 3))),
        "output": (ModelOutput("y", "FP32", (2, -1, 3)), ModelOutput("label", "BYTES", (-1,))),
    }
    return ModelConfig("m", **(given | fields))  # type: ignore[arg-type]


def buckets(**parameters: str) -> ShapeBuckets:
    named = {key.replace("__", "."): text for key, text in parameters.items()}
    found = shape_buckets_of(config(parameters=named))
    assert found is not None
    return found


def ids(*values: int) -> InferenceRequest:
    return InferenceRequest("m", inputs=[tensor_from_numpy("ids", np.array([values], np.int64))])


def values_of(tensor: Tensor) -> list[object]:
    found: list[object] = tensor_as_numpy(tensor).tolist()
    return found


def test_without_parameters_there_are_none():
    assert shape_buckets_of(config()) is None


def test_an_input_is_padded_to_the_smallest_bucket_that_holds_it():
    of = buckets(shape_buckets__ids="2, 4", pad_value__ids="-1")
    request = ids(5, 6, 7)
    assert of.pad(request) == {"ids": (3, 4)}
    assert values_of(request.inputs[0]) == [[5, 6, 7, -1]]
    whole = ids(5, 6)
    assert of.pad(whole) == {"ids": (2, 2)}
    assert values_of(whole.inputs[0]) == [[5, 6]]


def test_an_input_longer_than_all_buckets_stays_as_it_is():
    of = buckets(shape_buckets__ids="2,4")
    request = ids(1, 2, 3, 4, 5)
    of.pad(request)
    assert request.inputs[0].shape == (1, 5)


def test_an_empty_input_is_all_padding():
    of = buckets(shape_buckets__ids="2", pad_value__ids="9")
    request = InferenceRequest("m", inputs=[Tensor("ids", "INT64", (1, 0))])
    of.pad(request)
    assert values_of(request.inputs[0]) == [[9, 9]]


def test_requests_of_one_bucket_share_a_batch_and_others_do_not():
    parameters = {"shape_buckets.ids": "4,8"}
    one = config(parameters=parameters, input=(ModelInput("ids", "INT64", (-1,)),))
    signature = make_signature(one, shape_buckets_of(one))
    assert signature is not None
    assert signature(ids(1)) == signature(ids(1, 2, 3))
    assert signature(ids(1)) != signature(ids(1, 2, 3, 4, 5))
    assert signature(ids(*range(9))) != signature(ids(*range(10)))


def test_an_output_that_does_not_follow_its_input_is_left_alone():
    of = buckets(shape_buckets__x="4", unpad__y="x")
    for shape in ((1, 2, 5, 3), (1, 2)):
        response = InferenceResponse("m", "1", outputs=[Tensor("y", "FP32", shape)])
        of.unpad(response, {"x": (3, 4)})
        assert response.outputs[0].shape == shape
    response = InferenceResponse("m", "1", outputs=[Tensor("y", "FP32", (1, 2, 4, 3))])
    of.unpad(response, {})
    assert response.outputs[0].shape == (1, 2, 4, 3)


@given(
    st.integers(1, 3),
    st.integers(0, 9),
    st.lists(st.integers(1, 9), min_size=1, max_size=3, unique=True).map(sorted),
    st.sampled_from(["0", "-1.5"]),
)
def test_what_is_padded_and_cut_is_what_was_sent(batch, length, lengths, value):
    of = buckets(shape_buckets__x=",".join(map(str, lengths)), pad_value__x=value, unpad__y="x")
    sent = np.arange(batch * 2 * length * 3, dtype=np.float32).reshape(batch, 2, length, 3)
    request = InferenceRequest("m", inputs=[tensor_from_numpy("x", sent)])
    seen = of.pad(request)
    (tensor,) = request.inputs
    padded = tensor_as_numpy(tensor)
    want = next((each for each in lengths if each >= length), length)
    assert padded.shape == (batch, 2, want, 3)
    np.testing.assert_array_equal(padded[:, :, :length], sent)
    assert (padded[:, :, length:] == float(value)).all()
    response = InferenceResponse("m", "1", outputs=[tensor_from_numpy("y", padded)])
    of.unpad(response, seen)
    np.testing.assert_array_equal(tensor_as_numpy(response.outputs[0]), sent)


@pytest.mark.parametrize(
    ("parameters", "text"),
    [
        ({"shape_buckets.nothing": "4"}, "expected one of the tensors 'ids', 'x'"),
        ({"shape_buckets.ids": "8,4"}, "with value '8,4', expected ascending lengths"),
        ({"shape_buckets.ids": "0,4"}, "expected ascending lengths"),
        ({"shape_buckets.ids": "4,"}, "expected ascending lengths"),
        ({"shape_buckets.ids": "4", "pad_value.ids": "1.5"}, "expected a number of type INT64"),
        ({"pad_value.ids": "1"}, "has no 'shape_buckets.ids'; inputs with buckets are: none"),
        ({"shape_buckets.ids": "4", "unpad.y": "x"}, "inputs with buckets are: 'ids'"),
        ({"shape_buckets.x": "4", "unpad.label": "x"}, "for a tensor of type BYTES with dims"),
    ],
)
def test_parameters_that_make_no_sense_are_refused(parameters, text):
    with pytest.raises(InvalidArgumentError, match="model 'm' has") as refused:
        shape_buckets_of(config(parameters=parameters))
    assert text in refused.value.message


@pytest.mark.parametrize(
    "fields",
    [
        {"dynamic_batching": None},
        {"max_batch_size": 0},
        {"input": (ModelInput("ids", "INT64", (-1, -1)),)},
        {"input": (ModelInput("ids", "INT64", (4,)),)},
        {"input": (ModelInput("ids", "INT64", (-1,), allow_ragged_batch=True),)},
        {"input": (ModelInput("ids", "INT64", (-1,), reshape=(1, -1)),)},
    ],
)
def test_models_whose_inputs_cannot_be_padded_are_refused(fields):
    with pytest.raises(InvalidArgumentError):
        shape_buckets_of(config(parameters={"shape_buckets.ids": "4"}, **fields))


def test_the_model_gets_an_input_without_buckets_in_the_shape_it_came_in():
    of = buckets(shape_buckets__ids="4")
    assert of.shape_of(Tensor("ids", "INT64", (1, 3))) == (1, 4)
    assert of.shape_of(Tensor("x", "FP32", (1, 2, 5, 3))) == (1, 2, 5, 3)
