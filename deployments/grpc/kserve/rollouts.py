# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""manta.v1.Rollouts: what the HTTP routes of rollouts do, over gRPC."""

import asyncio
import logging
from typing import Any, Final

from backends.api.errors import GRPC_STATUS, InternalError, TritonError
from deployments.contracts.control import RolloutAction
from deployments.data_plane.face import Plane
from deployments.grpc.rpc.service import RpcReply

logger = logging.getLogger(__name__)

_PREFIX: Final = b"/manta.v1.Rollouts/"
_NAMES: Final = {
    "GetRollout": RolloutAction.GET,
    "SetRollout": RolloutAction.SET,
    "EndRollout": RolloutAction.END,
    "PromoteRollout": RolloutAction.PROMOTE,
    "PauseRollout": RolloutAction.PAUSE,
    "ResumeRollout": RolloutAction.RESUME,
    "RollBackRollout": RolloutAction.ROLLBACK,
}
ROLLOUT_PATHS: Final = {_PREFIX + name.encode(): action for name, action in _NAMES.items()}


class RolloutCall:
    """One call of the service.

    Args:
        plane: What is asked.
        action: What the RPC does.
        reply: Where the answer goes.
        tasks: Holds the tasks of calls; a client that leaves does not stop them.
    """

    __slots__ = ("_action", "_ended", "_plane", "_reply", "_started", "_tasks")

    def __init__(
        self,
        plane: Plane,
        action: RolloutAction,
        reply: RpcReply,
        tasks: set[asyncio.Task[None]],
    ) -> None:
        self._plane = plane
        self._action = action
        self._reply = reply
        self._tasks = tasks
        self._started = False
        self._ended = False

    def message(self, data: bytes | memoryview) -> None:
        """Take the request."""
        if self._started or self._ended:
            return
        self._started = True
        # Few servers are ever asked, and the descriptors take time to make.
        from deployments.grpc.codec import rollouts as codec  # noqa: PLC0415

        try:
            name, document = codec.parse(data)
        except TritonError as error:
            self._fail(error)
            return
        task = asyncio.get_running_loop().create_task(self._answer(name, document))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def half_closed(self) -> None:
        """A unary call without a request is an error, as it is in gRPC's own servers."""
        if not self._started:
            self._fail(InternalError("the call ended without a request message"))

    def cancelled(self) -> None:
        """The answer is no longer wanted."""
        self._ended = True

    async def _answer(self, name: str, document: dict[str, Any]) -> None:
        from deployments.grpc.codec import rollouts as codec  # noqa: PLC0415 - see `message`

        try:
            status: dict[str, Any] = await self._plane.rollouts.rollout(
                name, self._action, document
            )
            answer = codec.render(status)
        except TritonError as error:
            self._fail(error)
        except Exception as cause:
            logger.exception("gRPC call about a rollout failed")
            self._fail(InternalError(f"{type(cause).__name__}: {cause}"))
        else:
            if not self._ended:
                self._ended = True
                self._reply.complete(answer)

    def _fail(self, error: TritonError) -> None:
        if not self._ended:
            self._ended = True
            self._reply.finish(GRPC_STATUS[error.code], error.message)
