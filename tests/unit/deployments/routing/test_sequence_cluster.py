# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Many sequences over two instances and two routers, with all that goes wrong in their lives."""

import asyncio
import random
import threading
from collections import Counter
from typing import Self

import msgspec
import numpy as np
import pytest

from backends.api.backend import ExecuteBatch
from backends.api.errors import RequestCancelledError, TritonError, UnavailableError
from backends.api.model_config import ModelConfig, ModelInput, SequenceBatching, SequenceState
from backends.api.request import (
    SEQUENCE_END,
    SEQUENCE_START,
    InferenceResponse,
    tensor_as_numpy,
    tensor_from_numpy,
)
from deployments.instance.executor import Executor
from deployments.instance.lead import Lead
from deployments.routing.router import Router
from tests.support.cluster_of_instances import Instance, Routed, request, table
from tests.support.lane_requests import ScriptedModel
from tests.support.lane_rig import SECRET, Sink, until

SEQUENCE_COUNT = 1000
IDLE_US = 300_000
# At most as many as there are slots and a few more, so that some always wait.
CLIENT_COUNT = 40


def config(strategy: str) -> ModelConfig:
    state = SequenceState("WHO_IN", "WHO", "INT64", (2,))
    batching = SequenceBatching(
        strategy=strategy, max_sequence_idle_us=IDLE_US, states=(state,), max_candidate_sequences=12
    )
    return ModelConfig(
        "m",
        max_batch_size=8,
        input=(ModelInput("A", "INT32", (2,)),),
        sequence_batching=batching,
    )


def remember(batch: ExecuteBatch) -> None:
    """The state is the id its sequence started with, and how many requests it has had."""
    ids = [each.request.correlation_id for each in batch.requests if each.request.correlation_id]
    assert len(ids) == len(set(ids))
    for each in batch.requests:
        (state,) = [tensor for tensor in each.request.inputs if tensor.name == "WHO_IN"]
        who, count = tensor_as_numpy(state).ravel().tolist()
        if not count:
            who = each.request.correlation_id or 0
        made = np.array([[who, count + 1]], np.int64)
        outputs = [tensor_from_numpy(name, made) for name in ("WHO", "OUT")]
        each.respond(InferenceResponse("", "", outputs=outputs))


class ServedInstance(Instance):
    """An instance with a real executor behind its lanes."""

    def __init__(self, model_config: ModelConfig) -> None:
        super().__init__()
        model = ScriptedModel(remember)
        self.reactor = self.turning.reactor
        self.lead = Lead(self.reactor)
        self.executor = Executor(model_config, 1, model, self.lead)
        self.handler.received = self.executor.received
        self.handler.cancelled = lambda _: self.executor.look_again()
        self.handler.call = self.call
        self.thread = threading.Thread(target=self.executor.run)

    async def start(self) -> Self:
        self.server.start(self.uds)
        self.thread.start()
        return self

    def call(self, method: str, payload: bytes) -> bytes:
        assert method == "knows_sequence"
        return msgspec.msgpack.encode(self.executor.knows(msgspec.msgpack.decode(payload)))

    async def stop(self) -> None:
        if not self.thread.is_alive():
            return
        await asyncio.wrap_future(self.reactor.submit(self.server.close))
        await self.executor.close(30)
        self.thread.join()
        self.lead.stop()
        self.reactor.close()


class Clients:
    """Runs sequences of random lengths and fates; each request by a random router."""

    def __init__(self, routers: list[Router]) -> None:
        self.routers = routers
        self.outcomes: Counter[str] = Counter()
        self._ids = iter(range(1, SEQUENCE_COUNT + 1))

    async def work(self) -> None:
        for sequence_id in self._ids:
            chance = random.Random(sequence_id)
            await self._sequence(sequence_id, chance)

    async def _sequence(self, sequence_id: int, chance: random.Random) -> None:
        length = chance.randint(1, 6)
        fate = chance.choices(["ends", "idles", "cancels"], [90, 5, 5])[0]
        for index in range(length):
            flags = SEQUENCE_START if index == 0 else 0
            if index == length - 1 and fate == "ends":
                flags |= SEQUENCE_END
            sink = Sink()
            router = chance.choice(self.routers)
            sent = request(correlation_id=sequence_id, flags=flags)
            sent.inputs[0].shape = (1, 2)
            inflight = router.submit(router.models.get("m", 1), sent, sink)
            if fate == "cancels" and index == length - 1:
                inflight.cancel()
            await sink.ended
            if sink.error is not None:
                self._failed(sink.error)
                return
            self.outcomes["answered"] += 1
            (output,) = sink.responses[0].outputs
            assert tensor_as_numpy(output).ravel().tolist() == [sequence_id, index + 1]

    def _failed(self, error: TritonError) -> None:
        kinds = {UnavailableError: "lost", RequestCancelledError: "cancelled"}
        if "must specify the START flag" in error.message:
            # Its instance is lost and this router never knew, or it was quiet for too long.
            self.outcomes["unknown"] += 1
        else:
            self.outcomes[kinds[type(error)]] += 1


async def run_over(strategy: str) -> Counter[str]:
    model_config = config(strategy)
    first, second = ServedInstance(model_config), ServedInstance(model_config)
    async with Routed(first, second, config=model_config) as here:
        other = Router("node", SECRET, here.slabs)
        other.update(table(first, second, config=model_config))
        routers = [here.router, other]
        await until(lambda: all(len(r.models.get("m", 1).pool.lanes) == 2 for r in routers))
        clients = Clients(routers)
        works = [asyncio.create_task(clients.work()) for _ in range(CLIENT_COUNT)]
        await until(lambda: clients.outcomes["answered"] > SEQUENCE_COUNT)
        await first.stop()
        for router in routers:
            router.update(table(second, config=model_config))
        await asyncio.gather(*works)
        assert second.executor.outbox.outstanding_count == 0
        # What idled is reaped, so no slot is lost.
        assert await second.executor.drain(30)
        assert second.executor.statistics().pending_count == 0
        await other.close()
    return clients.outcomes


@pytest.mark.slow
async def test_direct_sequences_survive_cancels_idling_and_a_lost_instance() -> None:
    outcomes = await run_over("direct")
    assert outcomes["answered"] > 2 * SEQUENCE_COUNT
    assert outcomes["cancelled"]
    # Those on the lost instance, and what starts there before its loss is known.
    assert outcomes["lost"] < SEQUENCE_COUNT // 2


@pytest.mark.slow
async def test_oldest_sequences_survive_cancels_idling_and_a_lost_instance() -> None:
    outcomes = await run_over("oldest")
    assert outcomes["answered"] > 2 * SEQUENCE_COUNT
    assert outcomes["cancelled"]
    # Those on the lost instance, and what starts there before its loss is known.
    assert outcomes["lost"] < SEQUENCE_COUNT // 2
