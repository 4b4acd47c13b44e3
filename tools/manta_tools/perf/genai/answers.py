# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""What came back: kept while a run measures, read once it is over.

Triton: perf_analyzer/genai-perf/genai_perf/profile_data_parser/llm_profile_data_parser.py
LLMProfileDataParser._preprocess_response, _extract_text_output @263c5f6
"""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from backends.api.bytes_tensor import deserialize_bytes
from backends.api.errors import InvalidArgumentError

# Tokens of some ten thousand answers; events of OpenAI's are some 250 bytes for each.
MAX_KEPT_BYTES: Final = 1 << 30


class Memory:
    """How much may be kept of all answers together.

    Attributes:
        is_spent: Whether something was not kept.
    """

    def __init__(self, limit_bytes: int, on_spent: Callable[[], None]) -> None:
        """Make one.

        Args:
            limit_bytes: The limit.
            on_spent: Called once, with the first response that is not kept.
        """
        self._left_bytes, self._on_spent = limit_bytes, on_spent
        self.is_spent = False

    def take(self, count_bytes: int) -> bool:
        """Whether so many bytes may be kept."""
        self._left_bytes -= count_bytes
        if self._left_bytes >= 0:
            return True
        if not self.is_spent:
            self.is_spent = True
            self._on_spent()
        return False


class Transcript:
    """The responses of one request, as they came.

    Attributes:
        parts: Their bytes.
        is_cut: Whether some were not kept.
    """

    __slots__ = ("_memory", "is_cut", "parts")

    def __init__(self, memory: Memory) -> None:
        self._memory = memory
        self.parts: list[bytes] = []
        self.is_cut = False

    def append(self, raw: bytes) -> None:
        """Keep a response, or note that there was no room."""
        if self._memory.take(len(raw)):
            self.parts.append(raw)
        else:
            self.is_cut = True


@dataclass(frozen=True, slots=True)
class Reply:
    """One response.

    Attributes:
        text: What it adds to the answer; empty for one that carries no tokens.
        thought: What it adds to the reasoning before the answer.
        usage: Output tokens of the whole answer, as far as the server says; None where it does not.
    """

    text: str
    thought: str = ""
    usage: int | None = None


ReadReply = Callable[[bytes], Reply]


def read_openai(raw: bytes) -> Reply:
    """Read a response of chat or completions: a chunk of a stream, or the whole.

    Raises:
        InvalidArgumentError: It is no such JSON.
    """
    document = _document(raw)
    try:
        usage = (document.get("usage") or {}).get("completion_tokens")
        choice = (document.get("choices") or [{}])[0]
        message = choice.get("delta") or choice.get("message") or {}
        thought = message.get("reasoning_content") or message.get("reasoning") or ""
        text = message.get("content") or choice.get("text") or ""
    except (AttributeError, LookupError, TypeError):
        raise InvalidArgumentError(f"the response {raw[:80]!r} is none of OpenAI's") from None
    return Reply(str(text), str(thought), usage)


def read_generate(text_output: str) -> ReadReply:
    """Return a reader of responses of Triton's generate endpoints, for the name of their text."""

    def read(raw: bytes) -> Reply:
        text = _document(raw).get(text_output, "")
        return Reply("".join(map(str, text)) if isinstance(text, list) else str(text))

    return read


def read_tensors(text_output: str) -> ReadReply:
    """Return a reader of messages of a stream of gRPC, for the name of their text."""
    # protobuf and tritonclient take a quarter of a second to import.
    from tritonclient.grpc import service_pb2  # noqa: PLC0415

    from manta_tools.perf.clients.grpc_encoding import outputs_of  # noqa: PLC0415

    def read(raw: bytes) -> Reply:
        response = service_pb2.ModelStreamInferResponse.FromString(raw).infer_response
        elements = deserialize_bytes(memoryview(outputs_of(response).get(text_output, b"")))
        return Reply("".join(each.decode(errors="replace") for each in elements))

    return read


def read_whole(parts: Sequence[bytes], read: ReadReply) -> tuple[list[Reply], int | None]:
    """Return the responses of an answer, and its tokens by what the server says last."""
    replies = [read(raw) for raw in parts]
    usage = [each.usage for each in replies if each.usage is not None]
    return replies, usage[-1] if usage else None


def _document(raw: bytes) -> Mapping[str, Any]:
    try:
        document = json.loads(raw)
    except ValueError:
        document = None
    if not isinstance(document, dict):
        raise InvalidArgumentError(
            f"the response {raw[:80]!r} is no JSON object; is this the right --endpoint-type?"
        )
    return document
