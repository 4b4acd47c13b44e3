# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""An ingress that leaves a node for good holds the queues there until the instances have left, too.

Instances that were adopted execute what a holder gives them, and nothing else. Elsewhere the next
ingress of the node becomes the holder; on a node that drains there is none.
"""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from typing import Final

from deployments.routing.node_pools import NodePools

_LOOK_S: Final = 0.2

IsLeaving = Callable[[], Awaitable[bool]]


async def hold_while_needed(pools: NodePools, is_leaving: IsLeaving, timeout_s: float) -> None:
    """Return when this node has no instance in a queue, or does not drain, or after a time."""
    if not _is_needed(pools) or not await is_leaving():
        return
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(timeout_s):
            while _is_needed(pools):  # noqa: ASYNC110 - the routing table makes it end
                await asyncio.sleep(_LOOK_S)


def _is_needed(pools: NodePools) -> bool:
    return any(queue.has_instances for queue in pools.all_held())
