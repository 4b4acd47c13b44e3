# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Large bodies compressed and decompressed on threads, while other connections go on.

A few kilobytes can become the largest input that is taken, so what a body may become is taken from
the memory budget before it is looked at.
"""

import asyncio
import logging
from collections.abc import Callable
from concurrent.futures import Executor, ThreadPoolExecutor
from typing import Final

from backends.api.errors import InternalError, TritonError
from deployments.http.codec.content_coding import compress, decompress, largest_result
from deployments.http.server.exchange import TEXT, HttpExchange
from deployments.http.server.host import over_budget
from deployments.supervision.memory_budget import MemoryBudget

logger = logging.getLogger(__name__)

# Compression takes cores from the models; the loop has one of its own.
_THREAD_COUNT: Final = 2

Parts = list[bytes | memoryview]


class Compression:
    """Runs compression on threads of its own.

    Args:
        budget: What bodies and answers take memory from.
        max_input_bytes: ``--http-max-input-size``; bounds what a request's body becomes.
        threads: Where compression runs; two threads unless given.
    """

    __slots__ = ("_budget", "_max_input_bytes", "_threads")

    def __init__(
        self, budget: MemoryBudget, max_input_bytes: int, threads: Executor | None = None
    ) -> None:
        self._budget = budget
        self._max_input_bytes = max_input_bytes
        self._threads = threads or ThreadPoolExecutor(_THREAD_COUNT, "http-compression")

    async def decompressed(
        self, exchange: HttpExchange, then: Callable[[memoryview], None]
    ) -> None:
        """Undo the Content-Encoding of a request.

        Args:
            exchange: The request; refused with 503 when there is no memory for the result.
            then: Called with the result, unless the peer has gone.

        Raises:
            InvalidArgumentError: The body is damaged or grows too large.
        """
        body = memoryview(exchange.body)
        largest_bytes = largest_result(body.nbytes, self._max_input_bytes)
        if not self._budget.try_take(largest_bytes):
            exchange.end_connection()
            what = f"a request body that may decompress to {largest_bytes} bytes"
            exchange.fail_text(503, over_budget(self._budget, what), TEXT)
            return
        encoding, bodies = exchange.head.content_encoding, [body]
        del body

        def work() -> memoryview:
            # The thread has no view when it ends: memory is let go on the loop's thread only.
            try:
                return decompress(encoding, bodies.pop(), self._max_input_bytes)
            except TritonError as error:
                raise error.with_traceback(None) from None

        try:
            plain = await asyncio.get_running_loop().run_in_executor(self._threads, work)
        finally:
            self._budget.give_back(largest_bytes)
        if not exchange.is_answered:
            self._budget.take(plain.nbytes)
            exchange.held_bytes += plain.nbytes
            then(plain)

    def reply(
        self, exchange: HttpExchange, coding: bytes, parts: Parts, content_type: bytes, extra: bytes
    ) -> None:
        """Answer with a compressed body once it is ready.

        Args:
            exchange: What is answered.
            coding: ``gzip`` or ``deflate``.
            parts: The body, as it is.
            content_type: Value of Content-Type.
            extra: Further header lines.
        """
        size = sum(map(len, parts))
        kept = tuple(parts)

        def work() -> list[bytes]:
            try:
                return compress(coding, parts)
            finally:
                parts.clear()  # see `decompressed`

        def finish(done: asyncio.Future[list[bytes]]) -> None:
            nonlocal kept
            kept = ()
            self._budget.give_back(size)
            error = None if done.cancelled() else done.exception()
            if error is not None:
                logger.error("failed to compress an answer", exc_info=error)
            if done.cancelled() or error is not None:
                exchange.fail(InternalError("failed to compress the response"), TEXT)
                return
            compressed = done.result()
            exchange.reply(200, content_type, compressed, sum(map(len, compressed)), extra)

        self._budget.take(size)
        # The model is done; a peer that goes has nothing left to cancel.
        exchange.on_disconnect = None
        future = asyncio.get_running_loop().run_in_executor(self._threads, work)
        future.add_done_callback(finish)
