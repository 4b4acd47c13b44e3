# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""What a router does with tickets takes as many steps as there are tickets that it concerns."""

from dataclasses import replace

from backends.api.model_config import ModelConfig, SequenceBatching
from backends.api.request import SEQUENCE_START
from deployments.lane.frames import LOAD, Frame
from deployments.lane.messages import encode
from deployments.pool_queue.alarm import LoopClock
from deployments.pool_queue.held_queue import HeldQueue
from deployments.pool_queue.messages import Load
from deployments.pool_queue.own_request import OwnRequest
from deployments.pool_queue.ticket_queue import TicketQueue
from deployments.pool_queue.waiting_ticket import WaitingTicket
from deployments.scheduling.holds import NO_HOLDS
from tests.support.instruction_count import NotWalked
from tests.support.lane_rig import until
from tests.support.ticket_rig import CONFIG, EPOCH, Request, TicketRig

OTHERS = 10_000


class Looked(Request):
    """A request of a sequence that counts who asks whether it may leave."""

    look_count = 0

    @property
    def is_movable(self) -> bool:
        Looked.look_count += 1
        return super().is_movable


def movable_of(queue: TicketQueue) -> list[OwnRequest]:
    return [each.request for each in queue.tickets.movable]


class Crowd:
    """A router with one queue, in whose lane ten thousand tickets of another model wait."""

    def __init__(self) -> None:
        self.rig = TicketRig()

    async def __aenter__(self) -> TicketQueue:
        await self.rig.__aenter__()
        self.lane = await self.rig.lane()
        other = self.lane.queue_of("other", 1, replace(CONFIG, name="other"))
        for _ in range(OTHERS):
            request = Request()
            request.enqueue_ns = 1
            request.number = self.lane.write_down(WaitingTicket(other, request))
        self.lane.waiting = NotWalked(self.lane.waiting)
        return self.lane.queue_of("model", 1, CONFIG)

    async def __aexit__(self, *_: object) -> None:
        self.lane.waiting = dict(dict.items(self.lane.waiting))
        self.lane.close()
        await until(lambda: not self.rig.server.lanes)
        await self.rig.__aexit__()


async def test_what_may_wait_elsewhere_is_found_among_the_tickets_of_its_model() -> None:
    crowd = Crowd()
    async with crowd as queue:
        assert not queue.has_movable
        assert not queue.starts()
        begin = Request(correlation_id=1, flags=SEQUENCE_START)
        movable = [Request() for _ in range(3)]
        for request in (begin, *movable):
            queue.start(request)
        assert queue.has_movable
        assert movable_of(queue) == movable
        assert queue.starts() == [begin]
        load = memoryview(encode(Load("model", 1, 4)))
        crowd.lane.take_frames([Frame(LOAD, 0, 0, load, memoryview(b""))])
        assert queue.withdraw_oldest(1, crowd.rig.router.taken) == 1
        queue.withdraw(begin, crowd.rig.router.taken, is_start=True)
        assert movable_of(queue) == movable[1:]
        assert not queue.starts()
        await until(lambda: len(crowd.rig.router.moved) == 2)
        assert queue.waiting_count == 2
        crowd.lane.forget("model", 1)
        await until(lambda: crowd.rig.router.back == movable[1:])


async def test_what_is_tried_again_is_found_among_the_tickets_of_its_model() -> None:
    crowd = Crowd()
    async with crowd as queue:
        del crowd.rig.queues.by_model["model", 1]
        queue.on_turned_away = lambda: True
        bound = Request(correlation_id=1)
        queue.start(bound)
        await until(lambda: queue._parked)
        assert not queue.has_movable
        await until(lambda: not queue._parked)
        queue.start(start := Request(correlation_id=2, flags=SEQUENCE_START))
        await until(lambda: crowd.rig.router.back == [start])
        bound.cancel_in_queue()
        await bound.ended


async def test_what_stays_is_not_asked_whether_it_may_leave() -> None:
    async with TicketRig() as rig:
        queue = await rig.client()
        for each in range(1, 101):
            queue.start(Looked(correlation_id=each))
        Looked.look_count = 0
        for _ in range(100):
            assert not queue.has_movable
            assert not queue.withdraw_oldest(1, rig.router.taken)
            assert not queue.starts()
        assert not Looked.look_count
        queue._lane.close()
        await until(lambda: not rig.server.lanes)


async def test_what_stays_in_a_queue_held_here_is_not_asked_whether_it_may_leave() -> None:
    config = ModelConfig("model", max_batch_size=4, sequence_batching=SequenceBatching())
    held = HeldQueue(config, 1, EPOCH, LoopClock(), NO_HOLDS)
    for each in range(1, 101):
        held.start(Looked(correlation_id=each, flags=SEQUENCE_START))
    assert held.waiting_count == 100
    Looked.look_count = 0
    assert not held.has_movable
    assert not Looked.look_count
    held.close()
