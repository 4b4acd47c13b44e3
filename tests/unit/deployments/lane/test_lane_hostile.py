# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Lanes whose peer lies or proves nothing: it is cut off, and no other is harmed."""

import asyncio

import pytest

from backends.api.errors import UnavailableError
from backends.api.request import Extent, InferenceRequest, InferenceResponse, Tensor
from deployments.lane.frames import (
    CALL,
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
from tests.support.lane_rig import (
    LARGE,
    REQUEST,
    SMALL,
    Handler,
    RawPeer,
    RawServer,
    Rig,
    Sink,
    echo,
    frame,
    inflight_count,
    request_of,
    response_of,
    until,
)

ANSWER = encode(response_of(64))
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
            assert inflight_count(rig.server) == 0
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

        async with RawServer(serve) as connect:
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


def test_a_server_that_stalls_in_the_handshake_is_unavailable(run):
    async def main():
        async def serve(reader, writer):
            await RawPeer(reader, writer).closed_by_peer()

        async with RawServer(serve) as connect:
            with pytest.raises(UnavailableError, match="no answer within"):
                await connect(on_lost=lambda *_: None, limits=LaneLimits(handshake_timeout_s=0.05))

    run(main)


def test_strangers_beyond_the_limit_are_turned_away(run, monkeypatch):
    monkeypatch.setattr("deployments.lane.connection.MAX_UNPROVED_COUNT", 2)

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
