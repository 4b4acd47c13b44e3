# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Looks at a JSON Schema before the engine does.

What its grammars cannot be made of the pipeline finds in the middle of a step, where it costs every
request that runs. So what is certainly none is found here.
"""

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

from backends.api.errors import InvalidArgumentError
from backends.api.quoting import quote_names, shorten

_TYPES: Final = ("object", "array", "string", "number", "integer", "boolean", "null")
# Keywords by what is below them.
_ONE: Final = ("items", "additionalProperties", "not", "contains", "propertyNames")
_LISTED: Final = ("anyOf", "oneOf", "allOf", "prefixItems")
_NAMED: Final = ("properties", "patternProperties", "$defs", "definitions")
_MOST_DEPTH: Final = 64


def check_schema(text: str) -> None:
    """Refuse a text that is no JSON Schema that grammars are made of, as far as can be seen.

    Raises:
        InvalidArgumentError: It is none; the message has the place in it.
    """
    try:
        whole = json.loads(text)
        _check(whole, whole, "$", 0)
    except ValueError as error:
        raise InvalidArgumentError(f"the JSON schema is no JSON: {error}") from None
    except RecursionError:
        raise InvalidArgumentError(
            f"the JSON schema, or a pattern in it, is nested too deeply, expected at most "
            f"{_MOST_DEPTH} levels"
        ) from None


def _check(schema: Any, whole: Any, path: str, depth: int) -> None:
    if isinstance(schema, bool) and depth:
        return
    if not isinstance(schema, dict) or depth > _MOST_DEPTH:
        raise _wrong(path, schema, f"an object, at most {_MOST_DEPTH} deep")
    types = schema.get("type", "object")
    for each in types if isinstance(types, list) and types else [types]:
        if each not in _TYPES:
            raise _wrong(f"{path}.type", each, f"one of {quote_names(_TYPES)}")
    if "enum" in schema and not (isinstance(schema["enum"], list) and schema["enum"]):
        raise _wrong(f"{path}.enum", schema["enum"], "a list of at least one value")
    _check_texts(schema, whole, path)
    for key, each in _below(schema, path):
        _check(each, whole, key, depth + 1)


def _below(schema: Mapping[str, Any], path: str) -> Iterator[tuple[str, Any]]:
    """Yield the schemas in a schema, with their places."""
    for key in _ONE:
        if key in schema:
            yield f"{path}.{key}", schema[key]
    for key in _LISTED:
        listed = schema.get(key, [{}])
        if not isinstance(listed, list) or not listed:
            raise _wrong(f"{path}.{key}", listed, "a list of at least one schema")
        if key in schema:
            yield from ((f"{path}.{key}[{at}]", each) for at, each in enumerate(listed))
    for key in _NAMED:
        named = schema.get(key, {})
        if not isinstance(named, dict):
            raise _wrong(f"{path}.{key}", named, "an object of schemas")
        yield from ((f"{path}.{key}.{name}", each) for name, each in named.items())


def _check_texts(schema: Mapping[str, Any], whole: Any, path: str) -> None:
    required = schema.get("required", [])
    if not isinstance(required, list) or not all(isinstance(each, str) for each in required):
        raise _wrong(f"{path}.required", required, "a list of names")
    if "pattern" in schema:
        try:
            re.compile(schema["pattern"])
        except (re.error, TypeError, OverflowError):
            raise _wrong(f"{path}.pattern", schema["pattern"], "a regular expression") from None
    if "$ref" in schema and not _is_found(schema["$ref"], whole):
        raise _wrong(f"{path}.$ref", schema["$ref"], "a place in this schema, '#/$defs/NAME'")


def _is_found(reference: Any, whole: Any) -> bool:
    if not isinstance(reference, str) or not reference.startswith("#"):
        return False
    found = whole
    for part in reference.lstrip("#/").split("/") if reference != "#" else ():
        if not isinstance(found, dict) or part not in found:
            return False
        found = found[part]
    return True


def _wrong(path: str, given: Any, expected: str) -> InvalidArgumentError:
    return InvalidArgumentError(
        f"the JSON schema has {shorten(json.dumps(given), 80)} at {shorten(path)}, expected "
        f"{expected}"
    )
