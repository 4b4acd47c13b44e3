# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
# ruff: noqa: E501 - texts of Triton stay in one piece, so that they can be searched for
"""Requests that are refused, in Triton's words."""

from typing import Any

import pytest

from backends.api.errors import InvalidArgumentError
from deployments.http.codec.infer_request import InferDecoder
from tests.support.http_infer_requests import FIRST, SIMPLE, complaint, given_input

ONLY_ONE = (
    "Invalid argument: Input must set only one of the following fields: 'data', 'binary_data_size' "
    "in 'parameters', 'shared_memory_region' in 'parameters'. But "
)
SIGNED = (
    "Internal: Unable to parse 'data': attempt to access JSON non-signed-integer as signed-integer"
)
UINT = "attempt to access JSON non-unsigned-integer as unsigned-integer"
DATA = list(range(16))


@pytest.mark.parametrize(
    ("header", "text"),
    [
        (
            [],
            "Internal: Unable to parse 'inputs': attempt to access non-existing object member 'inputs'",
        ),
        (
            {"inputs": 1},
            "Internal: Unable to parse 'inputs': attempt to access JSON non-array as array",
        ),
        ({"inputs": [1]}, ONLY_ONE + "no field is set"),
        ({"inputs": [{}]}, ONLY_ONE + "no field is set"),
        (
            {"inputs": [given_input(data=DATA, parameters={"binary_data_size": 64})]},
            ONLY_ONE + "set 'data' 'binary_data_size'",
        ),
        (
            {"inputs": [given_input(data=DATA)], "parameters": {"p": 10**400}},
            "Internal: Unable to parse 'p': Number too big to be stored in double.",
        ),
        (
            {"id": 5, "inputs": []},
            "Internal: Unable to parse 'id': attempt to access JSON non-string as string",
        ),
        (
            {"inputs": [{"data": []}]},
            "Internal: Unable to parse 'name': attempt to access non-existing object member 'name'",
        ),
        (
            {"inputs": [given_input(datatype=3, data=DATA)]},
            "Internal: Unable to parse 'datatype': attempt to access JSON non-string as string",
        ),
        (
            {"inputs": [given_input(data=DATA) | {"shape": [1, -16]}]},
            f"Internal: Unable to parse 'shape': {UINT}",
        ),
        (
            {"inputs": [given_input(data=DATA) | {"shape": [2**63]}]},
            "Invalid argument: invalid shape for input 'INPUT0': shape [9223372036854775808] contains "
            "one or more invalid dimensions",
        ),
        (
            {"inputs": [given_input(data=DATA) | {"shape": [2**62, 16]}]},
            "Invalid argument: invalid shape for input 'INPUT0': shape [4611686018427387904,16] causes "
            "total element count to exceed maximum size of 9223372036854775807",
        ),
        (
            {"inputs": [given_input(data=DATA) | {"shape": [2**62]}]},
            "Invalid argument: byte size overflow for input INPUT0",
        ),
        (
            {"inputs": [given_input(datatype="INT33", data=DATA)]},
            "Invalid argument: invalid datatype for input INPUT0",
        ),
        (
            {"inputs": [given_input(datatype="FP16", data=DATA)]},
            "Invalid argument: receiving FP16 data via JSON is not supported. Please use the binary data "
            "format for input INPUT0",
        ),
        ({"inputs": [given_input(data=[1.5] * 16)]}, SIGNED),
        ({"inputs": [given_input(data=[True] * 16)]}, SIGNED),
        ({"inputs": [given_input(data=["1"] * 16)]}, SIGNED),
        ({"inputs": [given_input(data=[2**63, *DATA[1:]])]}, SIGNED),
        (
            {"inputs": [given_input(data=5)]},
            "Internal: Unable to parse 'data': attempt to access JSON non-array as array",
        ),
        (
            {"inputs": [given_input(data=[*DATA, 1])]},
            "Internal: Unable to parse 'data': Shape does not match true shape of 'data' field",
        ),
        (
            {"inputs": [given_input(data=DATA[1:])]},
            "Internal: Failed to parse 'data' field: shape does not match true shape",
        ),
        (
            {"inputs": [given_input(datatype="BYTES", data=["a"])]},
            "Internal: shape does not match true shape of 'data' field",
        ),
        (
            {"inputs": [given_input(datatype="BYTES", data=[5] * 16)]},
            "Internal: Unable to parse JSON bytes array: attempt to access JSON non-string as string",
        ),
        (
            {"inputs": [], "outputs": None},
            "Internal: Unable to parse 'outputs': attempt to access JSON non-array as array",
        ),
        (
            {"inputs": [], "outputs": [{"name": "A", "parameters": {"binary_data": 1}}]},
            "Internal: Unable to parse 'binary_data': attempt to access JSON non-boolean as boolean",
        ),
        (
            {"inputs": [], "outputs": [{"name": "A", "parameters": {"classification": -1}}]},
            f"Internal: Unable to set 'classification': {UINT}",
        ),
        (
            {
                "inputs": [],
                "outputs": [
                    {"name": "A", "parameters": {"classification": 1, "shared_memory_region": "r"}}
                ],
            },
            "Invalid argument: Output can't set both 'shared_memory_region' and 'classification'",
        ),
        (
            {
                "inputs": [],
                "outputs": [
                    {"name": "A", "parameters": {"binary_data": True, "shared_memory_region": "r"}}
                ],
            },
            "Invalid argument: Output can't set both 'shared_memory_region' and 'binary_data'",
        ),
        (
            {"inputs": [], "parameters": 3},
            "Internal: failed to get request params.: attempt to get members for non-object",
        ),
        (
            {"inputs": [], "parameters": {"l": [1]}},
            "Invalid argument: parameter 'l' has invalid type. It should be either 'int', 'bool', or "
            "'string'.",
        ),
        (
            {"inputs": [], "parameters": {"triton_x": 1}},
            "Invalid argument: parameter keys starting with 'triton_' are reserved for Triton usage and "
            "should not be specified.",
        ),
        (
            {"inputs": [], "parameters": {"sequence_id": 1.5}},
            "Internal: Unable to parse 'sequence_id': attempt to access JSON non-string as string",
        ),
        (
            {"inputs": [], "parameters": {"timeout": -1}},
            f"Internal: Unable to parse 'timeout': {UINT}",
        ),
        (
            {"inputs": [given_input(data=DATA, parameters={"shared_memory_offset": "x"})]},
            f"Internal: Unable to parse 'shared_memory_offset': {UINT}",
        ),
        (
            b'{"inputs":' + b"[" * 101 + b"]" * 101 + b"}",
            "Invalid argument: JSON nesting depth exceeds maximum allowed limit (100)",
        ),
    ],
    ids=str,
)
def test_wrong_header_gets_tritons_words(header: Any, text: str) -> None:
    assert complaint(header) == text


@pytest.mark.parametrize(
    ("size", "tail", "text"),
    [
        (60, FIRST, "unexpected additional input data for model 'simple'"),
        (
            68,
            FIRST,
            "unexpected size for input 'INPUT0', expecting 4 additional bytes for model 'simple'",
        ),
        (
            2**63,
            FIRST,
            "unexpected size for input 'INPUT0', expecting 9223372036854775744 additional bytes for "
            "model 'simple'",
        ),
    ],
)
def test_binary_sizes_must_add_up(size: int, tail: bytes, text: str) -> None:
    header = {"inputs": [given_input(parameters={"binary_data_size": size})]}
    assert complaint(header, tail) == f"Invalid argument: {text}"


def test_limit_holds_for_json_header_json_data_and_raw_body() -> None:
    header = {"inputs": [given_input(data=DATA)]}
    assert "request JSON size of" in complaint(header, max_input_bytes=50)
    large = {"inputs": [given_input(data=[]) | {"shape": [1000]}]}
    assert complaint(large, max_input_bytes=200) == (
        "Invalid argument: JSON input 'INPUT0' has a byte_size (4000 bytes) that exceeds the maximum "
        "allowed value of 200 bytes. Use --http-max-input-size to increase the limit."
    )
    with pytest.raises(InvalidArgumentError, match="Raw input has a byte_size"):
        InferDecoder(8).decode(memoryview(bytes(9)), 0, SIMPLE)
