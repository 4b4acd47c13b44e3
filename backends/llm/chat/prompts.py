# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""What bodies of the OpenAI API ask of an engine."""

from dataclasses import dataclass
from typing import Any, Final

from backends.api.errors import InvalidArgumentError
from backends.llm.api import Capabilities, Engine, LlmRequest
from backends.llm.chat.bodies import ChatBody, CompletionBody, SamplingFields, required_text
from backends.llm.chat.tools import ToolChoice

# As OpenAI's.
_USUAL_COMPLETION_TOKENS: Final = 16
# Of a chat whose model does not say how long a text it can hold.
_MOST_TOKENS_OF_UNKNOWN_CONTEXT: Final = 4096


@dataclass(frozen=True, slots=True)
class Prompt:
    """A prompt in tokens, and as text where its answer repeats it.

    Attributes:
        token_ids: Its tokens.
        echo: The text to put before each answer.
    """

    token_ids: tuple[int, ...]
    echo: str = ""


def chat_request(engine: Engine, body: ChatBody, choice: ToolChoice) -> LlmRequest:
    """Return what a body of ``chat/completions`` asks for.

    Raises:
        InvalidArgumentError: A message or another field is wrong, or the prompt is too long.
    """
    body.refuse_unsupported()
    _check_logprobs(body)
    messages = [_message(message, f"messages[{at}]") for at, message in enumerate(body.messages)]
    text = engine.tokenizer.render(messages, choice.offered, body.chat_template_kwargs or {})
    token_ids = engine.tokenizer.encode(text, adds_special=False)
    return llm_request(
        body,
        Prompt(token_ids),
        engine.capabilities,
        most_tokens=body.max_completion_tokens or body.max_tokens,
        wants_logprobs=bool(body.logprobs),
        json_schema=choice.schema or body.schema_text(),
    )


def completion_requests(
    engine: Engine, body: CompletionBody
) -> tuple[list[Prompt], list[LlmRequest]]:
    """Return the prompts of a body of ``completions`` and what it asks for each.

    Raises:
        InvalidArgumentError: A field is wrong, or a prompt is empty or too long.
    """
    body.refuse_unsupported()
    if body.suffix:
        raise InvalidArgumentError("suffix is not supported by this engine: leave it out")
    if body.logprobs is not None and body.logprobs > 1:
        raise InvalidArgumentError(
            f"logprobs is {body.logprobs}, expected 0 or 1: this engine tells the probability of "
            "the chosen token only"
        )
    prompts = [_prompt(engine, given, body) for given in _prompts(body.prompt)]
    requests = [
        llm_request(
            body,
            prompt,
            engine.capabilities,
            most_tokens=body.max_tokens or _USUAL_COMPLETION_TOKENS,
            wants_logprobs=body.logprobs is not None,
            json_schema=body.schema_text(),
        )
        for prompt in prompts
    ]
    return prompts, requests


def llm_request(
    fields: SamplingFields,
    prompt: Prompt,
    capabilities: Capabilities,
    *,
    most_tokens: int | None,
    wants_logprobs: bool,
    json_schema: str = "",
) -> LlmRequest:
    """Return a request to an engine.

    Args:
        fields: What tells how tokens are chosen.
        prompt: The prompt.
        capabilities: The engine's.
        most_tokens: Tokens to generate at most; None for all that the context has room for.
        wants_logprobs: Whether tokens come with their probability.
        json_schema: What answers keep to; empty for any text.

    Raises:
        InvalidArgumentError: The prompt is empty, or with its answer too long for the model.
    """
    length, context = len(prompt.token_ids), capabilities.context_tokens
    if not length:
        raise InvalidArgumentError("the prompt is empty, expected at least one token of text")
    room = context - length if context else _MOST_TOKENS_OF_UNKNOWN_CONTEXT
    if room < (most_tokens or 1):
        asked = f" and max_tokens is {most_tokens}" if most_tokens else ""
        raise InvalidArgumentError(
            f"the prompt has {length} tokens{asked}, but the model's context length is "
            f"{context} tokens for both: shorten the prompt"
            + (" or lower max_tokens" if most_tokens else "")
            if context
            else f"max_tokens is {most_tokens}, expected at most {room}"
        )
    return LlmRequest(
        prompt=prompt.token_ids,
        most_tokens=most_tokens or room,
        least_tokens=fields.min_tokens or 0,
        choices=fields.n or 1,
        sampling=fields.sampling(),
        stop=fields.stops(),
        stop_token_ids=tuple(fields.stop_token_ids or ()),
        ignores_end=bool(fields.ignore_eos),
        wants_logprobs=wants_logprobs,
        json_schema=json_schema,
    )


def _check_logprobs(body: ChatBody) -> None:
    if body.top_logprobs and not body.logprobs:
        raise InvalidArgumentError(
            f"top_logprobs is {body.top_logprobs} and logprobs is not true, which it needs"
        )
    if body.top_logprobs:
        raise InvalidArgumentError(
            f"top_logprobs is {body.top_logprobs}, expected 0: this engine tells the probability "
            "of the chosen token only"
        )


def _message(message: dict[str, Any], path: str) -> dict[str, Any]:
    """Return a message as chat templates expect it: its content a string."""
    role = message.get("role")
    if not isinstance(role, str) or not role:
        raise InvalidArgumentError(
            f"{path}.role is missing or no string, expected 'system', 'user', 'assistant' or 'tool'"
        )
    return {**message, "content": required_text(message, path)}


def _prompts(given: str | list[Any]) -> list[Any]:
    """Return the prompts of the field: one text or list of token ids, or a list of such."""
    if isinstance(given, str):
        return [given]
    if not given:
        raise InvalidArgumentError("prompt is [], expected a string or at least one token id")
    return [given] if isinstance(given[0], int) else given


def _prompt(engine: Engine, given: Any, body: CompletionBody) -> Prompt:
    tokenizer = engine.tokenizer
    if isinstance(given, str):
        token_ids = tokenizer.encode(given, adds_special=True)
        return Prompt(token_ids, given if body.echo else "")
    is_ids = isinstance(given, list) and all(type(each) is int and each >= 0 for each in given)
    if not is_ids:
        raise InvalidArgumentError(
            "prompt holds what is neither a string nor a list of token ids; expected a string, a "
            "list of strings, a list of token ids or a list of such lists"
        )
    return Prompt(tuple(given), tokenizer.decode([given])[0] if body.echo else "")
