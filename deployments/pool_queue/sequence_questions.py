# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""A router's questions to one holder: whether a sequence goes on in a queue there."""

import asyncio
from typing import Final, Protocol

from deployments.lane.frames import SEQUENCE, Frame
from deployments.lane.messages import encode
from deployments.pool_queue.messages import SequenceQuestion, decode_known

_ANSWER_TIMEOUT_S: Final = 2.0
_MAX_NUMBER: Final = 0xFFFFFFFF


class QuestionSender(Protocol):
    """The lane to the holder."""

    @property
    def is_open(self) -> bool: ...  # noqa: D102

    def send(self, kind: int, number: int, message: bytes = b"") -> None:
        """Send a frame, if the lane is open."""


class SequenceQuestions:
    """The questions on one lane that are not answered.

    Args:
        lane: The lane.
    """

    __slots__ = ("_lane", "_last_number", "_open")

    def __init__(self, lane: QuestionSender) -> None:
        self._lane = lane
        self._last_number = 0
        self._open: dict[int, asyncio.Future[bool | None]] = {}

    async def ask(self, asked: SequenceQuestion) -> bool | None:
        """Return what the holder says; None when it has no such queue, or says nothing."""
        if not self._lane.is_open:
            return None
        self._last_number = number = self._last_number % _MAX_NUMBER + 1
        answer: asyncio.Future[bool | None] = asyncio.get_running_loop().create_future()
        self._open[number] = answer
        self._lane.send(SEQUENCE, number, encode(asked))
        try:
            async with asyncio.timeout(_ANSWER_TIMEOUT_S):
                return await answer
        except TimeoutError:
            return None
        finally:
            del self._open[number]

    def answered(self, frame: Frame) -> None:
        """Take an answer; one that comes too late is nothing to anybody.

        Raises:
            ValueError: It is no answer.
        """
        known = decode_known(frame.message)
        answer = self._open.get(frame.request_id)
        if answer is not None and not answer.done():
            answer.set_result(known)

    def lost(self) -> None:
        """End all questions: the holder is gone."""
        for answer in self._open.values():
            if not answer.done():
                answer.set_result(None)
