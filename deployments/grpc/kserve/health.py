# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""grpc.health.v1.Health/Watch: a stream of what Check would answer, at each change.

Triton has no Watch; gRPC clients with health checking use it.
"""

import asyncio
from collections.abc import Callable
from typing import Final

from backends.api.errors import GRPC_STATUS, InternalError, TritonError
from deployments.data_plane.face import Plane
from deployments.grpc.codec.control import NOT_SERVING, SERVING, parse
from deployments.grpc.rpc.service import RpcReply

WATCH_PATH: Final = b"/grpc.health.v1.Health/Watch"

_POLL_S: Final = 0.5


class WatchCall:
    """One Watch call.

    Args:
        plane: Asked for readiness.
        reply: Where the changes go.

    Attributes:
        may_go_on: Asked before each look; what answers no has ended the call or calls `resume`.
    """

    __slots__ = ("_has_begun", "_plane", "_reply", "_timer", "_told", "may_go_on")

    def __init__(self, plane: Plane, reply: RpcReply) -> None:
        self._plane = plane
        self._reply = reply
        self._told = b""
        self._has_begun = False
        self._timer: asyncio.TimerHandle | None = None
        self.may_go_on: Callable[[], bool] = _always

    def message(self, data: bytes | memoryview) -> None:
        """Begin to watch; the service's name plays no part, as in Check."""
        if self._has_begun:
            self._reply.let_go(len(data))
            return
        self._has_begun = True
        try:
            parse("Check", data)
        except TritonError as error:
            self._reply.finish(GRPC_STATUS[error.code], error.message)
        else:
            self._look()

    def refuse_message(self, first: bytes | memoryview, details: str) -> bool:
        """End with the refusal."""
        del first, details
        return False

    def half_closed(self) -> None:
        """The stream goes on, if it has begun."""
        if not self._told:
            text = "the call ended without a request message"
            self._reply.finish(GRPC_STATUS[InternalError.code], text)

    def cancelled(self) -> None:
        """Stop."""
        # Cut here, the call and who answers are freed without the collector.
        self.may_go_on = _always
        if self._timer is not None:
            self._timer.cancel()

    def resume(self) -> None:
        """Look again, if the call has begun: who said no has changed its mind."""
        if self._has_begun:
            if self._timer is not None:
                self._timer.cancel()
            self._look()

    def _look(self) -> None:
        if not self.may_go_on():
            return
        plane = self._plane
        status = SERVING if not plane.exiting and plane.server_ready() else NOT_SERVING
        if status != self._told:
            self._told = status
            self._reply.send(status)
        if plane.exiting or plane.draining:
            # A stream that never ends must not hold up a drain.
            self.may_go_on = _always
            self._reply.finish()
            return
        self._timer = asyncio.get_running_loop().call_later(_POLL_S, self._look)


def _always() -> bool:
    return True
