# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""What a document may say, up to its bounds, and what an error says of anything else."""

import math
from datetime import date
from enum import StrEnum
from typing import Annotated, Any, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Meta

from backends.api.errors import InvalidArgumentError
from deployments.settings.documents import (
    FINITE,
    Part,
    Section,
    SectionError,
    Text,
    Texts,
    shown,
    without_nulls,
)


class Colour(StrEnum):
    RED = "red"
    BLUE = "blue"


class Inner(Section, frozen=True):
    a: int = 0
    b: int = 0

    def check(self) -> None:
        if self.b > self.a:
            raise SectionError("at most a", "lower it", "b", shows_value=True)


class One(Section, frozen=True, tag_field="kind", tag="one"):
    x: int = 0


class Two(Section, frozen=True, tag_field="kind", tag="two"):
    y: int = 0


class Document(Section, frozen=True):
    name: Annotated[Text, Meta(extra={"if_missing": "say which"})]
    names: Texts = ()
    flag: bool = False
    whole: Annotated[int, Meta(ge=0, le=9)] = 0
    number: Annotated[float, Meta(ge=0, le=FINITE)] = 0.0
    share: Annotated[float, Meta(gt=0, le=1)] = 1.0
    word: Annotated[Literal["on", "off"], Meta(title="switch")] = "on"
    colours: tuple[Annotated[Colour, Meta(title="colour")], ...] = ()
    inner: Inner = Inner()
    few: Annotated[tuple[Inner, ...], Meta(max_length=1)] = ()
    either: One | Two = One()


# By field: values that are taken, and such that are not, with what is said of them.
CASES: dict[str, tuple[list[object], list[tuple[object, str]]]] = {
    "name": (
        ["a", "a" * 1024],
        [
            ("", "name: got '', expected a text of 1 to 1024 printable characters"),
            (5, "name: got 5, expected a text of 1 to 1024 printable characters; put it in quotes"),
            ("a\nb", r"name: got 'a\nb', expected a text of printable characters"),
        ],
    ),
    "names": (
        ["a", ["a", "b"]],
        [
            ([], "names: got 0 entries, expected a list of at least one entry"),
            (["a", 5], "names[1]: got 5, expected a text of 1 to 1024 printable characters"),
            (["a", "\t"], r"names[1]: got '\t', expected a text of printable characters"),
        ],
    ),
    "flag": ([True], [(1, "flag: got 1, expected true or false")]),
    "whole": (
        [0, 9],
        [
            (10, "whole: got 10, expected a whole number from 0 to 9"),
            (1.0, "whole: got 1.0, expected a whole number from 0 to 9"),
            (True, "whole: got true, expected a whole number"),
        ],
    ),
    "number": (
        [0, 1e308],
        [
            (math.inf, "number: got inf, expected a number of at least 0"),
            (math.nan, "number: got nan, expected a number of at least 0"),
            (10**400, "number: got a huge number, expected a number of at least 0"),
        ],
    ),
    "share": ([1, 0.1], [(0, "share: got 0, expected a number above 0 and at most 1")]),
    "word": (
        ["off"],
        [
            ("of", "word: unknown switch 'of', expected off or on; did you mean 'off'?"),
            (5, "word: unknown switch 5, expected off or on"),
        ],
    ),
    "colours": (
        [["red", "blue"]],
        [
            (
                ["rde"],
                "colours[0]: unknown colour 'rde', expected",
            ),
            ("red", "colours: got 'red', expected a list; make it a list"),
        ],
    ),
    "inner": (
        [{}, {"a": 2, "b": 1}],
        [
            ([], "inner: got a list, expected a mapping"),
            (None, "inner: got nothing, expected a mapping"),
            ({"a": 1, "b": 2}, "inner.b: got 2, expected at most a; lower it"),
            ({"c": 1}, "inner.c: unknown key 'c', expected one of a, b; remove it"),
            ({5: 1}, "inner: key 5 is not a text; put it in quotes"),
        ],
    ),
    "few": ([[{}]], [([{}, {}], "few: got 2 entries, expected a list of 0 to 1 entries")]),
    "either": (
        [{"kind": "two", "y": 1}],
        [
            ({"kind": "tow"}, "either.kind: unknown kind 'tow', expected one or two; did you"),
            ({"kind": []}, "either.kind: unknown kind a list, expected one or two"),
            ({"kind": "two", "x": 1}, "either.x: unknown key 'x', expected one of kind, y"),
            ({"kind": "two", "y": ""}, "either.y: got '', expected a whole number"),
            ({}, "either: 'kind' is missing"),
        ],
    ),
}


def read(value: object) -> Document:
    return Part(value, "", "file 'f'").read(Document)


@pytest.mark.parametrize("name", CASES)
def test_an_error_names_document_place_value_and_what_was_expected(name: str) -> None:
    accepted, refused = CASES[name]
    for value in accepted:
        read({"name": "n", name: value})
    for value, told in refused:
        with pytest.raises(InvalidArgumentError) as caught:
            read({"name": "n", name: value})
        assert caught.value.message.startswith(f"file 'f': {told}"), value


def test_what_is_missing_is_named_with_what_to_do() -> None:
    with pytest.raises(InvalidArgumentError) as caught:
        read({})
    assert caught.value.message == "file 'f': 'name' is missing; say which"


@pytest.mark.parametrize("key", ["a` - at `$.few[9]", "a`", "a - at `key` in `$.x`"])
def test_a_key_that_looks_like_a_place_is_none(key: str) -> None:
    for value, path in (({"name": "n", key: 1}, ""), ({"name": "n", "inner": {key: 1}}, "inner.")):
        with pytest.raises(InvalidArgumentError) as caught:
            read(value)
        assert caught.value.message.startswith(f"file 'f': {path}{key}: unknown key '{key}', exp")


def test_what_a_section_says_is_no_place() -> None:
    class Named(Section, frozen=True):
        name: str

        def check(self) -> None:
            raise SectionError(f"nobody is called {self.name}", field="name")

    with pytest.raises(InvalidArgumentError) as caught:
        Part({"name": "a - at `$.x[9]`"}, "", "file 'f'").read(Named)
    assert caught.value.message == "file 'f': name: nobody is called a - at `$.x[9]`"


def test_a_part_is_named_from_the_top_of_its_document() -> None:
    part = Part({"a": {"b": [{"c": "x"}]}}, "", "file 'f'").at("a.b[0].c")
    assert (part.value, part.path) == ("x", "a.b[0].c")
    assert part.error("wrong", "mend it").message == "file 'f': a.b[0].c: wrong; mend it"
    assert [each.path for each in Part({"k": 1}, "a", "d").parts().values()] == ["a.k"]
    with pytest.raises(InvalidArgumentError, match=r"^d: key '' is not a text; put it in quotes$"):
        Part({"": 1}, "", "d").parts()


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5) | st.dates(),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from([*CASES, "kind", "x", 5, "[", "a.b"]), inner, max_size=4)
    ),
    max_leaves=12,
)


@given(st.sampled_from([*CASES]), JSON)
def test_any_document_is_read_or_refused_in_one_line(name: str, value: Any) -> None:
    message = "file 'f': "
    try:
        read({"name": "n", name: value})
    except InvalidArgumentError as error:
        message = error.message
    assert message.startswith("file 'f': ")
    assert "\n" not in message


def test_null_in_json_is_as_if_nothing_were_given() -> None:
    assert without_nulls({"a": None, "b": [{"c": None}, None]}) == {"b": [{}, None]}


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ({"a": "secret"}, "a mapping"),
        (["secret"], "a list"),
        (None, "nothing"),
        (b"secret", "binary data"),
        ("a" * 60, "'" + "a" * 60 + "'"),
        ("a" * 61, "'" + "a" * 60 + "...'"),
        ("a\nb", r"'a\nb'"),
        (True, "true"),
        (False, "false"),
        (1.5, "1.5"),
        (date(2027, 1, 31), "2027-01-31"),
        (2**64 - 1, str(2**64 - 1)),
        (2**64, "a huge number"),
        (-(2**64), "a huge number"),
        ({1}, "a set"),
    ],
)
def test_a_value_is_shown_on_one_line_and_nothing_of_what_is_in_it(
    value: object, text: str
) -> None:
    assert shown(value) == text
