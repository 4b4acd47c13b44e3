# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""A call of a unary RPC other than ModelInfer, whatever answers it."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

from backends.api.errors import GRPC_STATUS, InternalError, TritonError
from deployments.contracts.faults import fault_of
from deployments.grpc.rpc.service import RpcReply

# What is known at once, or has to be waited for.
UnaryAnswer = bytes | Coroutine[Any, Any, bytes]


class UnaryCall:
    """One call.

    Args:
        rpc: Name of the RPC, for the log.
        handle: Answers the request's message; may raise TritonError, also later.
        reply: Where the answer goes.
        tasks: Holds the tasks of calls that have to wait; a client that leaves does not stop them,
            so a load runs to its end.
    """

    __slots__ = ("_ended", "_handle", "_reply", "_rpc", "_started", "_tasks")

    def __init__(
        self,
        rpc: str,
        handle: Callable[[bytes | memoryview], UnaryAnswer],
        reply: RpcReply,
        tasks: set[asyncio.Task[None]],
    ) -> None:
        self._rpc = rpc
        self._handle = handle
        self._reply = reply
        self._tasks = tasks
        self._started = False
        self._ended = False

    def message(self, data: bytes | memoryview) -> None:
        """Run the handler."""
        if self._started or self._ended:
            self._reply.let_go(len(data))
            return
        self._started = True
        try:
            answer = self._handle(data)
        except Exception as cause:
            self._fail(fault_of(cause, f"gRPC call {self._rpc}"))
            return
        if isinstance(answer, bytes):
            self._complete(answer)
            return
        task = asyncio.get_running_loop().create_task(self._wait(answer))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def refuse_message(self, first: bytes | memoryview, details: str) -> bool:
        """End with the refusal."""
        del first, details
        return False

    def half_closed(self) -> None:
        """A unary call without a request is an error, as it is in gRPC's own servers."""
        if not self._started:
            self._fail(InternalError("the call ended without a request message"))

    def cancelled(self) -> None:
        """The answer is no longer wanted."""
        self._ended = True

    async def _wait(self, answer: Coroutine[Any, Any, bytes]) -> None:
        try:
            self._complete(await answer)
        except Exception as cause:
            self._fail(fault_of(cause, f"gRPC call {self._rpc}"))

    def _complete(self, answer: bytes) -> None:
        if not self._ended:
            self._ended = True
            self._reply.complete(answer)

    def _fail(self, error: TritonError) -> None:
        if not self._ended:
            self._ended = True
            self._reply.finish(GRPC_STATUS[error.code], error.message)
