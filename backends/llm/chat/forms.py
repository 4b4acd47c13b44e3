# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""What the objects of chats and of completions look like."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from backends.llm.api import STOP
from backends.llm.chat.tools import Call, Reader, ToolChoice, call_objects

_TOOL_CALLS = "tool_calls"


@dataclass(slots=True)
class LogprobRows:
    """Texts of tokens and their logarithmic probabilities."""

    tokens: list[str] = field(default_factory=list)
    values: list[float] = field(default_factory=list)

    def extend(self, other: "LogprobRows") -> None:
        """Add those of the tokens that follow."""
        self.tokens += other.tokens
        self.values += other.values


@dataclass(frozen=True, slots=True)
class Part:
    """What a choice has gained, or all of it.

    Attributes:
        index: Number of the choice.
        text: Text that is none of a call.
        calls: Calls of tools; they come with the last part.
        finish_reason: Why the choice has ended; empty before.
        rows: The probabilities of its tokens; None unless they are asked for.
    """

    index: int
    text: str
    calls: Sequence[Call]
    finish_reason: str
    rows: LogprobRows | None

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to tell yet."""
        return not (self.text or self.finish_reason or (self.rows and self.rows.tokens))


class Form(Protocol):
    """The objects of one route."""

    id_prefix: str
    whole_object: str
    chunk_object: str

    def reader(self) -> Reader:
        """Return what tells calls of tools from text, for one choice."""

    def whole(self, part: Part) -> dict[str, Any]:
        """Return a choice that has ended."""

    def chunk(self, part: Part, *, is_first: bool) -> dict[str, Any] | None:
        """Return a choice of a chunk; None when there is nothing to tell."""


class ChatForm:
    """``chat.completion`` and ``chat.completion.chunk``.

    Args:
        choice: What the body says about tools.
    """

    id_prefix = "chatcmpl-"
    whole_object = "chat.completion"
    chunk_object = "chat.completion.chunk"

    def __init__(self, choice: ToolChoice) -> None:
        self._choice = choice

    def reader(self) -> Reader:
        """Return what tells calls of tools from text, for one choice."""
        return self._choice.reader()

    def whole(self, part: Part) -> dict[str, Any]:
        """Return a choice with its message."""
        message: dict[str, Any] = {"role": "assistant", "content": part.text, "refusal": None}
        if part.calls:
            message["content"] = part.text or None
            message[_TOOL_CALLS] = call_objects(part.calls, is_chunk=False)
        return _chat_choice(part, "message", message)

    def chunk(self, part: Part, *, is_first: bool) -> dict[str, Any] | None:
        """Return a choice with what its message gains; the first one has the role."""
        if part.is_empty and not is_first:
            return None
        delta: dict[str, Any] = {"role": "assistant", "content": part.text} if is_first else {}
        if part.text:
            delta["content"] = part.text
        if part.calls:
            delta[_TOOL_CALLS] = call_objects(part.calls, is_chunk=True)
        return _chat_choice(part, "delta", delta)


class CompletionForm:
    """``text_completion``, whole or as a chunk."""

    id_prefix = "cmpl-"
    whole_object = "text_completion"
    chunk_object = "text_completion"

    def reader(self) -> Reader:
        """Return a reader that finds no calls."""
        return ToolChoice().reader()

    def whole(self, part: Part) -> dict[str, Any]:
        """Return a choice with its text."""
        return {
            "index": part.index,
            "text": part.text,
            "logprobs": _completion_logprobs(part.rows),
            "finish_reason": part.finish_reason or None,
        }

    def chunk(self, part: Part, *, is_first: bool) -> dict[str, Any] | None:
        """Return a choice with the text that it gains."""
        del is_first
        return None if part.is_empty else self.whole(part)


def _chat_choice(part: Part, name: str, said: dict[str, Any]) -> dict[str, Any]:
    has_called = part.calls and part.finish_reason == STOP
    return {
        "index": part.index,
        name: said,
        "logprobs": _chat_logprobs(part.rows),
        "finish_reason": _TOOL_CALLS if has_called else part.finish_reason or None,
    }


def _chat_logprobs(rows: LogprobRows | None) -> dict[str, Any] | None:
    if rows is None:
        return None
    return {
        "content": [
            {
                "token": token,
                "logprob": value,
                "bytes": list(token.encode()),
                "top_logprobs": [],
            }
            for token, value in zip(rows.tokens, rows.values, strict=True)
        ],
        "refusal": None,
    }


def _completion_logprobs(rows: LogprobRows | None) -> dict[str, Any] | None:
    if rows is None:
        return None
    offsets, at = [], 0
    for token in rows.tokens:
        offsets.append(at)
        at += len(token)
    return {
        "tokens": rows.tokens,
        "token_logprobs": rows.values,
        "top_logprobs": None,
        "text_offset": offsets,
    }
