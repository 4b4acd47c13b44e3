# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Control calls that a router makes over a lane, at the instance's end."""

import contextlib
import logging
from collections.abc import Callable
from concurrent.futures import Future
from typing import Protocol

from backends.api.errors import InternalError, TritonError
from deployments.lane.connection import LaneConnection
from deployments.lane.frames import CALL_ERROR, CALL_RESULT, Frame
from deployments.lane.messages import ErrorMessage, decode_call, encode
from deployments.reactor.reactor import Reactor

logger = logging.getLogger(__name__)


class CallHandler(Protocol):
    """Answers calls. Called on the reactor's thread."""

    def call(self, method: str, payload: bytes) -> "bytes | Future[bytes]":
        """Answer a control call at once, as it may hold up requests; or later, from any thread.

        Raises:
            TritonError: Carried to the caller as it is; anything else becomes INTERNAL.
        """


class CallAnswers:
    """Answers the calls of one lane.

    Args:
        connection: Carries the answers.
        reactor: Where answers are sent that come later.
        handler: Knows the answers.
        max_message_bytes: Longest answer.
    """

    __slots__ = ("_connection", "_handler", "_max_message_bytes", "_reactor")

    def __init__(
        self,
        connection: LaneConnection,
        reactor: Reactor,
        handler: CallHandler,
        max_message_bytes: int,
    ) -> None:
        self._connection = connection
        self._reactor = reactor
        self._handler = handler
        self._max_message_bytes = max_message_bytes

    def take(self, frame: Frame) -> None:
        """Take a CALL and see that it is answered."""
        call = decode_call(frame.message)
        payload = bytes(call.payload)
        self._answer(
            frame.request_id, call.method, lambda: self._handler.call(call.method, payload)
        )

    def _answer(
        self, call_id: int, method: str, answer: "Callable[[], bytes | Future[bytes]]"
    ) -> None:
        try:
            result = answer()
        except TritonError as error:
            self._fail(call_id, error)
            return
        except BaseException:
            # Also SystemExit: a call may reach a model's code.
            logger.exception("control call '%s' raised", method)
            self._fail(call_id, InternalError(f"control call '{method}' failed"))
            return
        if isinstance(result, Future):

            def later(done: "Future[bytes]") -> None:
                with contextlib.suppress(RuntimeError):  # the loop is closed, and the lane with it
                    self._reactor.call_soon_threadsafe(self._answer, call_id, method, done.result)

            result.add_done_callback(later)
        elif len(result) > self._max_message_bytes:
            too_long = f"the answer to '{method}' has {len(result)} bytes"
            self._fail(call_id, InternalError(too_long))
        else:
            self._connection.send(CALL_RESULT, call_id, result)

    def _fail(self, call_id: int, error: TritonError) -> None:
        self._connection.send(CALL_ERROR, call_id, encode(ErrorMessage(error.code, error.message)))
