# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Lanes whose peer dies, lies or stalls: every sink is accounted for, every slab comes back."""

import asyncio
import os
import signal
import subprocess
import sys

import pytest

from backends.api.errors import UnavailableError
from backends.api.request import Extent, InferenceRequest, InferenceResponse, Tensor
from deployments.contracts.routing_table import InstanceEndpoint
from deployments.lane.client import LaneClient
from deployments.lane.frames import (
    CALL,
    CALL_RESULT,
    CANCEL,
    ERROR,
    FLAG_EXTENTS,
    FLAG_FINAL,
    GOAWAY,
    INFER,
    RELEASE,
    RESPONSE,
    SETUP,
    SLAB,
)
from deployments.lane.messages import LaneLimits, Setup, encode
from deployments.slabs.pool import SlabPool
from tests.support.lane_rig import (
    SECRET,
    Handler,
    RawPeer,
    Rig,
    Sink,
    echo,
    frame,
    request_of,
    response_of,
    until,
)

SMALL = encode(request_of(64))
LARGE = 300_000
REQUEST = frame(INFER, 1, SMALL)
TAIL_REQUEST = frame(
    INFER,
    1,
    encode(
        InferenceRequest(
            "m", inputs=[Tensor("A", "UINT8", (9,), extent=Extent("tail", 0, LARGE, -1))]
        )
    ),
    bytes(LARGE),
    FLAG_EXTENTS,
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

        async with raw_server(serve) as connect:
            losses = []
            with pytest.raises(UnavailableError, match="no lane to instance"):
                await connect(on_lost=lambda *loss: losses.append(loss))
            assert losses == []

    run(main)


class raw_server:  # noqa: N801 - used as a function
    """A TCP server of raw peers, and a way to connect a client to it."""

    def __init__(self, serve):
        self._serve = serve
        self.slabs = SlabPool()

    async def __aenter__(self):
        self._done = asyncio.Event()

        async def serve(reader, writer):
            try:
                await self._serve(reader, writer)
            finally:
                writer.close()
                self._done.set()

        self._server = await asyncio.start_server(serve, "127.0.0.1", 0)
        port = self._server.sockets[0].getsockname()[1]
        endpoint = InstanceEndpoint("model/1#0", "", "node", "", ("127.0.0.1", port))

        async def connect(**changes):
            arguments = {"same_node": False, "secret": SECRET, "slabs": self.slabs}
            return await LaneClient.connect(endpoint, **(arguments | changes))

        return connect

    async def __aexit__(self, *_):
        self._server.close()
        await self._done.wait()
        assert self.slabs.used_blocks == 0
        self.slabs.close()


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

        async with raw_server(serve) as connect:
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


HOSTILE_TO_SERVER = {
    "unknown_kind": frame(99),
    "setup_again": frame(SETUP, message=encode(Setup())),
    "response": frame(RESPONSE, 1, ANSWER, flags=FLAG_FINAL),
    "goaway": frame(GOAWAY),
    "not_msgpack": frame(INFER, 1, b"\xc1garbage"),
    "empty_message": frame(INFER, 1),
    "wrong_types": frame(INFER, 1, encode([1, 2, 3])),
    "trailing_bytes": frame(INFER, 1, SMALL + b"x"),
    "same_id_twice": REQUEST + REQUEST,
    "tail_without_extents": frame(INFER, 1, SMALL, b"tail"),
    "call_garbage": frame(CALL, 1, b"\x00"),
    "release_not_held": frame(RELEASE, 0, bytes(12)),
    "release_cut": frame(RELEASE, 0, bytes(11)),
    "slab_over_tcp": frame(SLAB, 1, bytes(12)),
    "huge_message": frame(INFER, 1, SMALL)[:8] + b"\xff" * 12,
}


def _with_extents(*extents: Extent, tail: bytes = b"") -> bytes:
    tensors = [Tensor("A", "UINT8", (9,), extent=extent) for extent in extents]
    return frame(INFER, 1, encode(InferenceRequest("m", inputs=tensors)), tail, FLAG_EXTENTS)


HOSTILE_TO_SERVER |= {
    "tail_overlap": _with_extents(
        Extent("tail", 0, 50, -1), Extent("tail", 25, 50, -1), tail=bytes(100)
    ),
    "tail_short": _with_extents(Extent("tail", 0, 101, -1), tail=bytes(100)),
    "tail_unused": _with_extents(Extent("tail", 0, 99, -1), tail=bytes(100)),
    "tail_negative": _with_extents(Extent("tail", -10, 110, -1), tail=bytes(100)),
    "tail_negative_size": _with_extents(Extent("tail", 0, -1, -1), tail=bytes(100)),
    "tail_huge": _with_extents(Extent("tail", 0, 2**63, -1), tail=bytes(100)),
    "slab_not_announced": _with_extents(Extent("slab", 0, 100, 1)),
    "slab_negative_id": _with_extents(Extent("slab", 0, 100, -1)),
    "unknown_source": _with_extents(Extent("disk", 0, 100, 1)),
}


@pytest.mark.parametrize("attack", HOSTILE_TO_SERVER)
def test_a_bad_frame_closes_the_lane_and_harms_no_other(run, attack, caplog):
    async def main():
        async with Rig(Handler(echo if attack != "same_id_twice" else None)) as rig:
            peer = await RawPeer.to(rig)
            await peer.set_up()
            other = await rig.connect()
            peer.write(HOSTILE_TO_SERVER[attack])
            await peer.closed_by_peer()
            peer.die()
            await until(lambda: len(rig.lanes) == 1)
            assert rig.server.inflight_count == 0
            if rig.handler.answer is not None:
                sink = Sink()
                other.submit(request_of(LARGE), sink)
                await sink.ended
                assert sink.error is None

    run(main)
    assert "lane from a router closed: " in caplog.text


HOSTILE_TO_CLIENT = {
    "infer": REQUEST,
    "empty_not_final": frame(RESPONSE, 1),
    "garbage": frame(RESPONSE, 1, b"\xc1", flags=FLAG_FINAL),
    "error_garbage": frame(ERROR, 1, b"\xc1"),
    "tail_without_extents": frame(RESPONSE, 1, ANSWER, b"tail", FLAG_FINAL),
    "extent_without_slab": frame(
        RESPONSE,
        1,
        encode(
            InferenceResponse(
                "m", "1", outputs=[Tensor("A", "UINT8", (9,), extent=Extent("slab", 0, 9, 4))]
            )
        ),
        flags=FLAG_FINAL | FLAG_EXTENTS,
    ),
}


@pytest.mark.parametrize("attack", HOSTILE_TO_CLIENT)
def test_a_bad_answer_orphans_the_requests(run, attack):
    async def main():
        async def serve(reader, writer):
            peer = RawPeer(reader, writer)
            await peer.accept_set_up()
            await peer.next_frame()
            peer.write(HOSTILE_TO_CLIENT[attack])
            await peer.closed_by_peer()

        async with raw_server(serve) as connect:
            lost = asyncio.get_running_loop().create_future()
            lane = await connect(on_lost=lambda lane, orphans: lost.set_result(orphans))
            sink = Sink()
            lane.submit(request_of(64), sink)
            assert [orphan.sink for orphan in await lost] == [sink]
            assert not sink.ended.done()

    run(main)


@pytest.mark.parametrize(
    "opening",
    [b"GET / HTTP/1.1\r\n\r\nand then some more of it......", b"MANTA\0\0\1" + bytes(100)],
    ids=["http", "proof_unasked"],
)
def test_a_stranger_is_cut_off_without_an_answer(run, opening):
    async def main():
        async with Rig(Handler()) as rig:
            peer = await RawPeer.to(rig)
            peer.write(opening)
            with pytest.raises((EOFError, ConnectionError)):
                await peer.next_frame()
            peer.die()
            await rig.all_gone()

    run(main)


def test_a_wrong_secret_is_refused_on_either_side(run):
    async def main():
        async with Rig(Handler()) as rig:
            with pytest.raises(UnavailableError, match="server does not know"):
                await rig.connect(secret=b"not the cluster's one")
            assert rig.losses == []
            await rig.all_gone()

    run(main)


def test_nothing_but_the_set_up_is_taken_before_it_is_done(run):
    async def main():
        async with Rig(Handler()) as rig:
            peer = await RawPeer.to(rig)
            await peer.prove()
            peer.write(REQUEST)
            await peer.closed_by_peer()
            peer.die()
            await rig.all_gone()
            assert rig.handler.requests == []

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


def test_a_server_that_stalls_in_the_handshake_is_unavailable(run):
    async def main():
        async def serve(reader, writer):
            await RawPeer(reader, writer).closed_by_peer()

        async with raw_server(serve) as connect:
            with pytest.raises(UnavailableError, match="no answer within"):
                await connect(on_lost=lambda *_: None, limits=LaneLimits(handshake_timeout_s=0.05))

    run(main)


def test_strangers_beyond_the_limit_are_turned_away(run, monkeypatch):
    monkeypatch.setattr("deployments.lane.server_lane.MAX_UNPROVED_COUNT", 2)

    async def main():
        async with Rig(Handler()) as rig:
            peers = [await RawPeer.to(rig) for _ in range(3)]
            await peers[2].closed_by_peer()
            assert len(rig.lanes) == 2
            for peer in peers:
                peer.die()
            await rig.all_gone()
            lane = await rig.connect()
            lane.close()
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


def spawn(role: str, uds: str) -> subprocess.Popen:
    return subprocess.Popen(
        [sys.executable, "-m", "tests.support.lane_process", role, uds[1:]],
        stdout=subprocess.PIPE,
        text=True,
    )


def test_slabs_cross_processes_and_survive_a_killed_instance(run):
    uds = f"\0manta-process-{os.getpid()}"

    async def main():
        slabs = SlabPool()
        lost = asyncio.get_running_loop().create_future()
        endpoint = InstanceEndpoint("model/1#0", "", "node", uds, ("", 0))
        lane = await LaneClient.connect(
            endpoint,
            same_node=True,
            secret=SECRET,
            slabs=slabs,
            on_lost=lambda lane, orphans: lost.set_result(orphans),
        )
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
