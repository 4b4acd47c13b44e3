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


class Form(Protocol):
    """The objects of one route."""

    id_prefix: str
    whole_object: str
    chunk_object: str

    def reader(self) -> Reader:
        """Return what tells calls of tools from text, for one choice."""

    def whole(
        self,
        index: int,
        text: str,
        calls: Sequence[Call],
        finish_reason: str,
        rows: LogprobRows | None,
    ) -> dict[str, Any]:
        """Return a choice that has ended."""

    def chunk(
        self,
        index: int,
        text: str,
        calls: Sequence[Call],
        finish_reason: str,
        rows: LogprobRows | None,
        *,
        is_first: bool,
    ) -> dict[str, Any] | None:
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

    def whole(
        self,
        index: int,
        text: str,
        calls: Sequence[Call],
        finish_reason: str,
        rows: LogprobRows | None,
    ) -> dict[str, Any]:
        """Return a choice with its message."""
        message: dict[str, Any] = {"role": "assistant", "content": text, "refusal": None}
        if calls:
            message["content"] = text or None
            message[_TOOL_CALLS] = call_objects(calls, is_chunk=False)
        return {
            "index": index,
            "message": message,
            "logprobs": _chat_logprobs(rows),
            "finish_reason": _reason(finish_reason, calls),
        }

    def chunk(
        self,
        index: int,
        text: str,
        calls: Sequence[Call],
        finish_reason: str,
        rows: LogprobRows | None,
        *,
        is_first: bool,
    ) -> dict[str, Any] | None:
        """Return a choice with what its message gains; the first one has the role."""
        if not (text or finish_reason or is_first or (rows and rows.tokens)):
            return None
        delta: dict[str, Any] = {"role": "assistant", "content": text} if is_first else {}
        if text:
            delta["content"] = text
        if calls:
            delta[_TOOL_CALLS] = call_objects(calls, is_chunk=True)
        return {
            "index": index,
            "delta": delta,
            "logprobs": _chat_logprobs(rows),
            "finish_reason": _reason(finish_reason, calls),
        }


class CompletionForm:
    """``text_completion``, whole or as a chunk."""

    id_prefix = "cmpl-"
    whole_object = "text_completion"
    chunk_object = "text_completion"

    def reader(self) -> Reader:
        """Return a reader that finds no calls."""
        return ToolChoice().reader()

    def whole(
        self,
        index: int,
        text: str,
        calls: Sequence[Call],
        finish_reason: str,
        rows: LogprobRows | None,
    ) -> dict[str, Any]:
        """Return a choice with its text."""
        del calls
        return {
            "index": index,
            "text": text,
            "logprobs": _completion_logprobs(rows),
            "finish_reason": finish_reason or None,
        }

    def chunk(
        self,
        index: int,
        text: str,
        calls: Sequence[Call],
        finish_reason: str,
        rows: LogprobRows | None,
        *,
        is_first: bool,
    ) -> dict[str, Any] | None:
        """Return a choice with the text that it gains."""
        del is_first
        if not (text or finish_reason or (rows and rows.tokens)):
            return None
        return self.whole(index, text, calls, finish_reason, rows)


def _reason(finish_reason: str, calls: Sequence[Call]) -> str | None:
    if calls and finish_reason == STOP:
        return _TOOL_CALLS
    return finish_reason or None


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
