# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Answers of the OpenAI API, whole or in chunks, made of what an engine generates."""

import time
import uuid
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

from backends.api.errors import TritonError
from backends.llm.api import Delta, Sink, Tokenizer, Usage
from backends.llm.chat.forms import Form, LogprobRows, Part
from backends.llm.chat.tools import Call, Reader


class Reply(Protocol):
    """Where the objects of an answer go."""

    @property
    def is_cancelled(self) -> bool:
        """Whether nobody waits for it any more."""

    def send(self, answer: dict[str, Any], usage: Usage | None) -> None:
        """Send an object; ``usage`` comes with the last one."""

    def fail(self, error: TritonError) -> None:
        """End the answer with an error."""


@dataclass(slots=True)
class _Choice:
    """What one choice has come to."""

    reader: Reader
    texts: list[str] = field(default_factory=list)
    logprobs: LogprobRows = field(default_factory=LogprobRows)
    calls: list[Call] = field(default_factory=list)
    finish_reason: str = ""
    is_begun: bool = False


class Answer:
    """What the answers of one body have in common; see `StreamedAnswer` and `WholeAnswer`.

    Args:
        form: Objects of chats or of completions.
        model: The model as the body names it.
        reply: Where they go.
        tokenizer: For the texts of single tokens; None unless probabilities are asked for.
        echoes: For each prompt the text that its answers begin with.
        choices: Answers to each prompt.
    """

    def __init__(
        self,
        form: Form,
        model: str,
        reply: Reply,
        tokenizer: Tokenizer | None,
        echoes: Sequence[str],
        choices: int,
    ) -> None:
        self._form = form
        self._head = {
            "id": f"{form.id_prefix}{uuid.uuid4().hex}",
            "created": int(time.time()),
            "model": model,
        }
        self._reply = reply
        self._tokenizer = tokenizer
        self._echoes = [echo for echo in echoes for _ in range(choices)]
        self._choices = [_Choice(form.reader()) for _ in self._echoes]
        self._open = len(echoes)
        self._usage = Usage(0, 0)
        self._failed = False

    def parts(self) -> list[Sink]:
        """Return a sink for each prompt."""
        count = len(self._choices) // self._open
        return [_PromptSink(self, at * count) for at in range(self._open)]

    @property
    def is_cancelled(self) -> bool:
        """Whether nobody waits for it any more, or one of its prompts has failed."""
        return self._failed or self._reply.is_cancelled

    def deliver(self, deltas: Sequence[Delta], usage: Usage | None) -> None:
        """Take what a step has brought to one prompt, with its indexes over all prompts."""
        if self._failed:
            return
        if usage is not None:
            self._open -= 1
            self._usage = _sum(self._usage, usage)
        total = None if self._open else self._usage
        self._take([(each, self._rows(each)) for each in deltas], total)

    def fail(self, error: TritonError) -> None:
        """End the answer with the first error of a prompt."""
        if not self._failed:
            self._failed = True
            self._reply.fail(error)

    def _rows(self, delta: Delta) -> LogprobRows:
        """Return the probabilities of a delta's tokens, if they are asked for."""
        if self._tokenizer is None or not delta.token_ids:
            return LogprobRows()
        ids = [[each] for each in delta.token_ids]
        return LogprobRows(self._tokenizer.decode(ids, keeps_special=True), list(delta.logprobs))

    def _read(self, delta: Delta) -> tuple[str, list[Call]]:
        """Return the text of a delta that is none of a call, and with the last one the calls."""
        reader = self._choices[delta.index].reader
        text = reader.feed(delta.text)
        if not delta.finish_reason:
            return text, []
        rest, calls = reader.end()
        return text + rest, calls

    def _take(self, deltas: list[tuple[Delta, LogprobRows]], usage: Usage | None) -> None:
        raise NotImplementedError


class _PromptSink:
    """One prompt of an answer, as an engine sees it."""

    __slots__ = ("_answer", "_offset")

    def __init__(self, answer: Answer, offset: int) -> None:
        self._answer = answer
        self._offset = offset

    @property
    def is_cancelled(self) -> bool:
        return self._answer.is_cancelled

    def deliver(self, deltas: Sequence[Delta], usage: Usage | None) -> None:
        if self._offset:
            deltas = [replace(each, index=each.index + self._offset) for each in deltas]
        self._answer.deliver(deltas, usage)

    def fail(self, error: TritonError) -> None:
        self._answer.fail(error)


class WholeAnswer(Answer):
    """One object with all of the answer."""

    def _take(self, deltas: list[tuple[Delta, LogprobRows]], usage: Usage | None) -> None:
        for delta, rows in deltas:
            choice = self._choices[delta.index]
            text, choice.calls = self._read(delta)
            choice.texts.append(text)
            choice.logprobs.extend(rows)
            choice.finish_reason = delta.finish_reason
        if usage is None:
            return
        made = [
            self._form.whole(
                Part(
                    at,
                    echo + "".join(choice.texts),
                    choice.calls,
                    choice.finish_reason,
                    None if self._tokenizer is None else choice.logprobs,
                )
            )
            for at, (choice, echo) in enumerate(zip(self._choices, self._echoes, strict=True))
        ]
        answer = {
            **self._head,
            "object": self._form.whole_object,
            "choices": made,
            "usage": usage_object(usage),
        }
        self._reply.send(answer, usage)


class StreamedAnswer(Answer):
    """A chunk for each step that brings a choice something.

    Args:
        has_usage_chunk: Whether a last chunk, without choices, tells the usage.
        rest: As of `Answer`.
    """

    def __init__(self, *rest: Any, has_usage_chunk: bool) -> None:
        super().__init__(*rest)
        self._has_usage_chunk = has_usage_chunk

    def _take(self, deltas: list[tuple[Delta, LogprobRows]], usage: Usage | None) -> None:
        chunks = [made for delta, rows in deltas if (made := self._chunk(delta, rows)) is not None]
        if usage is not None and self._has_usage_chunk:
            chunks.append(self._object([], usage_object(usage)))
        for chunk in chunks[:-1]:
            self._reply.send(chunk, None)
        if chunks:
            self._reply.send(chunks[-1], usage)

    def _chunk(self, delta: Delta, rows: LogprobRows) -> dict[str, Any] | None:
        choice = self._choices[delta.index]
        text, calls = self._read(delta)
        part = Part(
            delta.index,
            text if choice.is_begun else self._echoes[delta.index] + text,
            calls,
            delta.finish_reason,
            None if self._tokenizer is None else rows,
        )
        made = self._form.chunk(part, is_first=not choice.is_begun)
        if made is None:
            return None
        choice.is_begun = True
        return self._object([made], None)

    def _object(
        self, choices: list[dict[str, Any]], usage: dict[str, Any] | None
    ) -> dict[str, Any]:
        made: dict[str, Any] = {
            **self._head,
            "object": self._form.chunk_object,
            "choices": choices,
        }
        if self._has_usage_chunk:
            made["usage"] = usage
        return made


def usage_object(usage: Usage) -> dict[str, Any]:
    """Return a usage as the OpenAI API tells it."""
    made: dict[str, Any] = {
        "prompt_tokens": usage.prompt_tokens,
        "completion_tokens": usage.completion_tokens,
        "total_tokens": usage.prompt_tokens + usage.completion_tokens,
    }
    if usage.cached_tokens:
        made["prompt_tokens_details"] = {"cached_tokens": usage.cached_tokens}
    return made


def _sum(one: Usage, other: Usage) -> Usage:
    return Usage(
        one.prompt_tokens + other.prompt_tokens,
        one.completion_tokens + other.completion_tokens,
        one.cached_tokens + other.cached_tokens,
    )
