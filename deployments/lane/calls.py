# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Control calls that a router has made over one lane and that have no answer yet."""

import asyncio

from backends.api.errors import InvalidArgumentError, UnavailableError, error_from_code
from deployments.lane.connection import LaneConnection
from deployments.lane.frames import CALL, CALL_RESULT, Frame
from deployments.lane.messages import CallMessage, decode_error, encode


class PendingCalls:
    """The calls of one lane, by number.

    Args:
        connection: Carries them.
        instance_name: For messages.
        max_message_bytes: Longest message of a call.

    Attributes:
        answers: What their callers wait for, by number.
    """

    __slots__ = ("_connection", "_instance_name", "_max_message_bytes", "answers")

    def __init__(
        self, connection: LaneConnection, instance_name: str, max_message_bytes: int
    ) -> None:
        self._connection = connection
        self._instance_name = instance_name
        self._max_message_bytes = max_message_bytes
        self.answers: dict[int, asyncio.Future[bytes]] = {}

    async def make(self, call_id: int, method: str, payload: bytes, timeout_s: float) -> bytes:
        """Make a call over the open lane and return its answer.

        Args:
            call_id: A number that no other call or request of the lane has.
            method: What is called.
            payload: Its argument.
            timeout_s: How long the answer may take.

        Raises:
            InvalidArgumentError: The payload is too long.
            UnavailableError: The lane is lost or there was no answer in time.
            TritonError: The instance's own error.
        """
        message = encode(CallMessage(method, memoryview(payload)))
        if len(message) > self._max_message_bytes:
            raise InvalidArgumentError(
                f"call of '{method}' has {len(message)} bytes, expected at most"
                f" {self._max_message_bytes}"
            )
        answer: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()
        self.answers[call_id] = answer
        self._connection.send(CALL, call_id, message)
        try:
            async with asyncio.timeout(timeout_s):
                return await answer
        except TimeoutError:
            raise UnavailableError(
                f"instance '{self._instance_name}' did not answer '{method}' within {timeout_s} s"
            ) from None
        finally:
            self.answers.pop(call_id, None)

    def take_answer(self, frame: Frame) -> None:
        """Take a CALL_RESULT or CALL_ERROR; nobody may wait for it any more."""
        answer = self.answers.get(frame.request_id)
        if answer is None or answer.done():
            return
        if frame.kind == CALL_RESULT:
            answer.set_result(bytes(frame.message))
        else:
            described = decode_error(frame.message)
            answer.set_exception(error_from_code(described.code, described.message))

    def fail_all(self, reason: str) -> None:
        """End all calls: the lane is lost."""
        for answer in self.answers.values():
            if not answer.done():
                answer.set_exception(
                    UnavailableError(
                        f"the lane to instance '{self._instance_name}' broke: {reason}"
                    )
                )
        self.answers.clear()
