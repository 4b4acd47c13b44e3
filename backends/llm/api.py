# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""The contract between the backend `llm` and an engine.

An engine holds one model and runs many requests at a time on a thread of its own. It takes a
prompt as token ids and gives text as it comes; what surrounds that (tensors, OpenAI bodies) is
written once, over this contract.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from backends.api.errors import TritonError

STOP = "stop"
LENGTH = "length"


@dataclass(frozen=True, slots=True)
class Capabilities:
    """What an engine can do with its model.

    Attributes:
        routes: Routes of the OpenAI API that it answers, as clients write them after ``/v1/``.
        slots: Requests that it computes at once; more of them wait.
        context_tokens: Tokens that prompt and answer may have together; 0 when nobody says.
    """

    routes: tuple[str, ...]
    slots: int
    context_tokens: int = 0


@dataclass(frozen=True, slots=True)
class Sampling:
    """How the next token is chosen.

    Attributes:
        temperature: 0 always takes the likeliest token.
        top_p: The likeliest tokens that together reach it are chosen from.
        top_k: So many of the likeliest tokens are chosen from; 0 for all.
        min_p: The least probability, as a share of the likeliest token's.
        seed: Of the random numbers; None for a seed that nobody knows.
        presence_penalty: What a token loses that was generated before.
        frequency_penalty: What it loses for each time it was.
        repetition_penalty: What its score is divided by; 1 changes nothing.
    """

    temperature: float = 1.0
    top_p: float = 1.0
    top_k: int = 0
    min_p: float = 0.0
    seed: int | None = None
    presence_penalty: float = 0.0
    frequency_penalty: float = 0.0
    repetition_penalty: float = 1.0


@dataclass(frozen=True, slots=True)
class LlmRequest:
    """One prompt and what shall become of it.

    Attributes:
        prompt: Token ids; never empty.
        most_tokens: Tokens to generate at most, for each choice; at least 1.
        least_tokens: Tokens before which the end of the text cannot be chosen.
        choices: How many answers are generated, each with its own random numbers.
        sampling: How tokens are chosen.
        stop: Texts that end an answer and are not part of it.
        stop_token_ids: Tokens that do.
        ignores_end: Whether the model's own end of the text is a token as any other.
        wants_logprobs: Whether each token comes with its logarithmic probability.
        json_schema: A JSON Schema, as text, that the answer keeps to; empty for any text.
    """

    prompt: tuple[int, ...]
    most_tokens: int
    least_tokens: int = 0
    choices: int = 1
    sampling: Sampling = Sampling()
    stop: tuple[str, ...] = ()
    stop_token_ids: tuple[int, ...] = ()
    ignores_end: bool = False
    wants_logprobs: bool = False
    json_schema: str = ""


@dataclass(frozen=True, slots=True)
class Usage:
    """What a request has cost, in tokens.

    Attributes:
        prompt_tokens: Of the prompt.
        completion_tokens: Generated, over all choices, the one that ended the text included.
        cached_tokens: Of the prompt, those that were not computed again; 0 where an engine does not
            tell.
    """

    prompt_tokens: int
    completion_tokens: int
    cached_tokens: int = 0


@dataclass(frozen=True, slots=True)
class Delta:
    """What one choice has gained.

    Attributes:
        index: Number of the choice, from 0.
        text: Text that is certain by now; may be empty.
        token_ids: Tokens since the last delta, which may be ahead of the text.
        logprobs: Of each of those tokens; empty unless asked for.
        finish_reason: ``stop`` or ``length`` with the last delta of a choice, else empty.
    """

    index: int
    text: str
    token_ids: tuple[int, ...] = ()
    logprobs: tuple[float, ...] = ()
    finish_reason: str = ""


class Sink(Protocol):
    """Takes what an engine generates for one request; called on the engine's thread.

    `deliver` with a usage, or `fail`, is the last call; one of them always comes.
    """

    @property
    def is_cancelled(self) -> bool:
        """Whether nobody waits any more; looked at before each step, and the request failed."""

    def deliver(self, deltas: Sequence[Delta], usage: Usage | None) -> None:
        """Take what a step has brought; ``usage`` comes with the last of all choices."""

    def fail(self, error: TritonError) -> None:
        """Take the error that ends the request."""


class Tokenizer(Protocol):
    """Text to tokens and back; from any thread."""

    def encode(self, text: str, *, adds_special: bool) -> tuple[int, ...]:
        """Return the token ids of a text.

        Args:
            text: The text.
            adds_special: Whether the tokens are added that begin a text; a chat template has
                written them itself.
        """

    def decode(self, rows: Sequence[Sequence[int]], *, keeps_special: bool = False) -> list[str]:
        """Return the texts of lists of token ids, in one call."""

    def render(
        self,
        messages: Sequence[Mapping[str, Any]],
        tools: Sequence[Mapping[str, Any]],
        extra: Mapping[str, Any],
    ) -> str:
        """Return the prompt that the model's chat template makes of messages.

        Raises:
            InvalidArgumentError: The template refuses them.
        """


@dataclass(frozen=True, slots=True)
class EngineLoad:
    """How busy an engine is.

    Attributes:
        running: Requests that it computes.
        waiting: Requests beyond its slots.
        kv_cache_usage: Part of the cache of keys and values in use, 0 to 1.
    """

    running: int
    waiting: int
    kv_cache_usage: float


class Engine(ABC):
    """One language model, loaded."""

    @property
    @abstractmethod
    def capabilities(self) -> Capabilities:
        """What it can do."""

    @property
    @abstractmethod
    def tokenizer(self) -> Tokenizer:
        """Its tokenizer."""

    @abstractmethod
    def submit(self, request: LlmRequest, sink: Sink) -> None:
        """Have a request answered; from any thread, at once.

        What the engine refuses later the sink is told.

        Raises:
            UnavailableError: The engine is closed.
        """

    @abstractmethod
    def metrics(self) -> EngineLoad:
        """Return how busy it is; from any thread."""

    @property
    def is_healthy(self) -> bool:
        """Whether it can take steps."""
        return True

    @abstractmethod
    def close(self) -> None:
        """Fail what is not answered and free the model."""
