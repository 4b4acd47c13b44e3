# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Headers with a hundred thousand dims or inputs are refused before anybody has worked on them."""

import json

import orjson
import pytest

from deployments.http.codec.json_text import error_body
from tests.support.http_infer_requests import complaint, given_input


@pytest.mark.parametrize("dim", [2, 2**62])
def test_elements_of_a_shape_without_end_are_not_counted_to_the_end(dim: int) -> None:
    # As a product this takes minutes.
    text = complaint({"inputs": [given_input(data=[1]) | {"shape": [dim] * 400_000}]})
    first = ",".join([str(dim)] * 32)
    assert text == (
        f"Invalid argument: invalid shape for input 'INPUT0': shape [{first},... and 399968 more] "
        "causes total element count to exceed maximum size of 9223372036854775807"
    )


def test_a_dim_that_is_too_large_among_many_is_told_in_a_short_message() -> None:
    shape = [1] * 100_000 + [2**63]
    text = complaint({"inputs": [given_input(data=[1]) | {"shape": shape}]})
    assert "contains one or more invalid dimensions" in text
    assert len(text) < 300


@pytest.mark.parametrize("is_careful", [False, True])
def test_inputs_far_beyond_the_model_s_are_refused_before_they_are_read(
    *, is_careful: bool
) -> None:
    # The broken one is the first, so that whoever looks at it says so.
    broken = {"name": 3} if is_careful else given_input(data=["no number"])
    text = complaint({"id": "a", "inputs": [broken] + [given_input(data=[1])] * 1000})
    assert text == (
        "Invalid argument: [request id: a] expected 2 inputs but got 1001 inputs for model "
        "'simple'. Please send each input of the model once"
    )


def test_a_message_of_any_length_is_cut() -> None:
    body = error_body("x" * 1_000_000)
    assert len(body) < 70_000
    assert orjson.loads(body)["error"].endswith("xxx... (1000000 characters)")
    assert json.loads(error_body("x" * 60_000)) == {"error": "x" * 60_000}
