# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
import json

import pytest

from backends.api.errors import InvalidArgumentError
from backends.llm.openvino.schemas import check_schema


@pytest.mark.parametrize(
    "schema",
    [
        {},
        {"type": ["string", "null"]},
        {"type": "object", "properties": {"a": {"$ref": "#/$defs/x"}}, "$defs": {"x": True}},
        {"type": "array", "items": {"anyOf": [{"type": "integer"}, {"enum": ["a"]}]}},
        {"type": "object", "additionalProperties": False, "required": ["a"]},
        {"properties": {"child": {"$ref": "#"}}},
    ],
)
def test_a_schema_is_let_through(schema):
    check_schema(json.dumps(schema))


@pytest.mark.parametrize(
    ("schema", "said"),
    [
        ({"type": "text"}, 'has "text" at $.type, expected one of'),
        ({"items": {"type": "text"}}, 'has "text" at $.items.type'),
        ({"properties": {"a": {"enum": []}}}, "has [] at $.properties.a.enum"),
        ({"anyOf": []}, "has [] at $.anyOf, expected a list of at least one schema"),
        ({"properties": []}, "has [] at $.properties, expected an object of schemas"),
        ({"$ref": "#/$defs/x"}, 'has "#/$defs/x" at $.$ref, expected a place in this schema'),
        ({"$ref": "https://x"}, 'has "https://x" at $.$ref'),
        ({"pattern": "("}, 'has "(" at $.pattern, expected a regular expression'),
        ({"required": "a"}, 'has "a" at $.required, expected a list of names'),
        ([], "has [] at $, expected an object"),
    ],
)
def test_what_is_no_schema_is_refused_by_its_place(schema, said):
    with pytest.raises(InvalidArgumentError) as raised:
        check_schema(json.dumps(schema))
    assert said in raised.value.message


def test_a_schema_without_end_is_refused():
    deep = "{}"
    for _ in range(80):
        deep = f'{{"items": {deep}}}'
    with pytest.raises(InvalidArgumentError, match="at most 64 deep"):
        check_schema(deep)
    with pytest.raises(InvalidArgumentError, match="no JSON"):
        check_schema("{")


def test_a_schema_or_a_pattern_nested_too_deeply_is_refused():
    for text in (
        '{"items":' * 100_000 + "{}" + "}" * 100_000,
        json.dumps({"pattern": "(" * 5000 + ")" * 5000}),
    ):
        with pytest.raises(InvalidArgumentError):
            check_schema(text)
