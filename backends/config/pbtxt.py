# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Reads and writes model configs: config.pbtxt text, Triton's JSON, and protobuf messages.

The protobuf classes are made at first use.

Triton: core/src/model_config_utils.cc ModelConfigToJson, JsonToModelConfig @73aad7c
"""

import difflib
import json
import re
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import orjson

from backends.api.errors import InternalError, InvalidArgumentError
from backends.api.model_config import ModelConfig
from backends.config.protocol_messages import CONFIG, messages_of
from backends.config.views import view

# The largest real configs (hundreds of warmup samples) stay below 1 MiB; parsing is slow Python.
MAX_CONFIG_BYTES = 16 << 20

# 64-bit fields that Triton renders as JSON numbers where protobuf writes strings; "*" stands for
# every element of a list or every value of a map. All others stay strings, as they do in Triton.
_NUMBER_PATHS = tuple(
    tuple(path.split("."))
    for path in (
        "input.*.dims",
        "input.*.reshape.shape",
        "output.*.dims",
        "output.*.reshape.shape",
        "version_policy.specific.versions",
        "dynamic_batching.max_queue_delay_microseconds",
        "dynamic_batching.priority_levels",
        "dynamic_batching.default_priority_level",
        "dynamic_batching.default_queue_policy.default_timeout_microseconds",
        "dynamic_batching.priority_queue_policy.*.default_timeout_microseconds",
        "sequence_batching.max_sequence_idle_microseconds",
        "sequence_batching.oldest.max_queue_delay_microseconds",
        "sequence_batching.direct.max_queue_delay_microseconds",
        "sequence_batching.state.*.dims",
        "ensemble_scheduling.step.*.model_version",
        "model_warmup.*.inputs.*.dims",
    )
)

_POSITION = re.compile(r"^\d+:\d+ : (?:'.*?': (?=[A-Z]))?")
_NO_FIELD = re.compile(r'Message type "inference\.([\w.]+)" has no field named "(\w+)"')
_NO_ENUM_VALUE = re.compile(r'Enum type "inference\.([\w.]+)" has no value named (\w+)')
_INVALID_ENUM = re.compile(
    r"Invalid enum value (\w+) for enum type inference\.([\w.]+?)(?: at|\.?$)"
)
# As NumPy, ONNX and C name types, in capitals.
_TYPES_ELSEWHERE = {
    "TYPE_FLOAT": "TYPE_FP32",
    "TYPE_FLOAT16": "TYPE_FP16",
    "TYPE_FLOAT32": "TYPE_FP32",
    "TYPE_FLOAT64": "TYPE_FP64",
    "TYPE_BFLOAT16": "TYPE_BF16",
    "TYPE_DOUBLE": "TYPE_FP64",
    "TYPE_HALF": "TYPE_FP16",
    "TYPE_INT": "TYPE_INT32",
    "TYPE_LONG": "TYPE_INT64",
    "TYPE_BYTES": "TYPE_STRING",
}


def _schema() -> Any:
    return messages_of(CONFIG)


def from_message(message: Any) -> ModelConfig:
    """Read an `inference.ModelConfig`, given as a message or serialised.

    Raises:
        InternalError: The bytes are no ModelConfig.
    """
    return view(_parse_wire(message) if isinstance(message, bytes) else message)


def to_message(config: ModelConfig) -> Any:
    """Return a new `inference.ModelConfig` message, which the caller may change."""
    return _parse_wire(config.message)


def edit(config: ModelConfig, change: Callable[[Any], None]) -> ModelConfig:
    """Return ``config`` after ``change`` was applied to a copy of its message."""
    message = to_message(config)
    change(message)
    return view(message)


def empty_config(name: str) -> ModelConfig:
    """Return the config of a model that has none: only its name is set."""
    return view(_schema().ModelConfig(name=name))


def parse_pbtxt(text: str, path: str) -> ModelConfig:
    """Parse protobuf text.

    Args:
        text: Content of a config.pbtxt.
        path: Where it comes from, for the error.

    Raises:
        InternalError: The text does not parse; the message names line, column and remedy.
    """
    from google.protobuf import text_format  # noqa: PLC0415 - as costly as the schema

    refusal = f"failed to read text proto from {path}"
    if len(text) > MAX_CONFIG_BYTES:
        raise InternalError(f"{refusal}: {len(text)} bytes, at most {MAX_CONFIG_BYTES} allowed")
    message = _schema().ModelConfig()
    try:
        text_format.Parse(text, message)
    except text_format.ParseError as error:
        raise InternalError(f"{refusal}: {_explain_text_error(error, text)}") from None
    except ValueError as error:
        # Of a number beyond 64 bits the parser gives no place.
        raise InternalError(f"{refusal}: {_shorten(str(error))}") from None
    return view(message)


def to_pbtxt(config: ModelConfig) -> str:
    """Render as protobuf text."""
    from google.protobuf import text_format  # noqa: PLC0415 - as costly as the schema

    return str(text_format.MessageToString(to_message(config)))


def from_json(text: str | bytes) -> ModelConfig:
    """Parse the JSON form of a config, as the load API takes it.

    Enum names are read in any case, field names in snake_case or lowerCamelCase.

    Raises:
        InvalidArgumentError: The text is no JSON, or no ModelConfig.
    """
    from google.protobuf import json_format  # noqa: PLC0415 - as costly as the schema

    if len(text) > MAX_CONFIG_BYTES:
        raise _invalid_override(f"{len(text)} bytes, at most {MAX_CONFIG_BYTES} allowed")
    message = _schema().ModelConfig()
    try:
        tree = json.loads(text)
        if not isinstance(tree, dict):
            raise _invalid_override(f"expected a JSON object, got {type(tree).__name__}")
        _upper_case_enums(tree, message.DESCRIPTOR)
        json_format.ParseDict(tree, message)
    except (json_format.ParseError, ValueError, RecursionError) as error:
        raise _invalid_override(_explain_json_error(str(error))) from None
    return view(message)


def to_json_dict(config: ModelConfig) -> dict[str, Any]:
    """Render as `GET /v2/models/<m>/config` does: defaults included, unset messages left out."""
    from google.protobuf import json_format  # noqa: PLC0415 - as costly as the schema

    message = to_message(config)
    tree = json_format.MessageToDict(
        message, preserving_proto_field_name=True, always_print_fields_with_no_presence=True
    )
    tree = _in_schema_order(tree, message.DESCRIPTOR)
    for path in _NUMBER_PATHS:
        for owner, key in _places(tree, path):
            value = owner[key]
            owner[key] = list(map(int, value)) if isinstance(value, list) else int(value)
    return tree


def to_json(config: ModelConfig) -> bytes:
    """Render `to_json_dict` as compact UTF-8 JSON."""
    return orjson.dumps(to_json_dict(config))


def _parse_wire(serialised: bytes) -> Any:
    from google.protobuf.message import DecodeError  # noqa: PLC0415 - as costly as the schema

    message = _schema().ModelConfig()
    try:
        message.ParseFromString(serialised)
    except DecodeError as error:
        raise InternalError(f"failed to parse serialised model configuration: {error}") from None
    return message


def _places(node: Any, path: tuple[str, ...]) -> Iterator[tuple[dict[str, Any], str]]:
    """Yield (owner, key) of every value in ``node`` that ``path`` reaches."""
    head, rest = path[0], path[1:]
    if head == "*":
        for child in node.values() if isinstance(node, dict) else node:
            yield from _places(child, rest)
    elif head in node:
        if rest:
            yield from _places(node[head], rest)
        else:
            yield node, head


def _in_schema_order(tree: dict[str, Any], descriptor: Any) -> dict[str, Any]:
    """Return ``tree`` with fields in the order the schema declares them, map keys sorted."""
    ordered = {}
    for field in descriptor.fields:
        if field.name in tree:
            value = tree[field.name]
            if field.message_type is None:
                ordered[field.name] = _shortest_number(value)
            elif _is_map(field):
                ordered[field.name] = {
                    key: _child_in_schema_order(value[key], field) for key in sorted(value)
                }
            elif isinstance(value, list):
                ordered[field.name] = [_child_in_schema_order(child, field) for child in value]
            else:
                ordered[field.name] = _child_in_schema_order(value, field)
    return ordered


def _child_in_schema_order(child: Any, field: Any) -> Any:
    return _in_schema_order(child, _value_type(field)) if isinstance(child, dict) else child


def _shortest_number(value: Any) -> Any:
    """Write whole floating-point numbers as integers, as protobuf's C++ printer does."""
    if isinstance(value, list):
        return [_shortest_number(item) for item in value]
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _upper_case_enums(tree: Any, descriptor: Any) -> None:
    """Upper-case the enum names in ``tree``, which is JSON of the message ``descriptor``."""
    if not isinstance(tree, dict):
        return
    for field in descriptor.fields:
        for key in {field.name, field.json_name} & tree.keys():
            value = tree[key]
            if field.enum_type is not None:
                if isinstance(value, str):
                    tree[key] = value.upper()
                elif isinstance(value, list):
                    tree[key] = [item.upper() if isinstance(item, str) else item for item in value]
            elif field.message_type is not None:
                for child in _message_values(value, field):
                    _upper_case_enums(child, _value_type(field))


def _is_map(field: Any) -> bool:
    return bool(field.message_type.GetOptions().map_entry)


def _value_type(field: Any) -> Any:
    """Return the descriptor of what a message field holds: of the value, when it is a map."""
    if not _is_map(field):
        return field.message_type
    value = field.message_type.fields_by_name["value"]
    return value.message_type or field.message_type


def _message_values(value: Any, field: Any) -> Iterable[Any]:
    if isinstance(value, list):
        return value
    if _is_map(field):
        return value.values() if isinstance(value, dict) else ()
    return (value,)


def _invalid_override(reason: str) -> InvalidArgumentError:
    return InvalidArgumentError(f"Invalid config override: {reason}")


def _explain_text_error(error: Any, text: str) -> str:
    line_number, column = error.GetLine(), error.GetColumn()
    reason = _with_suggestion(_POSITION.sub("", str(error)))
    lines = text.splitlines()
    if line_number is None or not 1 <= line_number <= len(lines):
        return reason
    line = lines[line_number - 1]
    pointed = f"{line[: column - 1]}>>>{line[column - 1 :]}".strip()
    return f"line {line_number}, column {column}, at '{_shorten(pointed)}': {reason}"


def _explain_json_error(reason: str) -> str:
    return _with_suggestion(reason.split("\n Available Fields", 1)[0].rstrip("."))


def _shorten(text: str, length: int = 160) -> str:
    """Keep the part of ``text`` around the pointer."""
    start = max(0, text.find(">>>") - length // 2)
    return text[start : start + length]


def _with_suggestion(reason: str) -> str:
    """Append the nearest field or enum value to a protobuf error that names an unknown one."""
    reason = reason.rstrip(".")
    for pattern, type_group, name_group in (
        (_NO_FIELD, 1, 2),
        (_NO_ENUM_VALUE, 1, 2),
        (_INVALID_ENUM, 2, 1),
    ):
        found = pattern.search(reason)
        if found:
            names = _names_in(found[type_group])
            # Most write types as other frameworks name them, which are near to none of these.
            written = _TYPES_ELSEWHERE.get(found[name_group], found[name_group])
            near = difflib.get_close_matches(written, names, n=1, cutoff=0.5)
            return f"{reason}, did you mean '{near[0]}'?" if near else reason
    return reason


def _names_in(type_name: str) -> list[str]:
    """Return the fields of a message type, or the values of an enum, of the schema."""
    first, *nested = type_name.split(".")
    schema = _schema().DESCRIPTOR
    found = schema.message_types_by_name.get(first) or schema.enum_types_by_name.get(first)
    for name in nested:
        if found is None:
            return []
        found = found.nested_types_by_name.get(name) or found.enum_types_by_name.get(name)
    if found is None:
        return []
    return list(getattr(found, "fields_by_name", None) or found.values_by_name)
