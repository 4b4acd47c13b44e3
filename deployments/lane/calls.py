# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Control calls that a router has made over one lane and that have no answer yet."""

import asyncio

from backends.api.errors import UnavailableError, error_from_code
from deployments.lane.frames import CALL_RESULT, Frame
from deployments.lane.messages import decode_error


class PendingCalls:
    """The calls of one lane, by number.

    Args:
        loop: Where their callers wait.
        instance_name: For messages.

    Attributes:
        answers: What their callers wait for, by number.
    """

    __slots__ = ("_instance_name", "_loop", "answers")

    def __init__(self, loop: asyncio.AbstractEventLoop, instance_name: str) -> None:
        self._loop = loop
        self._instance_name = instance_name
        self.answers: dict[int, asyncio.Future[bytes]] = {}

    def add(self, call_id: int) -> None:
        """Expect the answer of a call, which `wait` returns."""
        self.answers[call_id] = self._loop.create_future()

    async def wait(self, call_id: int, method: str, timeout_s: float) -> bytes:
        """Return the answer of a call that was added.

        Raises:
            UnavailableError: The lane is lost or there was no answer in time.
            TritonError: The instance's own error.
        """
        try:
            async with asyncio.timeout(timeout_s):
                return await self.answers[call_id]
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
