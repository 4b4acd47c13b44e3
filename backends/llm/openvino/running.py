# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Requests that the engine computes: their handles, their text and their end."""

import logging
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
import openvino
from openvino_genai import GenerationFinishReason, GenerationStatus

from backends.api.errors import (
    InternalError,
    InvalidArgumentError,
    TritonError,
    UnavailableError,
)
from backends.llm.api import LENGTH, STOP, Delta, LlmRequest, Sink, Usage
from backends.llm.chat.stop_strings import StopStrings
from backends.llm.openvino.failure import FAILURES, said
from backends.llm.openvino.generation import generation_config
from backends.llm.openvino.schemas import check_schema
from backends.llm.openvino.text import Decode, GrowingText, grown_texts

logger = logging.getLogger(__name__)

_REASONS: Final = {GenerationFinishReason.LENGTH: LENGTH}


@dataclass(slots=True)
class Choice:
    """One answer to a prompt while it is generated.

    Attributes:
        handle: The pipeline's.
        stops: Its stop strings.
        text: Its text.
        new_ids: Tokens that the last step has brought.
        new_logprobs: Of each of those.
        finish_reason: Set with the last of them.
        token_count: Tokens so far.
        has_ended: Whether its last delta has gone out.
    """

    handle: Any
    stops: StopStrings
    text: GrowingText = field(default_factory=GrowingText)
    new_ids: list[int] = field(default_factory=list)
    new_logprobs: list[float] = field(default_factory=list)
    finish_reason: str = ""
    token_count: int = 0
    has_ended: bool = False


@dataclass(slots=True)
class Running:
    """A request with its choices."""

    request: LlmRequest
    sink: Sink
    choices: list[Choice]

    @property
    def is_in_doubt(self) -> bool:
        """Whether it has a schema of which no grammar was made yet."""
        return bool(self.request.json_schema) and not any(
            choice.token_count for choice in self.choices
        )

    def cancel(self) -> None:
        """Have the pipeline free what it computes of it, with its next step."""
        for choice in self.choices:
            if not choice.has_ended:
                choice.handle.cancel()

    def fail(self, error: TritonError) -> None:
        """Tell the sink, which may have been told already."""
        try:
            self.sink.fail(error)
        except TritonError as refused:
            logger.warning("a request could not be failed: %s", refused.message)


def begin(
    pipeline: Any, request: LlmRequest, sink: Sink, numbers: Iterator[int], model: str
) -> Running:
    """Hand a request to the pipeline, each of its choices as a request of its own.

    The choices share the prompt's keys and values as all requests with one beginning do.

    Raises:
        InvalidArgumentError: The pipeline refuses it.
    """
    if request.json_schema:
        check_schema(request.json_schema)
    prompt = openvino.Tensor(np.array([request.prompt], dtype=np.int64))
    running = Running(request, sink, [])
    try:
        for at in range(request.choices):
            config = generation_config(pipeline.get_config(), request, at)
            handle = pipeline.add_request(next(numbers), prompt, config)
            running.choices.append(Choice(handle, StopStrings(request.stop)))
    except FAILURES as error:
        running.cancel()
        raise InvalidArgumentError(
            f"the engine of model '{model}' refuses the request: {said(error)}"
        ) from error
    return running


def deliver(entries: Sequence[tuple[int, Running]], decode: Decode, model: str) -> list[int]:
    """Give to sinks what a step has brought, decoded for all of them in one call.

    Returns:
        Numbers of the requests that have ended.
    """
    ended, gained = [], []
    for number, running in entries:
        try:
            for choice in running.choices:
                _read(choice, running.request, model)
        except TritonError as error:
            running.fail(error)
            ended.append(number)
            continue
        gained += [
            choice
            for choice in running.choices
            if not choice.has_ended and (choice.new_ids or choice.finish_reason)
        ]
    texts = grown_texts([(each.text, bool(each.finish_reason)) for each in gained], decode)
    new_text = dict(zip(map(id, gained), texts, strict=True))
    for number, running in entries:
        if number in ended:
            continue
        try:
            if _tell(running, new_text):
                ended.append(number)
        # Whatever a sink does must not end the engine.
        except Exception as error:
            logger.exception("model '%s' could not deliver what it has generated", model)
            running.fail(InternalError(f"model '{model}' could not deliver its text: {error}"))
            ended.append(number)
    return ended


def _read(choice: Choice, request: LlmRequest, model: str) -> None:
    """Take what a step has brought a choice.

    Raises:
        UnavailableError: There is no memory to go on.
    """
    if choice.has_ended:
        return
    handle = choice.handle
    while handle.can_read():
        for output in handle.read().values():
            choice.new_ids += output.generated_ids
            choice.new_logprobs += output.generated_log_probs
            if output.finish_reason != GenerationFinishReason.NONE:
                choice.finish_reason = _REASONS.get(output.finish_reason, STOP)
    status = handle.get_status()
    if status == GenerationStatus.IGNORED:
        raise UnavailableError(
            f"model '{model}' has no room in its KV cache to go on with a request of "
            f"{len(request.prompt)} tokens and {choice.token_count} generated: raise its parameter "
            "cache_size, or send fewer requests at a time"
        )
    if status == GenerationStatus.FINISHED and not choice.finish_reason:
        choice.finish_reason = LENGTH if choice.token_count >= request.most_tokens else STOP
    ids = choice.new_ids
    choice.token_count += len(ids)
    ends_with_stop = choice.finish_reason == STOP and ids and ids[-1] in request.stop_token_ids
    choice.text.window += ids[:-1] if ends_with_stop else ids


def _tell(running: Running, new_text: dict[int, str]) -> bool:
    """Give a sink the deltas of a step; return whether those were the last."""
    deltas = []
    for at, choice in enumerate(running.choices):
        if id(choice) in new_text:
            deltas.append(_delta(at, choice, running.request, new_text[id(choice)]))
    if not deltas:
        return False
    has_ended = all(choice.has_ended for choice in running.choices)
    usage = None
    if has_ended:
        count = sum(choice.token_count for choice in running.choices)
        usage = Usage(len(running.request.prompt), count)
    running.sink.deliver(deltas, usage)
    return has_ended


def _delta(at: int, choice: Choice, request: LlmRequest, text: str) -> Delta:
    """Return what a choice has gained, up to a stop string if there is one."""
    reason = choice.finish_reason
    told = choice.stops.feed(text)
    if choice.stops.is_stopped:
        if not reason:
            choice.handle.cancel()
        reason = STOP
    elif reason:
        told += choice.stops.end()
    choice.has_ended = bool(reason)
    logprobs = tuple(choice.new_logprobs) if request.wants_logprobs else ()
    delta = Delta(at, told, tuple(choice.new_ids), logprobs, reason)
    choice.new_ids, choice.new_logprobs = [], []
    return delta
