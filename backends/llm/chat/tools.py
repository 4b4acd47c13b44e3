# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Calls of tools in the text of a model, for engines that do not find them themselves.

A tool that must be called is a JSON Schema that the answer keeps to. Whether one is called at all
is left to the model with ``auto``, in the form that it was trained on, which the model's parameter
``tool_parser`` names.
"""

import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Protocol

import msgspec

from backends.api.errors import InvalidArgumentError
from backends.api.quoting import quote_names, shorten
from backends.llm.chat.bodies import ChatBody
from backends.llm.chat.stop_strings import StopStrings

_HERMES_BEGIN: Final = "<tool_call>"
_HERMES_END: Final = "</tool_call>"

# Name and arguments, the latter as JSON text.
Call = tuple[str, str]


class Reader(Protocol):
    """Tells calls from text while one choice is generated."""

    def feed(self, piece: str) -> str:
        """Return the text that is certainly none of a call, now that a piece has come."""

    def end(self) -> tuple[str, list[Call]]:
        """Return the rest of the text, and the calls."""


class _Plain:
    def feed(self, piece: str) -> str:
        return piece

    def end(self) -> tuple[str, list[Call]]:
        return "", []


class _Held:
    """Holds the whole text and reads it when it has ended; what is no call is text.

    Args:
        read: Returns the calls that a whole text is; empty when it is none.
    """

    def __init__(self, read: Callable[[str], list[Call]]) -> None:
        self._pieces: list[str] = []
        self._read = read

    def feed(self, piece: str) -> str:
        self._pieces.append(piece)
        return ""

    def end(self) -> tuple[str, list[Call]]:
        text = "".join(self._pieces)
        calls = self._read(text)
        return ("" if calls else text), calls


class _Hermes:
    """Calls between tags, after whatever text comes before the first of them."""

    def __init__(self) -> None:
        self._before = StopStrings([_HERMES_BEGIN])
        self._pieces: list[str] = []

    def feed(self, piece: str) -> str:
        self._pieces.append(piece)
        return self._before.feed(piece)

    def end(self) -> tuple[str, list[Call]]:
        if not self._before.is_stopped:
            return self._before.end(), []
        text = "".join(self._pieces)
        _, *parts = text.split(_HERMES_BEGIN)
        calls = [call for part in parts for call in read_calls(part.partition(_HERMES_END)[0])]
        return ("" if calls else text[text.index(_HERMES_BEGIN) :]), calls


@dataclass(frozen=True, slots=True)
class ToolChoice:
    """What a body says about tools.

    Attributes:
        offered: The tools that the model is told of.
        schema: A JSON Schema that forces a call; empty when none is forced.
        reader: Makes what tells calls from text.
    """

    offered: tuple[Mapping[str, Any], ...] = ()
    schema: str = ""
    reader: Callable[[], Reader] = _Plain


PARSERS: Final[dict[str, Callable[[], Reader]]] = {
    "hermes": _Hermes,
    "json": lambda: _Held(read_calls),
}


def tool_choice(body: ChatBody, parser: str) -> ToolChoice:
    """Return what a body says about tools.

    Args:
        body: The body.
        parser: A key of `PARSERS`; empty when the model's config names none.

    Raises:
        InvalidArgumentError: A tool is no function with a name, or the choice is none, or is left
            to a model without a parser.
    """
    tools = {_name_of(tool, at): tool for at, tool in enumerate(body.tools or [])}
    given = body.tool_choice or ("auto" if tools else "none")
    if given == "none":
        return ToolChoice()
    if not tools:
        raise InvalidArgumentError(
            f"tool_choice is {_quoted(given)} and tools is empty: give the tools to choose from"
        )
    offered = tuple(tools.values())
    if given == "auto":
        if parser not in PARSERS:
            raise InvalidArgumentError(
                "tool_choice is 'auto', which needs the form in which the model writes calls: set "
                f"the model's parameter tool_parser to one of {quote_names(sorted(PARSERS))}, or "
                "tool_choice to 'required', to one function or to 'none'"
            )
        return ToolChoice(offered, "", PARSERS[parser])
    if given == "required":
        return ToolChoice(offered, _schema_of_any(tools), lambda: _Held(read_calls))
    name = _chosen(given, tools)
    return ToolChoice(
        offered,
        _text(_parameters(tools[name])),
        lambda: _Held(lambda text: [(name, text)] if _loaded(text) is not None else []),
    )


def read_calls(text: str) -> list[Call]:
    """Return the calls that a JSON object, or a list of some, is; empty when it is none.

    An object has the key ``name``, and its arguments under ``arguments`` or ``parameters``.
    """
    loaded = _loaded(text)
    found = []
    for each in loaded if isinstance(loaded, list) else [loaded]:
        if not isinstance(each, dict) or not isinstance(each.get("name"), str):
            return []
        arguments = each.get("arguments", each.get("parameters", {}))
        found.append((each["name"], arguments if isinstance(arguments, str) else _text(arguments)))
    return found


def call_objects(calls: Sequence[Call], *, is_chunk: bool) -> list[dict[str, Any]]:
    """Return calls as the OpenAI API tells them; in chunks they are numbered."""
    return [
        {
            **({"index": at} if is_chunk else {}),
            "id": f"call_{uuid.uuid4().hex[:24]}",
            "type": "function",
            "function": {"name": name, "arguments": arguments},
        }
        for at, (name, arguments) in enumerate(calls)
    ]


def _name_of(tool: Mapping[str, Any], at: int) -> str:
    function = tool.get("function")
    name = function.get("name") if isinstance(function, dict) else None
    if not isinstance(name, str) or not name:
        raise InvalidArgumentError(
            f"tools[{at}].function.name is missing or no string: expected "
            '{"type": "function", "function": {"name": ..., "parameters": ...}}'
        )
    return name


def _chosen(given: str | Mapping[str, Any], tools: Mapping[str, Any]) -> str:
    function = given.get("function") if isinstance(given, dict) else None
    name = function.get("name") if isinstance(function, dict) else None
    if not isinstance(name, str) or name not in tools:
        raise InvalidArgumentError(
            f"tool_choice is {_quoted(given)}, expected 'none', 'auto', 'required' or "
            '{"type": "function", "function": {"name": ...}} with one of '
            f"{quote_names(list(tools))}"
        )
    return name


def _schema_of_any(tools: Mapping[str, Mapping[str, Any]]) -> str:
    calls = [
        {
            "type": "object",
            "properties": {"name": {"const": name}, "arguments": _parameters(tool)},
            "required": ["name", "arguments"],
            "additionalProperties": False,
        }
        for name, tool in tools.items()
    ]
    items = calls[0] if len(calls) == 1 else {"anyOf": calls}
    return _text({"type": "array", "minItems": 1, "items": items})


def _parameters(tool: Mapping[str, Any]) -> Any:
    return tool["function"].get("parameters") or {"type": "object"}


def _loaded(text: str) -> Any:
    try:
        return msgspec.json.decode(text)
    except msgspec.DecodeError:
        return None


def _text(value: Any) -> str:
    return msgspec.json.encode(value).decode()


def _quoted(value: Any) -> str:
    return shorten(_text(value), 80)
