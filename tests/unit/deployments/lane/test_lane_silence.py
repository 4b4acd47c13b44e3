# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Lanes to instances that do not die but say nothing any more."""

import asyncio

from deployments.lane.client import SILENT_PERIODS, LaneClient
from deployments.lane.messages import LaneLimits
from tests.support.lane_rig import Handler, Rig, Sink, echo, request_of, until


async def _settle() -> None:
    """Let both ends say what they have to say."""
    for _ in range(50):
        await asyncio.sleep(0)


async def _periods_until_unresponsive(lane: LaneClient) -> int:
    for count in range(3 * SILENT_PERIODS):
        if lane.is_unresponsive():
            return count
        await _settle()
    return -1


def test_a_stopped_instance_that_owes_an_answer_is_unresponsive_after_whole_periods(run):
    async def main():
        async with Rig(Handler()) as rig:
            lane = await rig.connect()
            lane.submit(request_of(4), Sink())
            await until(lambda: rig.handler.requests)
            rig.turning.is_paused = True
            assert await _periods_until_unresponsive(lane) == SILENT_PERIODS
            lane.close()
            rig.turning.is_paused = False

    run(main)


def test_an_instance_whose_model_computes_long_answers_pings_and_is_responsive(run):
    async def main():
        async with Rig(Handler()) as rig:
            lane = await rig.connect()
            lane.submit(request_of(4), Sink())
            await until(lambda: rig.handler.requests)
            assert await _periods_until_unresponsive(lane) == -1
            lane.close()

    run(main)


def test_an_instance_that_owes_nothing_is_asked_for_nothing(run):
    async def main():
        async with Rig(Handler(echo)) as rig:
            lane = await rig.connect()
            sink = Sink()
            lane.submit(request_of(4), sink)
            await sink.ended
            rig.turning.is_paused = True
            assert await _periods_until_unresponsive(lane) == -1
            rig.turning.is_paused = False

    run(main)


def test_a_stopped_instance_that_owes_the_answer_of_a_call_is_unresponsive(run):
    async def main():
        async with Rig(Handler()) as rig:
            lane = await rig.connect()
            rig.turning.is_paused = True
            call = asyncio.ensure_future(lane.call("echo", b"", 60))
            await until(lambda: lane._calls.answers)
            assert await _periods_until_unresponsive(lane) == SILENT_PERIODS
            lane.close()
            await asyncio.wait({call})
            call.exception()
            rig.turning.is_paused = False

    run(main)


def test_an_instance_that_reads_a_long_request_is_responsive(run):
    limits = LaneLimits(high_water_bytes=1 << 16)

    async def main():
        async with Rig(Handler(), limits=limits, same_node=False) as rig:
            lane = await rig.connect()
            rig.turning.is_paused = True
            lane.submit(request_of(64 << 20), Sink())
            await _settle()
            for _ in range(2 * SILENT_PERIODS):
                assert not lane.is_unresponsive()
                for _ in range(5):
                    rig.turning.reactor.turn(0)
                    await asyncio.sleep(0)
            assert lane._connection.transport.get_write_buffer_size()
            lane.close()
            rig.turning.is_paused = False

    run(main)


def test_breaking_off_hands_over_the_orphans_though_nobody_reads(run):
    async def main():
        async with Rig(Handler()) as rig:
            lane = await rig.connect()
            sink = Sink()
            lane.submit(request_of(4), sink)
            rig.turning.is_paused = True
            lane.break_off("it showed no progress")
            ((lost, (orphan,)),) = rig.losses
            assert lost is lane
            assert orphan.sink is sink
            rig.turning.is_paused = False
            await rig.all_gone()

    run(main)


def test_close_when_idle_after_the_last_call_closes_the_lane(run):
    async def main():
        async with Rig(Handler()) as rig:
            lane = await rig.connect()
            call = asyncio.ensure_future(lane.call("echo", b"answer", 20))
            await until(lambda: lane._calls.answers)
            lane.close_when_idle()
            assert lane.is_open
            assert await call == b"answer"
            await until(lambda: not lane.is_open)
            await rig.all_gone()

    run(main)
