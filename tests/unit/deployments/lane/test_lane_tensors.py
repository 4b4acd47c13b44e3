# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Large tensors on lanes: slabs, tails, and what is given back."""

import gc

import pytest

from backends.api.errors import (
    UnavailableError,
)
from backends.api.request import Extent, Tensor
from tests.support.lane_rig import Handler, Rig, Sink, echo, request_of, response_of, until

LARGE = 300_000


@pytest.mark.parametrize("same_node", [True, False], ids=["uds", "tcp"])
@pytest.mark.parametrize("sizes", [(LARGE,), (10, LARGE, 0, LARGE + 7, 65536, 65535)])
def test_large_tensors_arrive_and_leave_nothing_behind(run, same_node, sizes):
    async def main():
        async with Rig(Handler(echo), same_node=same_node) as rig:
            lane = await rig.connect()
            assert lane._connection.slabs.sender.uses_slabs is same_node
            request = request_of(*sizes)
            for _ in range(3):
                sink = Sink()
                lane.submit(request, sink)
                await sink.ended
                (response,) = sink.responses
                assert [bytes(t.data) for t in response.outputs] == [b"x" * n for n in sizes]
                assert all(t.extent is None for t in response.outputs)
                assert (rig.client_slabs.mapped_bytes > 0) is same_node
            del sink, response
            await until(lambda: not rig.client_slabs.used_blocks)
            await until(lambda: not rig.server_slabs.used_blocks)
            assert lane.is_open

    run(main)


def test_the_callers_tensors_are_not_touched(run):
    async def main():
        async with Rig(Handler(echo)) as rig:
            lane = await rig.connect()
            request = request_of(LARGE, 10)
            tensors = list(request.inputs)
            sink = Sink()
            lane.submit(request, sink)
            await sink.ended
            assert all(now is then for now, then in zip(request.inputs, tensors, strict=True))
            assert request.inputs[0].extent is None
            assert len(request.inputs[0].data) == LARGE

    run(main)


def test_data_inside_a_slab_of_ours_is_sent_without_a_copy(run):
    async def main():
        async with Rig(Handler()) as rig:
            lane = await rig.connect()
            body = rig.client_slabs.allocate(2 * LARGE + 100, align_at=100)
            body[100 : 100 + LARGE] = b"a" * LARGE
            body[100 + LARGE :] = b"b" * LARGE
            request = request_of()
            request.inputs = [
                Tensor("A", "UINT8", (LARGE,), body[100 : 100 + LARGE]),
                Tensor("B", "UINT8", (LARGE,), body[100 + LARGE :]),
            ]
            sink = Sink()
            lane.submit(request, sink)
            del body
            await until(lambda: rig.handler.requests)
            assert rig.client_slabs.used_blocks == 1
            (received,) = rig.handler.requests
            assert [bytes(t.data[:2]) for t in received.request.inputs] == [b"aa", b"bb"]
            # The requester forgets the bytes; the instance still sees them.
            request.inputs = []
            gc.collect()
            assert rig.client_slabs.used_blocks == 1
            received.request.inputs.clear()
            received.respond(response_of(4), final=True)
            await sink.ended
            await until(lambda: not rig.client_slabs.used_blocks)

    run(main)


def test_a_full_pool_falls_back_to_tails(run):
    async def main():
        async with Rig(Handler(echo), pool_bytes=65536) as rig:
            lane = await rig.connect()
            assert lane._connection.slabs.sender.uses_slabs
            sink = Sink()
            lane.submit(request_of(LARGE, LARGE), sink)
            await sink.ended
            assert [bytes(t.data) for t in sink.responses[0].outputs] == [b"x" * LARGE] * 2

    run(main)


def test_a_peer_unmaps_the_slabs_that_are_retired(run):
    async def main():
        async with Rig(
            Handler(lambda r: r.respond(response_of(4), final=True)), pool_bytes=1 << 20
        ) as rig:
            lane = await rig.connect()
            (server_lane,) = rig.lanes
            mappings = server_lane.connection.slabs.reader._mappings
            for size, slab_id in ((100_000, 1), (500_000, 2), (100_000, 3)):
                sink = Sink()
                lane.submit(request_of(size), sink)
                await sink.ended
                await until(lambda: not rig.client_slabs.used_blocks)
                await until(lambda wanted=[slab_id]: list(mappings) == wanted)
                assert rig.client_slabs.mapped_bytes == 1 << 20

    run(main)


def test_slabs_that_cannot_be_mapped_any_more_cost_one_request_and_then_tails(run):
    async def main():
        async with Rig(Handler(echo)) as rig:
            lane = await rig.connect()
            (server_lane,) = rig.lanes
            # The server's view of the client's process: as if /proc were gone.
            server_lane.connection.slabs.peer_pid = 2**30
            first, second = Sink(), Sink()
            lane.submit(request_of(LARGE), first)
            await first.ended
            assert isinstance(first.error, UnavailableError)
            lane.submit(request_of(LARGE), second)
            await second.ended
            assert bytes(second.responses[0].outputs[0].data) == b"x" * LARGE
            await until(lambda: not rig.client_slabs.used_blocks)

    run(main)


def test_answers_in_slabs_that_cannot_be_mapped_fail_their_request(run):
    async def main():
        async with Rig(Handler(lambda r: r.respond(response_of(LARGE), final=True))) as rig:
            lane = await rig.connect()
            lane._connection.slabs.peer_pid = 2**30
            first, second = Sink(), Sink()
            lane.submit(request_of(4), first)
            await first.ended
            assert isinstance(first.error, UnavailableError)
            assert lane.outstanding == 0
            lane.submit(request_of(4), second)
            await second.ended
            assert bytes(second.responses[0].outputs[0].data) == b"y" * LARGE
            await until(lambda: not rig.server_slabs.used_blocks)

    run(main)


def test_extents_of_client_regions_pass_through_whatever_the_region_is_called(run):
    async def main():
        async with Rig(Handler(echo)) as rig:
            lane = await rig.connect()
            request = request_of(LARGE)
            extents = [Extent("tail", 5, 10), Extent("slab", 0, 2**40), Extent("region", 1, 2)]
            request.inputs += [Tensor("R", "UINT8", (10,), extent=extent) for extent in extents]
            sink = Sink()
            lane.submit(request, sink)
            await sink.ended
            outputs = sink.responses[0].outputs
            assert [t.extent for t in outputs] == [None, *extents]

    run(main)


def test_received_views_outlive_the_lane(run):
    async def main():
        async with Rig(Handler(echo)) as rig:
            lane = await rig.connect()
            sink = Sink()
            lane.submit(request_of(LARGE), sink)
            await sink.ended
            kept = sink.responses[0].outputs[0].data[5:10]
            del sink
            assert rig.server_slabs.used_blocks == 1
            lane.close()
            await until(lambda: not rig.lanes)
            assert bytes(kept) == b"xxxxx"

    run(main)
