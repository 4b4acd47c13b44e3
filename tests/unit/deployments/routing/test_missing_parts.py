# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Parts of batches that do not come, as the router they were granted to reaches no instance."""

import asyncio
import random
import time
from collections.abc import Callable
from typing import Any

import pytest

from backends.api.model_config import ModelConfig, SequenceBatching
from backends.api.request import SEQUENCE_START
from deployments.lane.client import LaneClient
from deployments.routing.router import Router
from tests.support import virtual_time
from tests.support.pool_node import publish
from tests.support.pool_rig import request_for
from tests.support.virtual_nodes import VirtualInstance, VirtualNode, until, virtual_clock

SEQUENCES = ModelConfig(
    "m",
    max_batch_size=4,
    sequence_batching=SequenceBatching(
        strategy="oldest", max_candidate_sequences=8, max_sequence_idle_us=60_000_000
    ),
)


def without_lanes(router: Router) -> None:
    """Have a router reach no instance."""

    async def dial(*_: Any) -> LaneClient:
        raise ConnectionRefusedError

    links: Any = router.links
    links._connect = dial


def lane_of_tickets(router: Router) -> Any:
    membership: Any = router._membership
    return membership._candidacy.lane


async def _instance_is_free_again(clock_ns: Callable[[], int]) -> None:
    node = VirtualNode(SEQUENCES, random.Random(1))
    for _ in range(2):
        node.add(VirtualInstance(SEQUENCES, clock_ns, lambda: 0.001))
    holder, other = await node.join(), await node.join()
    without_lanes(other)
    publish([node])
    await until(lambda: holder.find("m").pool.queue is not None)
    await until(lambda: node.held.load.free_count == 2 and other.find("m").pool.queue is not None)
    transport = lane_of_tickets(other)._connection.transport
    transport.pause_reading()
    begun = node.send(request_for(correlation_id=1, flags=SEQUENCE_START), router=1)
    await until(lambda: node.held.load.free_count == 1)
    # A queue that waits for what an instance has to tell takes no tickets meanwhile.
    silent = VirtualInstance(SEQUENCES, clock_ns, lambda: 0.001)
    silent.stop()
    node.add(silent)
    publish([node], routers=[holder])
    transport.resume_reading()
    await until(lambda: node.held.load.free_count == 2, within_s=0.5)
    begun.cancel()
    silent.go_on()
    await node.end(other)
    await node.end(holder)
    for each in node.instances:
        await each.close()


def test_an_instance_does_not_wait_for_a_part_that_will_not_come_while_its_queue_takes_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def run() -> None:
        clock_ns = virtual_clock()
        with monkeypatch.context() as patched:
            patched.setattr(time, "monotonic_ns", clock_ns)
            await asyncio.wait_for(_instance_is_free_again(clock_ns), 60)

    random.seed(1)
    virtual_time.run(run())
