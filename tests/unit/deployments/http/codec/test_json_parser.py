# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
import json
import math
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from backends.api.errors import InternalError, InvalidArgumentError, TritonError
from deployments.http.codec.json_parser import MAX_STRICT_BYTES, parse
from tests.support.examples import examples

PREFIX = "failed to parse the request JSON buffer: "

# Documents with what Triton 2.51 answered.
COMPLAINTS = [
    (b"", "The document is empty. at 0"),
    (b" ", "The document is empty. at 1"),
    (b"\x00", "The document is empty. at 0"),
    (b"{", "Missing a name for object member. at 1"),
    (b"{a:1}", "Missing a name for object member. at 1"),
    (b'{"a":1,}', "Missing a name for object member. at 7"),
    (b'{"a"', "Missing a colon after a name of object member. at 4"),
    (b'{"a" 1}', "Missing a colon after a name of object member. at 5"),
    (b'{"a":', "Invalid value. at 5"),
    (b'{"a":1', "Missing a comma or '}' after an object member. at 6"),
    (b'{"a":1 "b":2}', "Missing a comma or '}' after an object member. at 7"),
    (b'{"a":01}', "Missing a comma or '}' after an object member. at 6"),
    (b'{"a":tru}', "Invalid value. at 8"),
    (b'{"a":[1,]}', "Invalid value. at 8"),
    (b'{"a":[1 2]}', "Missing a comma or ']' after an array element. at 8"),
    (b"[1", "Missing a comma or ']' after an array element. at 2"),
    (b"[1,", "Invalid value. at 3"),
    (b"[,]", "Invalid value. at 1"),
    (b"nul", "Invalid value. at 3"),
    (b"not json", "Invalid value. at 1"),
    (b"// c\n{}", "Invalid value. at 0"),
    (b"{}{}", "The document root must not be followed by other values. at 2"),
    (b'{"a":1}x', "The document root must not be followed by other values. at 7"),
    (b'{"a":"x', "Missing a closing quotation mark in string. at 7"),
    (b'{"a":"\\x"}', "Invalid escape character in string. at 6"),
    (b'{"a":"\\', "Invalid escape character in string. at 6"),
    (b'{"a":"\x01"}', "Invalid escape character in string. at 6"),
    (b'{"a":"\\uzz"}', "Incorrect hex digit after \\u escape in string. at 6"),
    (b'{"a":"\\ud800"}', "The surrogate pair in string is invalid. at 6"),
    (b'{"a":"\\ud800\\u0041"}', "The surrogate pair in string is invalid. at 6"),
    (b'{"a":"\\udc00"}', "The surrogate pair in string is invalid. at 6"),
    (b'{"a":1e999}', "Number too big to be stored in double. at 5"),
    (b'{"a":1.}', "Miss fraction part in number. at 7"),
    (b'{"a":1e}', "Miss exponent in number. at 7"),
    (b'{"a":1.5e+}', "Miss exponent in number. at 10"),
    (b'{"a":-}', "Invalid value. at 6"),
    (b'{"a":--5}', "Invalid value. at 6"),
    (b'{"a":+5}', "Invalid value. at 5"),
    (b'{"a":.5}', "Invalid value. at 5"),
    (b'{"a":Nan}', "Invalid value. at 7"),
    (b'{"a":Infinit}', "Invalid value. at 12"),
]


@pytest.mark.parametrize(
    ("document", "complaint"), COMPLAINTS, ids=[repr(c[0]) for c in COMPLAINTS]
)
def test_malformed_document_gets_rapidjsons_words(document: bytes, complaint: str) -> None:
    with pytest.raises(InternalError) as caught:
        parse(document)
    assert caught.value.message == PREFIX + complaint


@pytest.mark.parametrize(
    ("document", "value"),
    [
        (b"\xef\xbb\xbf{}", {}),
        (b"{}\x00garbage", {}),
        (b" {} \n", {}),
        (b'{"a": 1, "a": 2}', {"a": 1}),
        (b'"\\ud83d\\ude00\\n\\/"', "\U0001f600\n/"),
        (b'"\xff"', "\udcff"),
        (b"18446744073709551615", 2**64 - 1),
        (b"-9223372036854775808", -(2**63)),
        (b"18446744073709551616", 1.8446744073709552e19),
        (b"[1.5, -0.25e2]", [1.5, -25.0]),
    ],
)
def test_what_rapidjson_accepts_is_accepted(document: bytes, value: Any) -> None:
    assert parse(document) == value


def test_not_finite_numbers_are_accepted() -> None:
    values = parse(b"[NaN,-NaN,Inf,-Inf,Infinity,-Infinity]")
    assert isinstance(values, list)
    assert [math.isnan(each) for each in values[:2]] == [True, True]
    assert values[2:] == [math.inf, -math.inf, math.inf, -math.inf]


def test_nesting_beyond_the_limit_is_refused() -> None:
    parse(b"[" * 100 + b"]" * 100)
    with pytest.raises(InvalidArgumentError, match="JSON nesting depth exceeds"):
        parse(b"[" * 101 + b"]" * 101)


@pytest.mark.parametrize(
    ("tail", "complaint"),
    [
        (b",]", "Missing a comma or '}' after an object member."),
        (b', "a"}', "Missing a colon after a name of object member."),
        (b"} x", "The document root must not be followed by other values."),
        (b', "\\q": 1}', "Invalid escape character in string."),
    ],
)
def test_large_malformed_document_gets_the_nearest_words(tail: bytes, complaint: str) -> None:
    document = b'{"a": "' + b"x" * MAX_STRICT_BYTES + b'"' + tail
    with pytest.raises(InternalError) as caught:
        parse(document)
    assert caught.value.message.startswith(PREFIX)


def test_large_document_is_read_like_a_small_one() -> None:
    document = b'{"a": [NaN], "a": 1, "b": "' + b"x" * MAX_STRICT_BYTES + b'"}'
    value = parse(document)
    assert isinstance(value, dict)
    assert math.isnan(value["a"][0])


def test_large_deep_document_is_refused() -> None:
    with pytest.raises(TritonError):
        parse(b"[" * (MAX_STRICT_BYTES + 1))


json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_characters="\x00", exclude_categories=["Cs"])),
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=4), inner, max_size=4)
    ),
    max_leaves=10,
)


@settings(max_examples=examples(100), deadline=None)
@given(value=json_values, ascii_only=st.booleans())
def test_every_json_document_is_read_as_by_the_standard_library(
    value: Any, ascii_only: bool
) -> None:
    document = json.dumps(value, ensure_ascii=ascii_only).encode()
    assert parse(document) == value


@settings(max_examples=examples(150), deadline=None)
@given(
    value=json_values,
    at=st.integers(0, 200),
    inserted=st.binary(max_size=3),
    removed=st.integers(0, 3),
)
@example(value={"a": [1.5, "é"]}, at=0, inserted=b" ", removed=0)
def test_mutated_document_raises_nothing_but_triton_errors(
    value: Any, at: int, inserted: bytes, removed: int
) -> None:
    document = json.dumps(value).encode()
    mutated = document[:at] + inserted + document[at + removed :]
    try:
        parse(mutated)
    except TritonError:
        assert mutated.strip(b" \t\r\n") != document


@pytest.mark.parametrize(
    "text",
    [rb"\ud83d", rb"\uD83Dx", rb"\ude00", rb"\ud83d\ud83d\ude00", rb"\\\ud83d", rb"\ud83d\n"],
)
def test_a_surrogate_alone_in_a_large_document_is_told_as_in_a_small_one(text: bytes) -> None:
    messages = []
    for size in (10, MAX_STRICT_BYTES):
        with pytest.raises(
            InternalError, match="The surrogate pair in string is invalid"
        ) as caught:
            parse(b'["' + b"x" * size + b'", "' + text + b'"]')
        messages.append(int(caught.value.message.rpartition(" ")[2]) - size)
    assert messages[0] == messages[1]


def test_surrogates_in_pairs_and_what_looks_like_one_are_read_in_a_large_document() -> None:
    text = rb"\ud83d\ude00 \uD83D\uDE00 \\ud83d \\\\ud83d \ud7ff \u00d8"
    found = parse(b'["' + b"x" * MAX_STRICT_BYTES + b'", "' + text + b'"]')
    assert isinstance(found, list)
    assert found[1] == "\U0001f600 \U0001f600 \\ud83d \\\\ud83d \ud7ff \u00d8"
