# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Lanes whose peer dies, lies or stalls: every sink is accounted for, every slab comes back."""

import asyncio
import os
import signal
import subprocess
import sys
from typing import TextIO

import pytest

from backends.api.errors import UnavailableError
from deployments.contracts.routing_table import InstanceEndpoint
from deployments.lane.client import LaneClient
from deployments.lane.frames import (
    CALL,
    CALL_RESULT,
    CANCEL,
    ERROR,
    FLAG_EXTENTS,
    FLAG_FINAL,
    INFER,
    RESPONSE,
    SETUP,
)
from deployments.lane.messages import LaneLimits, Setup, encode
from deployments.slabs.pool import SlabPool
from tests.support.lane_rig import (
    LARGE,
    REQUEST,
    SECRET,
    SMALL,
    TAIL_REQUEST,
    Handler,
    RawPeer,
    RawServer,
    Rig,
    Sink,
    echo,
    frame,
    request_of,
    response_of,
    until,
)


async def nothing(peer):
    await until(lambda: True)


async def part_of_hello(peer):
    peer.write(peer.handshake.open()[:7])
    await peer.writer.drain()


async def hello(peer):
    peer.write(peer.handshake.open())
    await peer.reader.readexactly(72)


async def part_of_proof(peer):
    peer.write(peer.handshake.open())
    peer.write(peer.handshake.feed(await peer.reader.readexactly(72))[:9])
    await peer.writer.drain()


async def proof(peer):
    await peer.prove()


async def part_of_set_up(peer):
    await peer.prove()
    peer.write(frame(SETUP, message=encode(Setup())))
    await peer.next_frame()


async def set_up(peer):
    await peer.set_up()


def after_set_up(data: bytes):
    async def stage(peer):
        await peer.set_up()
        peer.write(data)
        await peer.writer.drain()

    return stage


STAGES = {
    "nothing": nothing,
    "part_of_hello": part_of_hello,
    "hello": hello,
    "part_of_proof": part_of_proof,
    "proof": proof,
    "part_of_set_up": part_of_set_up,
    "set_up": set_up,
    "part_of_prefix": after_set_up(REQUEST[:11]),
    "part_of_message": after_set_up(REQUEST[:50]),
    "part_of_tail": after_set_up(TAIL_REQUEST[:100_000]),
    "request_and_part": after_set_up(REQUEST + REQUEST[:30]),
    "requests": after_set_up(REQUEST + frame(INFER, 2, SMALL) + frame(CANCEL, 1)),
    "call": after_set_up(frame(CALL, 5, encode(["echo", b""]))),
}


@pytest.mark.parametrize("how", ["reset", "close"])
@pytest.mark.parametrize("stage", STAGES)
def test_a_router_that_dies_leaves_nothing_behind(run, stage, how):
    async def main():
        async with Rig(Handler()) as rig:
            peer = await RawPeer.to(rig)
            await STAGES[stage](peer)
            await until(lambda: rig.lanes)
            if stage.startswith("request"):
                await until(lambda: rig.handler.requests)
            if how == "reset":
                peer.die()
            else:
                peer.writer.close()
            await rig.all_gone()
            assert set(map(id, rig.handler.cancels)) == set(map(id, rig.handler.requests))
            for request in rig.handler.requests:
                assert request.is_cancelled
                request.respond(response_of(64), final=True)
                request.fail(UnavailableError("late"))

    run(main)


async def _server_nothing(peer):
    await peer.reader.read(1)


async def _server_part_of_challenge(peer):
    peer.write(b"MANTA\0\0\1 something")
    await peer.writer.drain()


async def _server_accept(peer):
    await peer.accept()


@pytest.mark.parametrize("stage", [_server_nothing, _server_part_of_challenge, _server_accept])
def test_an_instance_that_dies_before_the_lane_is_open_is_unavailable(run, stage):
    async def main():
        async def serve(reader, writer):
            peer = RawPeer(reader, writer)
            await stage(peer)
            peer.die()

        async with RawServer(serve) as connect:
            losses = []
            with pytest.raises(UnavailableError, match="no lane to instance"):
                await connect(on_lost=lambda *loss: losses.append(loss))
            assert losses == []

    run(main)


ANSWER = encode(response_of(64))
SERVER_STAGES = {
    "nothing": b"",
    "part_of_prefix": frame(RESPONSE, 1, ANSWER, flags=FLAG_FINAL)[:9],
    "part_of_message": frame(RESPONSE, 1, ANSWER, flags=FLAG_FINAL)[:50],
    "response_not_final": frame(RESPONSE, 1, ANSWER),
    "final": frame(RESPONSE, 1, ANSWER, flags=FLAG_FINAL),
    "error": frame(ERROR, 1, encode(["Internal", "broken"]), flags=FLAG_FINAL),
    "unknown_id": frame(RESPONSE, 77, ANSWER, flags=FLAG_FINAL),
    "unknown_call": frame(CALL_RESULT, 77, b"answer"),
    "part_of_tail": frame(RESPONSE, 1, ANSWER, bytes(LARGE), FLAG_EXTENTS)[:90_000],
}


@pytest.mark.parametrize("stage", SERVER_STAGES)
def test_every_sink_is_answered_or_orphaned_when_the_instance_dies(run, stage):
    async def main():
        async def serve(reader, writer):
            peer = RawPeer(reader, writer)
            await peer.accept_set_up()
            for _ in range(2):
                await peer.next_frame()
            peer.write(SERVER_STAGES[stage])
            await peer.writer.drain()

        async with RawServer(serve) as connect:
            lost = asyncio.get_running_loop().create_future()
            lane = await connect(on_lost=lambda lane, orphans: lost.set_result(orphans))
            sinks = {1: Sink(), 2: Sink()}
            for sink in sinks.values():
                lane.submit(request_of(64), sink)
            orphans = await lost
            ended = {1} if stage in {"final", "error"} else set()
            assert {n for n, sink in sinks.items() if sink.ended.done()} == ended
            assert [o.sink for o in orphans] == [s for n, s in sinks.items() if n not in ended]
            assert orphans[0].has_responded is (stage == "response_not_final")
            assert not lane.is_open
            assert lane.outstanding == 0

    run(main)


@pytest.mark.parametrize("stage", ["nothing", "hello", "proof", "part_of_set_up"])
def test_a_peer_that_stalls_in_the_handshake_is_dropped(run, stage):
    async def main():
        async with Rig(Handler(), limits=LaneLimits(handshake_timeout_s=0.05)) as rig:
            peer = await RawPeer.to(rig)
            await STAGES[stage](peer)
            await peer.closed_by_peer()
            peer.die()
            await rig.all_gone()

    run(main)


def test_a_lost_router_gives_back_the_slabs_it_held(run):
    async def main():
        async with Rig(Handler(echo)) as rig:
            lane = await rig.connect()
            sinks = [Sink() for _ in range(3)]
            for sink in sinks:
                lane.submit(request_of(LARGE), sink)
            await asyncio.gather(*(sink.ended for sink in sinks))
            (server_lane,) = rig.lanes
            assert server_lane.connection.slabs.sender.held_count == 3
            assert rig.server_slabs.used_blocks == 3
            lane._connection.transport.abort()
            await until(lambda: not rig.server_slabs.used_blocks)
            assert bytes(sinks[0].responses[0].outputs[0].data) == b"x" * LARGE

    run(main)


def test_a_lost_instance_gives_back_the_slabs_it_held(run):
    async def main():
        async with Rig(Handler()) as rig:
            lane = await rig.connect()
            sinks = [Sink() for _ in range(3)]
            for sink in sinks:
                lane.submit(request_of(LARGE), sink)
            await until(lambda: len(rig.handler.requests) == 3)
            assert rig.client_slabs.used_blocks == 3
            (server_lane,) = rig.lanes
            server_lane.connection.transport.abort()
            await until(lambda: rig.losses)
            assert [orphan.sink for orphan in rig.losses[0][1]] == sinks
            assert rig.client_slabs.used_blocks == 0
            assert all(request.is_cancelled for request in rig.handler.requests)

    run(main)


def spawn(role: str, uds: str, log: TextIO | None = None) -> subprocess.Popen:
    return subprocess.Popen(
        [sys.executable, "-m", "tests.support.lane_process", role, uds[1:]],
        stdout=subprocess.PIPE,
        stderr=log,
        text=True,
    )


@pytest.mark.parametrize("is_crash", [True, False])
def test_a_lane_tells_a_crash_and_what_was_executed_from_a_kill(run, tmp_path, is_crash):
    uds = f"\0manta-crash-{os.getpid()}"

    async def main():
        slabs = SlabPool()
        lost = asyncio.get_running_loop().create_future()
        lane = await LaneClient(
            InstanceEndpoint("model/1#0", "", "node", uds, ("", 0)),
            same_node=True,
            secret=SECRET,
            slabs=slabs,
            on_lost=lambda lane, orphans: lost.set_result(orphans),
        ).open()
        lane.submit(request_of(4, id="stay"), Sink())
        await lane.call("echo", b"the request is there", 20)
        if is_crash:
            lane.submit(request_of(4, id="crash"), Sink())
        else:
            child.send_signal(signal.SIGKILL)
        orphans = await lost
        crash = lane.crash
        if is_crash:
            assert (crash.signal, crash.place) == ("SIGSEGV", "")
            assert crash.executing == {orphans[1].id}
        else:
            assert crash is None
        slabs.close()

    with (tmp_path / "log").open("w") as log, spawn("crash", uds, log) as child:
        try:
            assert child.stdout.readline() == "ready\n"
            run(main)
        finally:
            child.kill()


def test_slabs_cross_processes_and_survive_a_killed_instance(run):
    uds = f"\0manta-process-{os.getpid()}"

    async def main():
        slabs = SlabPool()
        lost = asyncio.get_running_loop().create_future()
        endpoint = InstanceEndpoint("model/1#0", "", "node", uds, ("", 0))
        lane = await LaneClient(
            endpoint,
            same_node=True,
            secret=SECRET,
            slabs=slabs,
            on_lost=lambda lane, orphans: lost.set_result(orphans),
        ).open()
        assert lane._connection.slabs.sender.uses_slabs
        answered, waiting = Sink(), Sink()
        lane.submit(request_of(LARGE, fill=b"q"), answered)
        await answered.ended
        lane.submit(request_of(LARGE, id="stay"), waiting)
        await lane.call("echo", b"the request is there", 20)
        child.send_signal(signal.SIGKILL)
        assert [orphan.sink for orphan in await lost] == [waiting]
        assert bytes(answered.responses[0].outputs[0].data) == b"q" * LARGE
        assert slabs.used_blocks == 0
        slabs.close()

    with spawn("serve", uds) as child:
        try:
            assert child.stdout.readline() == "ready\n"
            run(main)
        finally:
            child.kill()


def test_a_killed_router_gives_back_its_slabs(run):
    async def main():
        def answer(request):
            if request.request.id != "stay":
                echo(request)
            else:
                rig.handler.requests.append(request)

        async with Rig(Handler(answer)) as rig:
            with spawn("submit", rig.uds) as child:
                try:
                    await until(lambda: rig.handler.requests)
                    (request,) = rig.handler.requests
                    assert rig.server_slabs.used_blocks == 1
                    child.send_signal(signal.SIGKILL)
                    await until(lambda: rig.handler.cancels)
                    assert bytes(request.request.inputs[0].data[:2]) == b"xx"
                    await rig.all_gone()
                finally:
                    child.kill()

    run(main)
