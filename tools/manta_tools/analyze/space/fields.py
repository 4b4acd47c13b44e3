# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Dotted fields of a model config: what they may be, and how they are set in its message.

``instance_group.count`` is that of every group, ``instance_group.1.count`` that of the second.
``parameters.NAME`` is a parameter's text. ``dynamic_batching`` with True is there, with nothing
said; with False it is not.
"""

import difflib
from collections.abc import Iterable, Sequence
from typing import Any, Final

from backends.api.errors import InvalidArgumentError
from manta_tools.analyze.records import Value

PARAMETERS: Final = "parameters."
_STRING_VALUE: Final = ".string_value"


def parameter_name(field: str) -> str:
    """Return the name of a parameter from its field; names may have points in them."""
    return field.removeprefix(PARAMETERS).removesuffix(_STRING_VALUE)


def descend(descriptor: Any, name: str, path: str) -> Any:
    """Return the field of a message's descriptor.

    Raises:
        InvalidArgumentError: It has none of that name; the message names the nearest.
    """
    found = descriptor.fields_by_name.get(name)
    if found is None:
        near = difflib.get_close_matches(name, descriptor.fields_by_name, n=1, cutoff=0.5)
        hint = f"; did you mean '{near[0]}'?" if near else ""
        raise InvalidArgumentError(
            f"a model config has no field '{path}', expected one of Triton's{hint}"
        )
    return found


def assign(message: Any, values: Iterable[tuple[str, Value]]) -> None:
    """Set fields of an `inference.ModelConfig` message.

    Raises:
        InvalidArgumentError: A field is unknown, or does not take its value.
    """
    replaced: set[str] = set()
    for field, value in values:
        if field.startswith(PARAMETERS):
            message.parameters[parameter_name(field)].string_value = _text(value)
            continue
        try:
            _assign(message, field.split("."), 0, value, replaced)
        except (TypeError, ValueError) as error:
            raise InvalidArgumentError(
                f"field '{field}' of model '{message.name}' got {value!r}: {error}"
            ) from None


def _assign(
    message: Any, path: Sequence[str], depth: int, value: Value, replaced: set[str]
) -> None:
    name, rest = path[depth], path[depth + 1 :]
    field = descend(message.DESCRIPTOR, name, ".".join(path[: depth + 1]))
    if field.is_repeated:
        _assign_repeated(message, path, depth, value, replaced)
    elif field.message_type is not None:
        if rest:
            child = getattr(message, name)
            child.SetInParent()
            _assign(child, path, depth + 1, value, replaced)
        elif value is True:
            getattr(message, name).SetInParent()
        elif value is False:
            message.ClearField(name)
        else:
            raise ValueError("expected true, false or fields of it")
    else:
        setattr(message, name, _scalar(field, value))


def _assign_repeated(
    message: Any, path: Sequence[str], depth: int, value: Value, replaced: set[str]
) -> None:
    name, rest = path[depth], path[depth + 1 :]
    rows = getattr(message, name)
    field = message.DESCRIPTOR.fields_by_name[name]
    is_indexed = bool(rest) and rest[0].isdigit()
    # Elements that are given by their number replace what there was.
    where = ".".join(path[: depth + 1])
    if is_indexed and where not in replaced:
        replaced.add(where)
        del rows[:]
    if field.message_type is None:
        if is_indexed:
            rows.append(_scalar(field, value))
            return
        raise ValueError("expected a list")
    if is_indexed:
        while len(rows) <= int(rest[0]):
            rows.add()
        _assign(rows[int(rest[0])], path, depth + 2, value, replaced)
        return
    if not rest:
        raise ValueError("expected a list of objects")
    if not rows:
        rows.add()
    for row in rows:
        _assign(row, path, depth + 1, value, replaced)


def _scalar(field: Any, value: Value) -> Any:
    if field.enum_type is not None:
        number = field.enum_type.values_by_name.get(str(value).upper())
        if number is None:
            raise ValueError(f"expected one of {', '.join(field.enum_type.values_by_name)}")
        return number.number
    if field.cpp_type == field.CPPTYPE_STRING:
        return str(value)
    is_integer = field.cpp_type not in (
        field.CPPTYPE_BOOL,
        field.CPPTYPE_FLOAT,
        field.CPPTYPE_DOUBLE,
    )
    return int(value) if is_integer and not isinstance(value, bool) else value


def _text(value: Value) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return f"{value:g}" if isinstance(value, float) else str(value)
