# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Other routers' tickets in a queue that is held here, beside the requests of its own process."""

import asyncio
import contextlib
import dataclasses

import pytest

from backends.api.errors import RequestCancelledError, UnavailableError
from backends.api.model_config import SequenceBatching
from backends.api.request import SEQUENCE_END, SEQUENCE_START
from deployments.contracts.routing_table import InstanceEndpoint
from deployments.lane.batches import Adopted, Done, Forget
from deployments.lane.client import LaneClient
from deployments.pool_queue.held_queue import HeldQueue
from deployments.pool_queue.precise_timer import PreciseTimer
from deployments.scheduling.holds import NO_HOLDS
from tests.support.lane_rig import until
from tests.support.ticket_rig import CONFIG, EPOCH, InstanceLane, Request, TicketRig

PLAIN = dataclasses.replace(CONFIG, dynamic_batching=None)
BATCHING = SequenceBatching(max_sequence_idle_us=60_000_000)


class Instance(InstanceLane, LaneClient):
    """The holder's lane to an instance: notes what it is told."""

    def __init__(self):
        super().__init__()
        self.endpoint = InstanceEndpoint("m/1#0", "", "node", "", ("", 0))
        self.parts = []
        self.forgotten = []
        self.asked_count = 0

    def ask(self):
        self.asked_count += 1

    def start_batch(self, part, requests):
        for request in requests:
            request.lane = self
        self.parts.append((part, list(requests)))

    def forget(self, forget):
        self.forgotten.append(forget)


class StoppedClock:
    """Time does not pass: no alarm rings."""

    def call_at_ns(self, at_ns, callback):
        del at_ns, callback
        return self

    def cancel(self):
        pass


class DueClock(StoppedClock):
    """Time does not pass: what is due already rings in the loop's next turn, and nothing else."""

    def call_at_ns(self, at_ns, callback):
        if at_ns:
            return self
        return asyncio.get_running_loop().call_soon(callback)


@contextlib.asynccontextmanager
async def holding(config=CONFIG, clock=None):
    """A holder with a real queue of two instances, one of them busy for a start."""
    with contextlib.closing(PreciseTimer()) as timer:
        async with TicketRig() as rig:
            rig.queue = held = HeldQueue(config, 1, EPOCH, clock or timer, NO_HOLDS)
            rig.queues.by_model = {("model", 1): held}
            rig.queues.party_lost = held.party_lost
            rig.queues.queue_at = lambda _: held
            rig.a, rig.b = Instance(), Instance()
            held.join("a", rig.a, Adopted())
            yield rig
            held.close()


@pytest.fixture
def busy():
    """Have the only instance execute something, so that what comes waits."""

    async def make(rig):
        rig.queue.start(first := Request(1, 9))
        await until(lambda: rig.a.parts)
        assert rig.a.parts[0][1] == [first]
        return rig.a.parts[0][0].number

    return make


def test_requests_of_all_routers_of_a_node_share_a_batch(run, busy):
    async def main():
        async with holding() as rig:
            number = await busy(rig)
            client = await rig.client()
            rig.queue.start(own := Request(1, 5))
            client.start(theirs := Request(1, 5))
            client.start(Request(1, 6))
            await until(lambda: rig.queue.load.waiting_count == 3)
            rig.queue.done("a", Done(EPOCH, number, 1000_000))
            part, requests = rig.a.parts[1]
            assert requests == [own]
            assert (part.here_count, part.total_count) == (1, 2)
            await until(lambda: rig.router.parts)
            ((instance, their_part, sent),) = rig.router.parts
            assert (instance, sent) == ("a", [theirs])
            assert (their_part.number, their_part.here_count) == (part.number, 1)

    run(main)


def test_an_instance_hears_with_the_holders_part_which_sequences_other_parts_begin_and_end(run):
    config = dataclasses.replace(CONFIG, dynamic_batching=None, sequence_batching=BATCHING)

    async def main():
        async with holding(config) as rig:
            client = await rig.client()
            client.start(Request(1, 5, correlation_id=7, flags=SEQUENCE_START))
            await until(lambda: len(rig.a.parts) == 1)
            rig.queue.done("a", Done(EPOCH, rig.a.parts[0][0].number, 1000_000))
            client.start(Request(1, 5, correlation_id=7, flags=SEQUENCE_END))
            client.start(Request(1, 5, correlation_id=8, flags=SEQUENCE_START))
            await until(lambda: rig.queue.load.waiting_count == 0 and len(rig.a.parts) == 2)
            assert [part.sequences for part, _ in rig.a.parts] == [{0: 7}, {0: 0, 1: 8}]

    run(main)


def test_what_a_sequence_has_waiting_ends_with_it_when_its_instance_has_ended_it(run):
    config = dataclasses.replace(CONFIG, dynamic_batching=None, sequence_batching=BATCHING)

    async def main():
        async with holding(config) as rig:
            client = await rig.client()
            client.start(Request(1, 5, correlation_id=7, flags=SEQUENCE_START))
            client.start(waiting := Request(1, 5, correlation_id=7))
            await until(lambda: len(rig.a.parts) == 1 and rig.queue.load.waiting_count == 1)
            rig.queue.done("a", Done(EPOCH, rig.a.parts[0][0].number, 0, [], {0: 7}))
            await waiting.ended
            assert isinstance(waiting.error, RequestCancelledError)
            assert rig.queue.load.free_slot_count == CONFIG.max_batch_size

    run(main)


def test_a_ticket_is_refused_when_the_queue_is_full(run, busy):
    config = dataclasses.replace(
        CONFIG,
        dynamic_batching=dataclasses.replace(
            CONFIG.dynamic_batching,
            default_queue_policy=dataclasses.replace(
                CONFIG.dynamic_batching.default_queue_policy, max_queue_size=1
            ),
        ),
    )

    async def main():
        async with holding(config) as rig:
            await busy(rig)
            client = await rig.client()
            client.start(Request())
            client.start(refused := Request())
            await refused.ended
            assert isinstance(refused.error, UnavailableError)
            assert "Exceeds maximum queue size" in refused.error.message

    run(main)


def test_a_cancelled_ticket_leaves_the_queue(run, busy):
    async def main():
        async with holding() as rig:
            number = await busy(rig)
            client = await rig.client()
            client.start(request := Request())
            await until(lambda: rig.queue.load.waiting_count)
            request.cancel_in_queue()
            await request.ended
            assert isinstance(request.error, RequestCancelledError)
            await until(lambda: not rig.queue.load.waiting_count)
            rig.queue.done("a", Done(EPOCH, number, 1000_000))
            assert len(rig.a.parts) == 1
            assert rig.queue.snapshot().fail_count["CANCELED"] == 1

    run(main)


def test_a_ticket_that_is_taken_back_or_left_behind_is_no_failure(run, busy):
    async def main():
        async with holding() as rig:
            await busy(rig)
            client = await rig.client()
            client.start(moved := Request())
            client.start(Request())
            await until(lambda: rig.queue.load.waiting_count == 2)
            client.withdraw(moved, rig.router.taken)
            await until(lambda: rig.router.moved == [moved])
            client._lane.close()
            await until(lambda: rig.queue.snapshot().pending_count == 0)
            assert not any(rig.queue.snapshot().fail_count.values())

    run(main)


def test_a_part_that_will_not_come_is_forgotten_and_queued_for_another_instance(run):
    async def main():
        async with holding() as rig:
            rig.router.unreachable = {"a"}
            client = await rig.client()
            client.start(request := Request())
            await until(lambda: rig.a.forgotten)
            ((part, _),) = rig.a.parts
            assert rig.a.forgotten == [Forget(EPOCH, part.number, 1, 1)]
            rig.queue.join("b", rig.b, Adopted())
            await until(lambda: rig.router.parts)
            assert rig.router.parts[0][0] == "b"
            assert rig.router.parts[0][2] == [request]

    run(main)


def test_an_instance_that_was_out_of_reach_for_a_moment_is_used_while_all_others_are_busy(run):
    async def main():
        async with holding() as rig:
            client = await rig.client()
            client.start(Request())
            await until(lambda: rig.router.parts)
            rig.router.unreachable = {"b"}
            client.start(request := Request())
            await until(lambda: rig.queue.load.waiting_count == 1)
            rig.queue.join("b", rig.b, Adopted())
            await until(lambda: rig.b.forgotten)
            await until(lambda: rig.queue.load.waiting_count == 1)
            rig.router.unreachable.clear()
            rig.queue.done("b", Done(EPOCH, rig.b.forgotten[0].number, 0))
            await until(lambda: len(rig.router.parts) == 2)
            assert [part[0] for part in rig.router.parts] == ["a", "b"]
            assert rig.router.parts[1][2] == [request]

    run(main)


def test_the_end_of_a_sequence_that_could_not_be_sent_is_sent_again(run):
    config = dataclasses.replace(CONFIG, dynamic_batching=None, sequence_batching=BATCHING)

    async def main():
        async with holding(config) as rig:
            client = await rig.client()
            client.start(Request(1, 5, correlation_id=7, flags=SEQUENCE_START))
            await until(lambda: rig.router.parts)
            rig.queue.done("a", Done(EPOCH, rig.a.parts[0][0].number, 0))
            rig.router.unreachable = {"a"}
            client.start(last := Request(1, 5, correlation_id=7, flags=SEQUENCE_END))
            await until(lambda: rig.a.forgotten)
            rig.router.unreachable.clear()
            await until(lambda: rig.queue.load.waiting_count == 1)
            rig.queue.done("a", Done(EPOCH, rig.a.parts[1][0].number, 0))
            await until(lambda: len(rig.router.parts) == 2)
            assert rig.router.parts[1][2] == [last]
            rig.queue.done("a", Done(EPOCH, rig.a.parts[2][0].number, 0))
            assert rig.queue.load.free_slot_count == CONFIG.max_batch_size

    run(main)


def test_what_a_router_leaves_behind_is_forgotten(run, busy):
    async def main():
        async with holding() as rig:
            number = await busy(rig)
            lane = await rig.lane()
            for _ in range(2):
                lane.queue_of("model", 1, CONFIG).start(Request(8, 1))
            await until(lambda: rig.queue.load.waiting_count == 2)
            rig.queue.done("a", Done(EPOCH, number, 1000_000))
            await until(lambda: rig.router.parts)
            lane.close()
            await until(lambda: not rig.queue.load.waiting_count)
            await until(lambda: rig.a.forgotten == [Forget(EPOCH, rig.a.parts[1][0].number, 1, 1)])
            assert len(rig.a.parts) == 2

    run(main)


def test_a_router_that_has_asked_hears_of_a_free_instance_that_may_execute_many_at_once(run, busy):
    async def main():
        async with holding() as rig:
            number = await busy(rig)
            client = (await rig.remote_lane()).queue_of("model", 1, CONFIG)
            loads = []
            client.on_load = loads.append
            client.ask(when_free=True)
            await until(lambda: rig.queue.reports.askers)
            rig.queue.done("a", Done(EPOCH, number, 1000_000))
            await until(lambda: loads and loads[-1].free_count == 1)
            assert not rig.queue.reports.askers

    run(main)


@contextlib.asynccontextmanager
async def leasing(busy):
    """A holder that has leased its only instance to a router of another node that has asked."""
    async with holding(PLAIN) as rig:
        number = await busy(rig)
        client = (await rig.remote_lane()).queue_of("model", 1, PLAIN)
        leases, loads = [], []
        client.on_lease = leases.append
        client.on_load = loads.append
        client.ask(when_free=True)
        await until(lambda: rig.queue.reports.askers)
        assert not leases
        rig.queue.done("a", Done(EPOCH, number, 1000_000))
        await until(lambda: leases)
        assert (leases[0].instance, loads[-1].free_count if loads else 0) == ("a", 0)
        assert rig.queue.load.free_count == 0
        yield rig, client, leases[0]


def test_a_lease_that_its_router_gives_back_is_free_for_what_waits(run, busy):
    async def main():
        async with leasing(busy) as (rig, client, lease):
            rig.queue.start(own := Request())
            assert len(rig.a.parts) == 1
            client.give_back(lease)
            await until(lambda: len(rig.a.parts) == 2)
            assert rig.a.parts[1][1] == [own]

    run(main)


def test_a_lease_that_is_used_is_over_with_its_batch(run, busy):
    async def main():
        async with leasing(busy) as (rig, client, lease):
            assert client.start_on(lease, Request())
            rig.queue.start(own := Request())
            assert len(rig.a.parts) == 1
            rig.queue.done("a", Done(EPOCH, lease.number, 1000_000))
            assert rig.a.parts[1][1] == [own]
            client._lane.close()
            await until(lambda: not rig.server.lanes)
            assert not rig.a.forgotten

    run(main)


def test_a_lease_that_is_not_used_in_time_is_its_instances_to_forget(run, busy):
    async def main():
        async with leasing(busy) as (rig, _, lease):
            await until(lambda: rig.a.forgotten)
            assert rig.a.forgotten == [Forget(EPOCH, lease.number, 1)]

    run(main)


def test_a_lease_of_a_router_that_is_gone_is_its_instances_to_forget(run, busy):
    async def main():
        async with leasing(busy) as (rig, client, lease):
            client._lane.close()
            await until(lambda: rig.a.forgotten)
            assert rig.a.forgotten == [Forget(EPOCH, lease.number, 1)]
            rig.queue.done("a", Done(EPOCH, lease.number, 0))
            assert rig.queue.load.free_count == 1

    run(main)
