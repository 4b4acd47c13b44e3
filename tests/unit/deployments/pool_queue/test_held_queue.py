# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""A queue that is held here, as the requests of its own process and its instances have it."""

import asyncio
import dataclasses
import time

import pytest

from backends.api.errors import InvalidArgumentError, RequestCancelledError, UnavailableError
from backends.api.model_config import DynamicBatching, ModelConfig, QueuePolicy, SequenceBatching
from backends.api.request import EMPTY, SEQUENCE_START, InferenceRequest, Tensor
from deployments.lane.batches import Adopted, Done
from deployments.pool_queue.own_request import OwnRequest
from tests.support.lane_rig import until
from tests.support.ticket_rig import CONFIG, EPOCH, Request
from tests.unit.deployments.pool_queue.test_held_tickets import BATCHING, DueClock, busy, holding

__all__ = ["busy"]


class Sink:
    """Keeps the error of a request."""

    def __init__(self):
        self.errors = []

    def fail(self, error, *, final=True):
        assert final
        self.errors.append(error)


def plain(**fields):
    """A request as routers have them, and its sink."""
    inputs = [Tensor("A", "UINT8", (1, 5), EMPTY)]
    sink = Sink()
    return OwnRequest(InferenceRequest("model", inputs=inputs, **fields), sink), sink


SEQUENCES = dataclasses.replace(CONFIG, dynamic_batching=None, sequence_batching=BATCHING)
TIMED = dataclasses.replace(
    CONFIG,
    dynamic_batching=DynamicBatching(default_queue_policy=QueuePolicy(default_timeout_us=20_000)),
)
SMALL = dataclasses.replace(
    CONFIG, dynamic_batching=DynamicBatching(default_queue_policy=QueuePolicy(max_queue_size=1))
)
ITERATIVE = dataclasses.replace(
    SEQUENCES, sequence_batching=SequenceBatching(iterative=True, max_sequence_idle_us=60_000_000)
)


@pytest.mark.parametrize(
    ("before", "change", "is_taken"),
    [
        (CONFIG, {"name": "other"}, False),
        (CONFIG, {"max_batch_size": 4}, False),
        (CONFIG, {"input": ()}, False),
        (CONFIG, {"parameters": {"a": "b"}}, False),
        (CONFIG, {"dynamic_batching": None}, False),
        (CONFIG, {"max_inflight_requests": 3}, True),
        (SEQUENCES, {"parameters": {"a": "b"}}, True),
        (SEQUENCES, {"max_batch_size": 4}, False),
    ],
)
def test_another_config_is_taken_unless_it_decides_what_shares_a_batch(
    run, before, change, is_taken
):
    async def main():
        async with holding(before) as rig:
            after = dataclasses.replace(before, **change)
            assert rig.queue.configure(after) is is_taken
            assert rig.queue.config is (after if is_taken else before)

    run(main)


def test_a_request_that_is_cancelled_while_it_waits_is_a_failure_and_one_that_moves_is_none(
    run, busy
):
    async def main():
        async with holding() as rig:
            number = await busy(rig)
            requests = [Request() for _ in range(3)]
            for each in requests:
                rig.queue.start(each)
            assert (rig.queue.waiting_count, rig.queue.load.waiting_count) == (3, 3)
            requests[0].cancel_in_queue()
            assert isinstance(requests[0].error, RequestCancelledError)
            assert rig.queue.snapshot().fail_count["CANCELED"] == 1
            assert rig.queue.withdraw_oldest(1, rig.router.taken) == 1
            assert rig.router.moved == [requests[1]]
            assert rig.queue.waiting_count == rig.queue.load.waiting_count == 1
            rig.queue.done("a", Done(EPOCH, number, 1000))
            assert rig.a.parts[1][1] == [requests[2]]
            assert (rig.queue.waiting_count, rig.queue.load.waiting_count) == (0, 0)
            counts = rig.queue.snapshot().fail_count
            assert sum(counts.values()) == counts["CANCELED"] == 1

    run(main)


def test_the_room_of_a_request_that_is_cancelled_is_free_at_once(run, busy):
    async def main():
        async with holding(SMALL, DueClock()) as rig:
            await busy(rig)
            rig.queue.start(gone := Request())
            gone.cancel_in_queue()
            await asyncio.sleep(0)
            rig.queue.start(request := Request())
            assert request.error is None

    run(main)


def test_a_request_that_waits_to_be_executed_again_ends_with_its_sequence(run):
    async def main():
        async with holding(ITERATIVE) as rig:
            rig.queue.leave("a")
            rig.queue.join("b", rig.b, Adopted(is_limited=True))
            request, sink = plain()
            rig.queue.start(request)
            await until(lambda: rig.b.asked_count == 1)
            rig.queue.granted("b")
            ((part, _),) = rig.b.parts
            rig.queue.done("b", Done(EPOCH, part.number, 1000, [0]))
            assert rig.b.asked_count == 2
            rig.queue.done("b", Done(EPOCH, 0, 0, [], {0: request.correlation_id}))
            assert [type(error) for error in sink.errors] == [RequestCancelledError]
            assert rig.queue.load.waiting_count == 0

    run(main)


def test_only_what_may_be_elsewhere_is_withdrawn(run, busy):
    async def main():
        async with holding() as rig:
            await busy(rig)
            here, first, second = Request(), Request(), Request()
            here.local_only = True
            for each in (here, first, second):
                rig.queue.start(each)
            assert rig.queue.has_movable
            assert rig.queue.withdraw_oldest(5, rig.router.taken) == 2
            assert rig.router.moved == [first, second]
            assert not rig.queue.has_movable

    run(main)


def test_a_queue_that_is_given_up_gives_back_its_own_and_turns_others_away(run, busy):
    async def main():
        async with holding() as rig:
            await busy(rig)
            client = await rig.client()
            own = [Request(), Request()]
            rig.queue.start(own[0])
            client.start(Request())
            await until(lambda: rig.queue.load.waiting_count == 2)
            rig.queue.start(own[1])
            rig.queue.start(cancelled := Request())
            cancelled.cancel_in_queue()
            assert rig.queue.clear() == own
            assert (rig.queue.waiting_count, rig.queue.load.waiting_count) == (0, 0)
            # Turned away, it waits until there is a queue, and does not fail.
            rig.queues.by_model.clear()
            await until(lambda: client.waiting_count == 1)

    run(main)


def test_a_request_that_has_waited_too_long_is_refused_and_counted(run, busy):
    async def main():
        async with holding(TIMED) as rig:
            await busy(rig)
            late, sink = plain()
            rig.queue.start(late)
            await until(lambda: sink.errors)
            (error,) = sink.errors
            assert isinstance(error, UnavailableError)
            assert (rig.queue.waiting_count, rig.queue.load.waiting_count) == (0, 0)
            assert rig.queue.snapshot().fail_count["REJECTED"] == 1
            # Less than a minute, which a clock's reading is not.
            assert 0 < rig.queue.snapshot().fail_ns < 60 * 10**9

    run(main)


def test_an_instance_that_was_retired_and_is_restored_serves_what_waits(run):
    async def main():
        async with holding() as rig:
            rig.queue.retire("a")
            assert not rig.queue.has_instances
            rig.queue.start(request := Request())
            assert rig.a.parts == []
            rig.queue.restore("a")
            await until(lambda: rig.a.parts)
            assert rig.a.parts[0][1] == [request]

    run(main)


def test_an_instance_serves_what_waits_once_it_has_executed_what_another_holder_gave_it(run):
    async def main():
        async with holding() as rig:
            rig.queue.retire("a")
            rig.queue.join("b", rig.b, Adopted(batch_count=2))
            rig.queue.start(request := Request())
            await asyncio.sleep(0)
            assert rig.b.parts == []
            for number in (1, 2):
                rig.queue.done("b", Done(EPOCH - 1, number, 1000))
            await until(lambda: rig.b.parts)
            assert rig.b.parts[0][1] == [request]

    run(main)


def test_a_sequence_that_has_not_begun_is_given_up_unless_more_of_it_waits(run):
    async def main():
        async with holding(SEQUENCES) as rig:
            rig.queue.leave("a")
            asked = [plain(correlation_id=each, flags=SEQUENCE_START)[0] for each in (1, 2)]
            alone, followed = asked
            for request in (*asked, plain(correlation_id=2)[0]):
                rig.queue.start(request)
            assert not rig.queue.give_up(followed)
            assert (rig.queue.waiting_count, followed.queue) == (3, rig.queue)
            assert rig.queue.give_up(alone)
            assert (rig.queue.waiting_count, alone.queue) == (2, None)

    run(main)


def test_what_waits_for_its_sequence_fails_with_the_instance(run):
    async def main():
        async with holding(SEQUENCES) as rig:
            rig.queue.start(Request(1, 5, correlation_id=7, flags=SEQUENCE_START))
            await until(lambda: rig.a.parts)
            assert rig.queue.has_sequence(7)
            waiting, sink = plain(correlation_id=7)
            rig.queue.start(waiting)
            rig.queue.leave("a")
            rig.queue.leave("a")
            (error,) = sink.errors
            assert "ended with its instance" in error.message
            assert rig.queue.waiting_count == 0
            assert rig.queue.has_sequence(7) is False

    run(main)


def test_a_refusal_counts_once_all_instances_have_told_which_sequences_run_there(run):
    async def main():
        async with holding(SEQUENCES) as rig:
            rig.queue.has_heard = lambda: False
            early, sink = plain(correlation_id=7)
            rig.queue.start(early)
            assert [type(error) for error in sink.errors] == [InvalidArgumentError]
            assert rig.queue.has_sequence(7) is None
            assert (rig.queue.waiting_count, rig.queue.snapshot().fail_count["REJECTED"]) == (
                0,
                0,
            )
            rig.queue.has_heard = lambda: True
            rig.queue.start(plain(correlation_id=7)[0])
            assert rig.queue.has_sequence(7) is False
            assert rig.queue.snapshot().fail_count["REJECTED"] == 1

    run(main)


def test_a_router_hears_the_sequence_that_its_request_without_one_has_become(run):
    async def main():
        async with holding(ITERATIVE) as rig:
            client = await rig.client()
            client.start(nameless := Request(1, 5))
            client.start(named := Request(1, 5, correlation_id=9, flags=SEQUENCE_START))
            await until(lambda: sum(len(each[2]) for each in rig.router.parts) == 2)
            assert nameless.has_given_id
            assert nameless.correlation_id
            assert not named.has_given_id
            assert named.correlation_id == 9
            nameless.forget_given_id()
            nameless.forget_given_id()
            assert (nameless.correlation_id, nameless.has_given_id) == (0, False)

    run(main)


def test_what_is_flushed_does_not_wait_for_its_batch_to_grow(run):
    slow = dataclasses.replace(CONFIG, dynamic_batching=DynamicBatching(max_queue_delay_us=10**9))

    async def main():
        async with holding(slow) as rig:
            rig.queue.start(request := Request())
            await until(lambda: rig.queue.load.waiting_count == 1)
            rig.a.draining = False
            rig.queue.draining()
            assert rig.a.parts == []
            rig.a.draining = True
            rig.queue.draining()
            assert rig.a.parts[0][1] == [request]

    run(main)


def test_a_request_tells_an_instance_how_long_it_has_waited():
    request = OwnRequest(InferenceRequest("m"), None)
    request.count_wait()
    assert request.request.waited_ns == 0
    request.wait_from(time.monotonic_ns() - 10**9)
    request.wait_from(time.monotonic_ns())
    request.count_wait()
    assert 10**9 <= request.request.waited_ns < 60 * 10**9


def test_a_queue_without_batches_and_sequences_gives_one_at_a_time(run):
    async def main():
        async with holding(ModelConfig("model", input=CONFIG.input)) as rig:
            requests = [Request(), Request()]
            for each in requests:
                rig.queue.start(each)
            # At once, not with the loop's next tick.
            assert [sent for _, sent in rig.a.parts] == [[requests[0]]]
            rig.queue.join("b", rig.b, Adopted())
            assert [sent for _, sent in rig.b.parts] == [[requests[1]]]

    run(main)
