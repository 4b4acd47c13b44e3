# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Frames about pools that no correct peer sends, and parts that come in pieces."""

import asyncio

import pytest

from deployments.lane.batches import Adopted, BatchPart, Forget, Holder
from deployments.lane.frames import ADOPT, ADOPTED, BATCH, DECLINE, FORGET
from deployments.lane.messages import DEFAULT_LIMITS, encode
from tests.support.lane_rig import (
    REQUEST,
    Handler,
    RawPeer,
    Rig,
    frame,
    inflight_count,
    request_of,
    until,
)


class PoolHandler(Handler):
    """Keeps parts, too."""

    def __init__(self) -> None:
        super().__init__()
        self.parts: list[tuple[BatchPart, int]] = []
        self.is_lost = False

    def adopt(self, lane, message: Holder) -> Adopted:
        return Adopted()

    def received_part(self, part: BatchPart, requests) -> None:
        self.parts.append((part, len(requests)))

    def holder_lost(self) -> None:
        self.is_lost = True


def batch(here_count: int = 1, **fields) -> bytes:
    return frame(BATCH, message=encode(BatchPart(1, 1, here_count, **fields)))


BAD = {
    "negative epoch": frame(BATCH, message=encode(BatchPart(-1, 1, 1))),
    "huge number": frame(BATCH, message=encode(BatchPart(1, 1 << 63, 1))),
    "negative count": batch(-1),
    "too many requests": batch(DEFAULT_LIMITS.max_inflight_count + 1),
    "too many in all": batch(1, total_count=DEFAULT_LIMITS.max_inflight_count + 1),
    "slots that do not match": batch(2, slots=[1]),
    "times that do not match": batch(2, queued_ns=[1, 2, 3]),
    "waits that do not match": batch(2, waited_ns=[1, 2, 3]),
    "a negative wait": batch(1, waited_ns=[-1]),
    "negative slot": batch(1, slots=[-1]),
    "negative kept slot": batch(1, kept=[-1]),
    "a batch within a batch": batch(2) + batch(1),
    "no message": frame(BATCH),
    "adoption without an epoch": frame(ADOPT, message=encode(Holder(0))),
    "forget nobody": frame(FORGET, message=encode(Forget(1, 1, 1, -1))),
    "huge party": frame(BATCH, message=encode(BatchPart(1, 1, 1, party=1 << 40))),
    "forget nothing": frame(FORGET, message=encode(Forget(1, 1, 0))),
    "an answer nobody asked for": frame(ADOPTED, message=encode(Adopted())),
}


@pytest.mark.parametrize("data", BAD.values(), ids=BAD)
async def test_a_frame_that_no_router_sends_closes_the_lane(data):
    async with Rig(PoolHandler()) as rig:
        peer = await RawPeer.to(rig)
        await peer.set_up()
        peer.write(data)
        await peer.closed_by_peer()
        peer.die()
        await rig.all_gone()


async def test_a_part_may_come_in_pieces():
    handler = PoolHandler()
    async with Rig(handler) as rig:
        peer = await RawPeer.to(rig)
        await peer.set_up()
        data = batch(1, total_count=1) + REQUEST
        for byte in range(0, len(data), 7):
            peer.write(data[byte : byte + 7])
            await asyncio.sleep(0)
        await until(lambda: handler.parts)
        assert handler.parts == [(BatchPart(1, 1, 1, 1, [], [], [], waited_ns=[]), 1)]
        assert handler.batches == []
        peer.die()


async def test_a_part_that_comes_by_half_goes_with_its_lane():
    handler = PoolHandler()
    async with Rig(handler) as rig:
        peer = await RawPeer.to(rig)
        await peer.set_up()
        peer.write(batch(2) + REQUEST)
        await until(lambda: inflight_count(rig.server) == 1)
        peer.die()
        await rig.all_gone()
        assert handler.parts == []
        assert not handler.is_lost


async def test_only_the_holder_declines():
    handler = PoolHandler()
    async with Rig(handler) as rig:
        holder, other = await RawPeer.to(rig), await RawPeer.to(rig)
        for peer in (holder, other):
            await peer.set_up()
        holder.write(frame(ADOPT, message=encode(Holder(5))))
        await holder.next_frame()
        # The handler has no method for it, which would close the lane.
        other.write(frame(DECLINE) + batch(0))
        await until(lambda: handler.parts)
        holder.die()
        await until(lambda: handler.is_lost)
        other.die()
        await rig.all_gone()


async def test_a_request_refused_as_it_comes_counts_as_come():
    handler = PoolHandler()
    limits = type(DEFAULT_LIMITS)(max_inflight_count=1)
    async with Rig(handler, limits=limits, client_limits=DEFAULT_LIMITS) as rig:
        peer = await RawPeer.to(rig)
        await peer.set_up()
        single = frame(2, 1, encode(request_of(64)))
        refused = frame(2, 2, encode(request_of(64)))
        peer.write(single + batch(1, slots=[3]) + refused)
        await until(lambda: handler.parts)
        part, count = handler.parts[0]
        assert (part.here_count, part.unsent_count, list(part.slots), count) == (0, 1, [], 0)
        peer.die()
        await rig.all_gone()
