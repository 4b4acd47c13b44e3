# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""The metrics port.

Triton: server/src/http_server.cc HTTPMetricsServer::Handle @e1db8a6
"""

import asyncio
import logging
from collections.abc import Callable
from typing import Final

from deployments.data_plane.face import Plane
from deployments.http.server.exchange import PROTECTION, TEXT, HttpExchange
from deployments.metrics.memory import render_memory
from deployments.supervision.memory_budget import MemoryBudget

logger = logging.getLogger(__name__)

_METRICS_TYPE: Final = b"text/plain; charset=utf-8"


class MetricsApplication:
    """The application behind the metrics port.

    Args:
        plane: The data plane.
        budget: The memory of the process's servers, which the page tells of too.
        render_model_cache: Returns what the page tells of the node's model cache; may block.
    """

    def __init__(
        self, plane: Plane, budget: MemoryBudget, render_model_cache: Callable[[], bytes]
    ) -> None:
        self._plane = plane
        self._render_model_cache = render_model_cache
        self._budget = budget
        self._tasks: set[asyncio.Task[None]] = set()

    def dispatch(self, exchange: HttpExchange) -> None:
        """Answer ``GET /metrics``; other paths are empty, as in Triton."""
        if exchange.head.method != b"GET":
            exchange.fail_text(405, "Method Not Allowed", TEXT)
        elif exchange.head.url.partition(b"?")[0] not in (b"/metrics", b"/metrics/"):
            exchange.reply(200, _METRICS_TYPE)
        else:
            task = asyncio.get_running_loop().create_task(self._render(exchange))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _render(self, exchange: HttpExchange) -> None:
        try:
            page = await self._plane.metrics_text()
            page += await asyncio.to_thread(self._render_model_cache)
        except Exception:
            logger.exception("failed to render the metrics")
            exchange.fail_text(500, "internal error; the server's log says more", TEXT)
            return
        page += render_memory(self._budget)
        exchange.reply(200, _METRICS_TYPE, (page,), len(page), PROTECTION)

    def refuse(self, exchange: HttpExchange, body_bytes: int) -> str:
        """Refuse every large body."""
        return "the metrics port takes no bodies"

    def allocate(self, size_bytes: int, align_at: int) -> memoryview | None:
        """Return nothing: there are no large bodies."""
        return None
