# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Typed access to JSON in Triton's words, and what is written where JSON has no word."""

import math
from collections.abc import Callable

import pytest

from backends.api.errors import InternalError, TritonError
from deployments.http.codec.json_data import tensor_bytes
from deployments.http.codec.json_parser import MAX_DEPTH, MAX_STRICT_BYTES, NESTING_TEXT, parse
from deployments.http.codec.json_text import (
    as_array,
    as_bool,
    as_string,
    as_uint,
    dump,
    error_body,
    quote,
)
from deployments.http.codec.request_parameters import correlation_id


@pytest.mark.parametrize(
    ("read", "accepted", "refused"),
    [
        (as_uint, [0, 2**64 - 1], [-1, 2**64, True, 1.0, "1"]),
        (as_bool, [True, False], [1, "true", None]),
        (as_array, [[], [1]], [{}, "a"]),
        (as_string, ["", "a"], [1, None]),
        (correlation_id, [0, 2**64 - 1, "a", ""], [-1, 2**64, True, 1.5]),
    ],
)
def test_a_value_has_the_type_that_is_asked_for(
    read: Callable[[object], object], accepted: list[object], refused: list[object]
) -> None:
    for value in accepted:
        assert read(value) == value
    for value in refused:
        with pytest.raises(InternalError, match="attempt to access JSON non-"):
            read(value)


def test_an_error_is_an_object_whatever_its_message_holds() -> None:
    assert error_body("no such model") == b'{"error":"no such model"}'
    assert error_body("bad \udcff byte") == b'{"error":"bad ? byte"}'


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ({"a": 1.5, "b": "\u00e9"}, '{"a":1.5,"b":"\u00e9"}'),
        ({"a": math.inf, "b": "\u00e9"}, '{"a":Infinity,"b":"\u00e9"}'),
        ({"a": math.nan, "b": -math.inf}, '{"a":NaN,"b":-Infinity}'),
        ([1, 2], "[1,2]"),
    ],
)
def test_numbers_that_json_has_not_are_bare_tokens(value: object, text: str) -> None:
    assert dump(value) == text.encode()


def test_only_quotes_backslashes_and_control_characters_are_escaped() -> None:
    assert quote(b'a"\\\n\x01\xff') == b'"a\\"\\\\\\n\\u0001\xff"'


def test_bytes_that_are_no_utf8_pass_in_a_large_document_too() -> None:
    padding = b"x" * MAX_STRICT_BYTES
    assert parse(b'["\xff", "' + padding + b'"]') == ["\udcff", padding.decode()]


def nested(depth: int) -> object:
    value: object = 1.0
    for _ in range(depth):
        value = [value]
    return value


def test_data_nest_as_deep_as_a_document() -> None:
    assert tensor_bytes("I", "FP64", 1, nested(MAX_DEPTH)) == b"\x00" * 6 + b"\xf0\x3f"
    with pytest.raises(TritonError) as caught:
        tensor_bytes("I", "FP64", 1, nested(MAX_DEPTH + 1))
    assert caught.value.message == NESTING_TEXT


def test_data_of_another_count_than_the_shape_s_are_refused_in_triton_s_words() -> None:
    for data, text in (
        ([[1, 2], [3]], "Unable to parse 'data': Shape does not match true shape of 'data' field"),
        ([1], "Failed to parse 'data' field: shape does not match true shape"),
    ):
        with pytest.raises(InternalError) as caught:
            tensor_bytes("I", "INT32", 2, data)
        assert caught.value.message == text
    # The third element is one too many before it is a wrong one.
    with pytest.raises(InternalError, match="Shape does not match"):
        tensor_bytes("I", "INT32", 2, [1, 2, "three"])
