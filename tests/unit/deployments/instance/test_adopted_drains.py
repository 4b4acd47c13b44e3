# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""An instance that drains is done when its sequences are, whoever has adopted it meanwhile."""

import asyncio

import pytest

from backends.api.model_config import ModelConfig, SequenceBatching
from backends.api.request import SEQUENCE_END, SEQUENCE_START
from tests.support.lane_requests import ScriptedModel
from tests.support.lane_rig import until
from tests.support.pool_rig import EPOCH, answer, ids, pooled, request_for

MINUTE_US = 60_000_000


def sequences(idle_us: int = MINUTE_US) -> ModelConfig:
    batching = SequenceBatching(max_sequence_idle_us=idle_us)
    return ModelConfig("m", max_batch_size=4, sequence_batching=batching)


def part(flags: int = 0, correlation_id: int = 1):
    return request_for(correlation_id=correlation_id, flags=flags)


@pytest.mark.parametrize("idle_us", [MINUTE_US, 0])
async def test_a_drain_waits_for_a_sequence_that_ran_before_the_adoption(idle_us: int):
    async with pooled(sequences(idle_us), ScriptedModel()) as instance:
        router = await instance.router()
        await answer(router.submit(part(SEQUENCE_START)))
        draining = asyncio.create_task(instance.executor.drain(30))
        assert (await router.adopt()).running == {0: 1}
        assert not await instance.executor.drain(0.1)
        await ids(router.push(1, part(SEQUENCE_END), slots=[0]))
        assert await draining


async def test_a_drain_waits_as_long_as_a_new_holder_does_for_a_quiet_sequence():
    now_ns = 10**12
    config = sequences()
    async with pooled(config, ScriptedModel(), clock_ns=lambda: now_ns) as instance:
        holder = await instance.holder()
        await ids(holder.push(1, part(SEQUENCE_START), slots=[0]))
        now_ns += 2 * MINUTE_US * 1000
        assert await instance.executor.drain(0.1)
        await holder.adopt(EPOCH + 1)
        assert not await instance.executor.drain(0.1)


async def test_a_drain_waits_for_a_sequence_that_starts_with_what_lies_there():
    async with pooled(sequences(), ScriptedModel()) as instance:
        holder = await instance.holder()
        with instance.held():
            first = holder.push(1, part(SEQUENCE_START | SEQUENCE_END, 2), slots=[1])
            await instance.entered()
            second = holder.push(2, part(SEQUENCE_START), slots=[0])
            await until(lambda: instance.executor.outbox.outstanding_count == 2)
            draining = asyncio.create_task(instance.executor.drain(30))
        await ids([*first, *second])
        assert not await instance.executor.drain(0.1)
        assert not draining.done()
        await ids(holder.push(3, part(SEQUENCE_END), slots=[0]))
        assert await draining


async def test_a_drain_waits_for_the_part_that_starts_a_sequence():
    async with pooled(sequences(), ScriptedModel()) as instance:
        holder, router = await instance.holder(), await instance.router()
        holder.push(1, total=1, sequences={0: 1})
        await until(lambda: instance.executor._scheduler.sequence_count == 1)
        assert not await instance.executor.drain(0.1)
        await ids(router.push(1, part(SEQUENCE_START), total=0, slots=[0], party=1))
        await ids(holder.push(2, part(SEQUENCE_END), slots=[0]))
        assert await instance.executor.drain(30)
