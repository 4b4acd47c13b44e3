# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Objects made of the texts that a model gives: each text is a piece of the one answer.

How many tokens there were the server cannot know. A model may say so with the response parameters
``prompt_tokens``, ``completion_tokens`` and ``cached_tokens``, and with ``finish_reason`` why it
ended; of one that does not, the answer has no usage and the reason ``stop``.
"""

import codecs
from dataclasses import dataclass
from typing import Any, Final

import orjson

from backends.api.bytes_tensor import deserialize_bytes
from backends.api.errors import InternalError
from backends.api.request import InferenceResponse, ParameterValue
from deployments.http.openai.text import CHAT, COMPLETIONS

_OUTPUT: Final = "text_output"
_FINISH: Final = "finish_reason"


@dataclass(frozen=True, slots=True)
class Kind:
    """What a route's objects are called.

    Attributes:
        prefix: Of their ids.
        whole: A whole answer.
        chunk: A piece of one.
        is_chat: Whether text is a message's.
    """

    prefix: str
    whole: str
    chunk: str
    is_chat: bool


KINDS: Final[dict[str, Kind]] = {
    CHAT: Kind("chatcmpl", "chat.completion", "chat.completion.chunk", is_chat=True),
    COMPLETIONS: Kind("cmpl", "text_completion", "text_completion", is_chat=False),
}


class Told:
    """What response parameters have told of an answer.

    Attributes:
        finish: Why it ended.
    """

    __slots__ = ("_counts", "finish")

    def __init__(self) -> None:
        self.finish = "stop"
        self._counts: dict[str, int] = {}

    def take(self, parameters: dict[str, ParameterValue]) -> None:
        """Note what a response tells; the last word counts."""
        for name in ("prompt_tokens", "completion_tokens", "cached_tokens"):
            count = parameters.get(name)
            if isinstance(count, int):
                self._counts[name] = count
        finish = parameters.get(_FINISH)
        if isinstance(finish, str) and finish:
            self.finish = finish

    def usage(self) -> dict[str, Any] | None:
        """Return OpenAI's usage; None where nothing was told."""
        if not self._counts:
            return None
        prompt = self._counts.get("prompt_tokens", 0)
        completion = self._counts.get("completion_tokens", 0)
        usage: dict[str, Any] = {
            "prompt_tokens": prompt,
            "completion_tokens": completion,
            "total_tokens": prompt + completion,
        }
        if "cached_tokens" in self._counts:
            usage["prompt_tokens_details"] = {"cached_tokens": self._counts["cached_tokens"]}
        return usage


class _Text:
    """What both kinds of answers share.

    Args:
        kind: What the objects are called.
        answer_id: Of the answer, without its prefix.
        created: When it was asked for, in seconds.
        model: The model, as the client calls it.
    """

    def __init__(self, kind: Kind, answer_id: str, created: int, model: str) -> None:
        self._kind = kind
        self._head = {"id": f"{kind.prefix}-{answer_id}", "created": created, "model": model}
        self._told = Told()
        # A character may begin in one piece and end in the next.
        self._characters = codecs.getincrementaldecoder("utf-8")("replace")

    def _read(self, response: InferenceResponse) -> str:
        self._told.take(response.parameters)
        if not response.outputs:
            return ""
        for output in response.outputs:
            if output.name == _OUTPUT and output.datatype == "BYTES":
                return self._characters.decode(b"".join(deserialize_bytes(output.data)))
        given = ", ".join(f"'{each.name}' {each.datatype}" for each in response.outputs)
        raise InternalError(
            f"model '{response.model_name}' answered with {given}; expected output '{_OUTPUT}'"
            " BYTES, as its config's parameter openai.schema 'text' says"
        )

    def _rest(self) -> str:
        return self._characters.decode(b"", final=True)


class WholeText(_Text):
    """One object with the whole text."""

    def __init__(self, kind: Kind, answer_id: str, created: int, model: str) -> None:
        super().__init__(kind, answer_id, created, model)
        self._pieces: list[str] = []

    def take(self, response: InferenceResponse) -> list[bytes]:
        """Keep a piece.

        Raises:
            InternalError: There is no text.
        """
        self._pieces.append(self._read(response))
        return []

    def end(self) -> list[bytes]:
        """Return the object."""
        text = "".join([*self._pieces, self._rest()])
        body = {"role": "assistant", "content": text}
        said: dict[str, Any] = {"message": body} if self._kind.is_chat else {"text": text}
        choice = {"index": 0, **said, "logprobs": None, "finish_reason": self._told.finish}
        document = {**self._head, "object": self._kind.whole, "choices": [choice]}
        usage = self._told.usage()
        if usage is not None:
            document["usage"] = usage
        return [orjson.dumps(document)]


class TextChunks(_Text):
    """A chunk for each piece of text, one that says why it ended, and perhaps the usage.

    Args:
        kind: What the objects are called.
        answer_id: Of the answer, without its prefix.
        created: When it was asked for, in seconds.
        model: The model, as the client calls it.
        wants_usage: Whether the usage shall come last.
    """

    def __init__(
        self, kind: Kind, answer_id: str, created: int, model: str, *, wants_usage: bool
    ) -> None:
        super().__init__(kind, answer_id, created, model)
        self._wants_usage = wants_usage
        self._has_begun = False

    def take(self, response: InferenceResponse) -> list[bytes]:
        """Return the chunks of a piece.

        Raises:
            InternalError: There is no text.
        """
        text = self._read(response)
        return [*self._begin(), self._chunk(text)] if text else self._begin()

    def end(self) -> list[bytes]:
        """Return the last chunks."""
        rest = self._rest()
        chunks = [*self._begin(), *([self._chunk(rest)] if rest else [])]
        chunks.append(self._chunk("", self._told.finish))
        usage = self._told.usage() if self._wants_usage else None
        if usage is not None:
            chunks.append(self._object(choices=[], usage=usage))
        return chunks

    def _begin(self) -> list[bytes]:
        """Return the chunk that says who speaks, the first time."""
        if self._has_begun or not self._kind.is_chat:
            return []
        self._has_begun = True
        return [self._choice({"delta": {"role": "assistant", "content": ""}}, None)]

    def _chunk(self, text: str, finish: str | None = None) -> bytes:
        if not self._kind.is_chat:
            return self._choice({"text": text}, finish)
        return self._choice({"delta": {"content": text} if text else {}}, finish)

    def _choice(self, said: dict[str, Any], finish: str | None) -> bytes:
        choice = {"index": 0, **said, "logprobs": None, "finish_reason": finish}
        return self._object(choices=[choice])

    def _object(self, **rest: Any) -> bytes:
        return orjson.dumps({**self._head, "object": self._kind.chunk, **rest})
