# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Control calls on lanes, and how lanes are opened and closed."""

import asyncio

import pytest

from backends.api.errors import (
    InternalError,
    UnavailableError,
    UnsupportedError,
)
from deployments.contracts.routing_table import InstanceEndpoint
from deployments.lane.client import LaneClient
from deployments.lane.messages import LaneLimits
from deployments.slabs.pool import SlabPool
from tests.support.lane_rig import Handler, Rig, Sink, echo, request_of, response_of, until

LARGE = 300_000


def test_calls_are_answered(run, caplog):
    async def main():
        async with Rig(Handler()) as rig:
            lane = await rig.connect()
            payload = bytes(range(256)) * 100
            assert await lane.call("echo", payload, 5) == payload
            with pytest.raises(InternalError, match="'nothing' failed"):
                await lane.call("nothing", b"", 5)
            rig.turning.is_paused = True
            with pytest.raises(UnavailableError, match=r"did not answer 'echo' within 0\.01 s"):
                await lane.call("echo", b"", 0.01)
            rig.turning.is_paused = False
            lane.close()
            with pytest.raises(UnavailableError, match="is closed"):
                await lane.call("echo", b"", 5)
            await rig.all_gone()

    run(main)


def test_a_call_may_be_answered_later_from_another_thread(run):
    async def main():
        async with Rig(Handler()) as rig:
            lane = await rig.connect()
            waiting = asyncio.ensure_future(lane.call("later", b"", 20))
            await until(lambda: rig.handler.calls)
            assert await lane.call("echo", b"meanwhile", 20) == b"meanwhile"
            await asyncio.to_thread(rig.handler.later.set_result, b"at last")
            assert await waiting == b"at last"
            failing = asyncio.ensure_future(lane.call("later", b"", 20))
            await until(lambda: not rig.handler.later.done())
            rig.handler.later.set_exception(UnsupportedError("no"))
            with pytest.raises(UnsupportedError, match="no"):
                await failing

    run(main)


def test_a_lost_lane_fails_its_calls(run):
    async def main():
        async with Rig(Handler()) as rig:
            lane = await rig.connect()
            rig.turning.is_paused = True
            waiting = asyncio.ensure_future(lane.call("echo", b"", 20))
            await until(lambda: lane._calls.answers)
            lane.close()
            with pytest.raises(UnavailableError, match="broke"):
                await waiting
            rig.turning.is_paused = False
            await rig.all_gone()

    run(main)


def test_a_call_does_not_overtake_the_requests_before_it(run):
    async def main():
        async with Rig(Handler()) as rig:
            lane = await rig.connect()
            sinks = [Sink() for _ in range(3)]
            for sink in sinks:
                lane.submit(request_of(4), sink)
            await lane.call("echo", b"", 5)
            assert rig.handler.batches == [3]
            assert rig.handler.calls == [("echo", 3)]

    run(main)


def test_a_draining_server_tells_old_and_new_lanes(run):
    async def main():
        async with Rig(Handler(echo)) as rig:
            old = await rig.connect()
            assert not old.draining
            rig.server.start_draining()
            await until(lambda: old.draining)
            new = await rig.connect()
            await until(lambda: new.draining)
            sink = Sink()
            new.submit(request_of(4), sink)
            await sink.ended
            assert sink.error is None

    run(main)


def test_close_when_idle_waits_for_what_is_outstanding(run):
    async def main():
        async with Rig(Handler()) as rig:
            lane = await rig.connect()
            sink = Sink()
            lane.submit(request_of(4), sink)
            lane.close_when_idle()
            await until(lambda: rig.handler.requests)
            assert lane.is_open
            rig.handler.requests[0].respond(response_of(), final=True)
            await sink.ended
            await until(lambda: not lane.is_open)
            assert rig.losses == [(lane, [])]

    run(main)


def test_closing_hands_over_the_orphans_once(run):
    async def main():
        async with Rig(Handler()) as rig:
            lane = await rig.connect()
            request, sink = request_of(LARGE), Sink()
            lane.submit(request, sink).cancel()
            lane.close()
            lane.close()
            ((lost, (orphan,)),) = rig.losses
            assert lost is lane
            assert orphan.request is request
            assert orphan.sink is sink
            assert orphan.cancelled
            assert not orphan.has_responded
            assert lane.outstanding == 0
            late = Sink()
            lane.submit(request, late)
            await late.ended
            assert isinstance(late.error, UnavailableError)
            assert not sink.ended.done()
            await rig.all_gone()

    run(main)


def test_a_slow_reader_makes_the_client_unwritable_and_then_loses_the_lane(run):
    limits = LaneLimits(high_water_bytes=1 << 16, max_unsent_bytes=1 << 20)

    async def main():
        async with Rig(Handler(echo), client_limits=limits, same_node=False) as rig:
            lane = await rig.connect()
            rig.turning.is_paused = True
            sinks = []
            while lane.is_open:
                sinks.append(Sink())
                lane.submit(request_of(60_000), sinks[-1])
                await asyncio.sleep(0)
            assert not lane._connection.is_writable
            ((_, orphans),) = rig.losses
            assert [orphan.sink for orphan in orphans] == sinks
            rig.turning.is_paused = False
            await rig.all_gone()

    run(main)


def test_a_router_that_does_not_read_loses_its_lane(run, caplog):
    limits = LaneLimits(high_water_bytes=1 << 16, max_unsent_bytes=1 << 20)

    async def main():
        async with Rig(Handler(), limits=limits, same_node=False) as rig:
            lane = await rig.connect()
            sink = Sink()
            lane.submit(request_of(4), sink)
            await until(lambda: rig.handler.requests)
            (request,) = rig.handler.requests
            lane._connection.transport.pause_reading()
            while not request.is_finished:
                request.respond(response_of(60_000), final=False)
                await asyncio.sleep(0)
            assert request.is_cancelled
            request.respond(response_of(), final=True)
            lane._connection.transport.resume_reading()
            await until(lambda: rig.losses)
            assert [orphan.sink for orphan in rig.losses[0][1]] == [sink]

    run(main)
    assert "bytes unread" in caplog.text


def test_another_incarnation_is_refused(run):
    async def main():
        async with Rig(Handler(), incarnation="second") as rig:
            there = rig.endpoint
            wrong = InstanceEndpoint(there.name, "first", there.node_id, there.uds, there.tcp)
            with pytest.raises(UnavailableError, match="incarnation 'second' answers, not 'first'"):
                await rig.connect(endpoint=wrong)
            assert rig.losses == []

    run(main)


def test_nobody_listening_is_unavailable(run):
    async def main():
        slabs = SlabPool()
        endpoint = InstanceEndpoint("model/1#0", "", "node", "\0manta-nobody", ("127.0.0.1", 1))
        for same_node in (True, False):
            with pytest.raises(UnavailableError, match="no lane to instance 'model/1#0'"):
                await LaneClient(
                    endpoint,
                    same_node=same_node,
                    secret=b"s" * 16,
                    slabs=slabs,
                    on_lost=lambda *_: None,
                ).open()
        slabs.close()

    run(main)
