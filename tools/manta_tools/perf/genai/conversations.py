# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Sessions of a chat: each turn carries the ones before it and the model's answers to them.

Triton: perf_analyzer/src/session_concurrency/request_handler.cc, payload_json_utils.cc @263c5f6
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from backends.api.errors import TritonError
from manta_tools.perf.genai.answers import ReadReply, Transcript
from manta_tools.perf.records import Request

_NS_PER_MS: Final = 10**6
_MESSAGES: Final = "messages"


@dataclass(frozen=True, slots=True)
class ChatTurn:
    """A turn as it is planned.

    Attributes:
        index: Of its entry in the data.
        body: Of the request, with the turn's own messages only.
        delay_ms: From its answer to the next turn.
    """

    index: int
    body: Mapping[str, Any]
    delay_ms: int = 0


@dataclass(slots=True)
class _Live:
    """A session under way."""

    turns: Sequence[ChatTurn]
    done: int = 0
    history: list[Any] = field(default_factory=list)


class Conversations:
    """Turns of sessions, one session at a time in each slot; each session is had once.

    A session whose turn failed ends with it: without the answer there is no next turn.
    """

    def __init__(
        self,
        sessions: Sequence[Sequence[ChatTurn]],
        encode: Callable[[Mapping[str, Any]], Any],
        read: ReadReply,
        keep: Callable[[], Transcript],
    ) -> None:
        """Make the sessions.

        Args:
            sessions: Their turns.
            encode: Makes a payload of a body.
            read: Reads a response.
            keep: Returns what keeps an answer.
        """
        self._sessions = iter(sessions)
        self._left = len(sessions)
        self._encode, self._read, self._keep = encode, read, keep
        self._live: dict[int, _Live] = {}

    def next(self, slot: int) -> Request:
        """Return the slot's next turn: of its session, or the first of a new one."""
        live = self._live.get(slot)
        if live is None:
            live = self._live[slot] = _Live(next(self._sessions))
            self._left -= 1
        turn = live.turns[live.done]
        live.done += 1
        live.history += turn.body[_MESSAGES]
        request = Request(
            self._encode({**turn.body, _MESSAGES: live.history}),
            slot=slot,
            data=(0, turn.index),
        )
        request.contents = self._keep()
        return request

    def closing(self, slot: int) -> None:
        """Return None: a session is left as it is."""

    def wait_ns(self, request: Request) -> int | None:
        """Take the answer of a turn, and return when the slot's next one follows."""
        live = self._live[request.slot]
        is_over = live.done == len(live.turns)
        if not is_over and not request.error:
            is_over = not self._remember(live, request)
        if request.error or is_over:
            del self._live[request.slot]
            return 0 if self._left else None
        return live.turns[live.done - 1].delay_ms * _NS_PER_MS

    def _remember(self, live: _Live, request: Request) -> bool:
        """Add the answer to the history; False when it is not known."""
        kept = request.contents
        assert isinstance(kept, Transcript)  # noqa: S101 - next made it
        if kept.is_cut:
            return False
        try:
            text = "".join(self._read(raw).text for raw in kept.parts)
        except TritonError as error:
            request.error = error.message
            return False
        live.history.append({"role": "assistant", "content": text})
        return True
