# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""An engine of language models that generates what a test says, one character a token."""

from collections.abc import Mapping, Sequence
from typing import Any

from backends.llm.api import (
    LENGTH,
    STOP,
    Capabilities,
    Delta,
    Engine,
    EngineLoad,
    LlmRequest,
    Sink,
    Usage,
)


class CharacterTokenizer:
    """A token is a character."""

    def encode(self, text: str, *, adds_special: bool) -> tuple[int, ...]:
        return (*([0] if adds_special else []), *map(ord, text))

    def decode(self, rows: Sequence[Sequence[int]], *, keeps_special: bool = False) -> list[str]:
        del keeps_special
        return ["".join(chr(each) for each in row if each) for row in rows]

    def render(
        self,
        messages: Sequence[Mapping[str, Any]],
        tools: Sequence[Mapping[str, Any]],
        extra: Mapping[str, Any],
    ) -> str:
        named = "".join(f"[{tool['function']['name']}]" for tool in tools)
        spoken = "".join(f"{each['role']}:{each['content']};" for each in messages)
        return f"{named}{extra.get('before', '')}{spoken}"


class ScriptedEngine(Engine):
    """Answers each request at once.

    Args:
        texts: What is generated, for each choice in turn.
        piece: Tokens of a delta.
        context_tokens: As the engine tells.

    Attributes:
        requests: What was submitted.
    """

    def __init__(self, *texts: str, piece: int = 3, context_tokens: int = 100) -> None:
        self._texts = texts
        self._piece = piece
        self._capabilities = Capabilities(("chat/completions", "completions"), 4, context_tokens)
        self._tokenizer = CharacterTokenizer()
        self.requests: list[LlmRequest] = []

    @property
    def capabilities(self) -> Capabilities:
        return self._capabilities

    @property
    def tokenizer(self) -> CharacterTokenizer:
        return self._tokenizer

    def submit(self, request: LlmRequest, sink: Sink) -> None:
        self.requests.append(request)
        made = [self._texts[at % len(self._texts)] for at in range(request.choices)]
        cut = [text[: request.most_tokens] for text in made]
        ends = [STOP if text == whole else LENGTH for text, whole in zip(cut, made, strict=True)]
        for begin in range(0, max(map(len, cut)), self._piece):
            deltas = []
            for at, text in enumerate(cut):
                piece = text[begin : begin + self._piece]
                if piece:
                    is_last = begin + self._piece >= len(text)
                    ids = tuple(map(ord, piece))
                    logprobs = (-0.5,) * len(ids) if request.wants_logprobs else ()
                    deltas.append(Delta(at, piece, ids, logprobs, ends[at] if is_last else ""))
            has_ended = begin + self._piece >= max(map(len, cut))
            usage = Usage(len(request.prompt), sum(map(len, cut)), 2) if has_ended else None
            sink.deliver(deltas, usage)

    def metrics(self) -> EngineLoad:
        return EngineLoad(0, 0, 0.0)

    def close(self) -> None:
        pass


class RecordingReply:
    """Keeps the objects of an answer."""

    def __init__(self) -> None:
        self.is_cancelled = False
        self.sent: list[dict[str, Any]] = []
        self.usage: Usage | None = None
        self.error: Exception | None = None

    def send(self, answer: dict[str, Any], usage: Usage | None) -> None:
        assert self.usage is None
        self.sent.append(answer)
        self.usage = usage

    def fail(self, error: Exception) -> None:
        assert self.usage is None
        self.error = error
