# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""The queue of one model version on one node, in the process that holds it.

`deployments.scheduling.pool_queue` decides; this carries out what it decides: the requests of this
process go to instances over its own lanes, other routers get grants for theirs. Whatever happens to
an instance, what it has begun is its routers' to end, each over its own lane.

Everything happens on the process's event loop.
"""

import asyncio
import itertools
import time
from collections.abc import Callable, Iterable
from typing import Final

from mypy_extensions import mypyc_attr

from backends.api.errors import InvalidArgumentError, RequestCancelledError, TritonError
from backends.api.model_config import ModelConfig
from deployments.lane.batches import Adopted, Done
from deployments.lane.client import LaneClient
from deployments.metrics.counters import FailureReason, InstanceStatistics, Snapshot
from deployments.pool_queue.alarm import Alarm, AlarmClock
from deployments.pool_queue.given_batches import GivenBatches
from deployments.pool_queue.leases import Leases
from deployments.pool_queue.load_reports import LoadReports, answered
from deployments.pool_queue.messages import Load, Missing
from deployments.pool_queue.own_request import OwnRequest, Taken, TicketMaker
from deployments.pool_queue.ticket_server import HeldTicket, PartyLane, no_queue
from deployments.scheduling.factory import make_pool_scheduler
from deployments.scheduling.holds import Holds
from deployments.scheduling.pool_queue import Actions, PoolQueue

_NS_PER_US: Final = 1000
# What a queue goes by in a config.
_DECIDING: Final = "name", "max_batch_size", "input", "dynamic_batching", "sequence_batching"


@mypyc_attr(allow_interpreted_subclasses=True)
class HeldQueue:
    """The queue of one model version.

    Args:
        config: The model's complete config.
        version: Version number.
        epoch: When this process began to hold queues.
        clock: Wakes the queue when a batch has waited long enough.
        holds: Until when the scheduler waits for the first requests.
        last_number: Of the batches that this process has given to its instances before.

    Attributes:
        config: What it goes by.
        reports: Tells other routers of the load.
        waiting: What waits, and for which instances.
        has_heard: Returns whether all instances have told which sequences run there.

    Raises:
        InvalidArgumentError: A parameter of the config is not what it has to be.
    """

    def __init__(
        self,
        config: ModelConfig,
        version: int,
        epoch: int,
        clock: AlarmClock,
        holds: Holds,
        last_number: int = 0,
    ) -> None:
        self.config = config
        self._name = config.name
        self._version = version
        self._epoch = epoch
        self._clock_ns = time.monotonic_ns
        self._tickets = TicketMaker(config)
        self._loop = asyncio.get_running_loop()
        self.waiting: PoolQueue[HeldTicket] = PoolQueue(
            make_pool_scheduler(config, holds), last_number=last_number
        )
        # Where requests cannot share a batch, waiting for others of the same tick gains nothing.
        self._looks_at_once = config.dynamic_batching is None and config.sequence_batching is None
        sequences = config.sequence_batching
        self._is_iterative = sequences is not None and sequences.iterative
        # All that waits in others is of sequences.
        self._may_have_movable = sequences is None or sequences.iterative
        self._is_look_due = False
        self._batches = GivenBatches(epoch)
        self._own = self._batches.own
        self._statistics = InstanceStatistics()
        model = config.name, version
        self._leases = Leases(self.waiting, self._batches.lanes, model, epoch)
        # Tickets that are cancelled and lie in the queue until it comes to them.
        self._withdrawn_count = 0
        self.reports = LoadReports(self._loop, lambda: self.load)
        self.has_heard: Callable[[], bool] = lambda: True
        self._wake = Alarm(clock, self._look)
        self._expiry = Alarm(clock, self._expire)

    # What a router asks of it

    @property
    def load(self) -> Load:
        """Return how much waits."""
        queue = self.waiting
        return Load(
            self._name,
            self._version,
            self._queued_count,
            queue.free_count,
            len(self._batches.lanes),
            queue.mean_execution_ns,
            queue.mean_batch_size,
            queue.free_slot_count,
        )

    @property
    def _queued_count(self) -> int:
        return self.waiting.pending_count - self._withdrawn_count

    @property
    def has_instances(self) -> bool:
        """Whether an instance is there that takes what comes."""
        return any(not each.is_leaving for each in self.waiting.instances.values())

    @property
    def is_open(self) -> bool:
        """Whether what comes is executed, be it by instances that leave: of their sequences."""
        if self.config.sequence_batching is None:
            return self.has_instances
        return bool(self.waiting.instances)

    async def knows(self, correlation_id: int | str) -> bool | None:
        """Say it as the queue of another process does."""
        return self.has_sequence(correlation_id)

    def has_sequence(self, correlation_id: int | str) -> bool | None:
        """Whether a sequence goes on here, in a slot or in the backlog; None: not known yet."""
        if self.waiting.knows(correlation_id):
            return True
        return False if self.has_heard() else None

    def configure(self, config: ModelConfig) -> bool:
        """Go by another config of the same model version; return whether that can be done.

        No parameter concerns sequences: those that run at instances of the config before go on.
        """
        names = _DECIDING if config.sequence_batching is not None else (*_DECIDING, "parameters")
        if any(getattr(config, name) != getattr(self.config, name) for name in names):
            return False
        self.config = config
        return True

    def close(self) -> None:
        """Tell nobody anything any more."""
        self._wake.cancel()
        self._expiry.cancel()
        self.reports.close()

    def snapshot(self) -> Snapshot:
        """Return what was counted of requests that did not reach an instance, and what waits."""
        return self._statistics.snapshot(self._queued_count)

    def start(self, request: OwnRequest) -> None:
        """Let a request of this process wait for an instance; what ends it reaches its sink."""
        self._tickets.make(request, self)
        self._own[request] = None
        self._take(request)

    def cancelled(self, request: OwnRequest) -> None:
        """End a request of this process that waits."""
        request.queue = None
        self._own.pop(request, None)
        self.withdrawn(request, is_ended=True)
        request.sink.fail(RequestCancelledError(""))

    @property
    def waiting_count(self) -> int:
        """Requests of this process that wait."""
        return len(self._own)

    @property
    def has_movable(self) -> bool:
        """Whether requests of this process wait that may as well wait elsewhere."""
        return self._may_have_movable and any(
            each.is_movable and not each.cancelled for each in self._own
        )

    def withdraw_oldest(self, count: int, taken: Taken) -> int:
        """Give up requests of this process that may as well wait elsewhere, the oldest first.

        They lie in the queue until it looks at them; others go on in their place.

        Returns:
            How many there are; ``taken`` is called for each.
        """
        movable = (each for each in self._own if each.is_movable and not each.cancelled)
        oldest = list(itertools.islice(movable, count))
        for request in oldest:
            del self._own[request]
            self.withdrawn(request)
        # All before any is sent elsewhere: that may have the queue looked at.
        for successor in [request.moved() for request in oldest]:
            taken(successor)
        return len(oldest)

    def starts(self) -> list[OwnRequest]:
        """Return the first requests of sequences that wait and may begin elsewhere."""
        return [each for each in self._own if each.may_start_elsewhere]

    def draining(self) -> None:
        """Learn that an instance is about to end: if they all are, they get what waits."""
        if all(lane.draining for lane in self._batches.lanes.values()):
            self.flush()

    def flush(self) -> None:
        """Have what waits executed by the instances that are there, which nobody follows."""
        batching = self.config.dynamic_batching
        delay_ns = 0 if batching is None else batching.max_queue_delay_us * _NS_PER_US
        now_ns = self._clock_ns()
        self._carry_out(self.waiting.flush(now_ns + delay_ns), now_ns)

    def clear(self) -> list[OwnRequest]:
        """Give up what waits; return the requests of this process, oldest first.

        Other routers ask again whether there is a queue.
        """
        own = self._turn_back(self.waiting.clear())
        self._withdrawn_count = 0
        return own

    def _turn_back(self, tickets: Iterable[HeldTicket]) -> list[OwnRequest]:
        own: list[OwnRequest] = []
        for ticket in tickets:
            if ticket.is_cancelled:
                self._withdrawn_count -= 1
            elif isinstance(ticket, OwnRequest):
                self._own.pop(ticket, None)
                ticket.queue = None
                own.append(ticket)
            else:
                ticket.turn_away(no_queue(self._name, self._version))
        return own

    # What other routers' tickets ask of it

    def enqueue(self, ticket: HeldTicket) -> None:
        """Take another router's ticket; what ends it reaches the ticket."""
        if self._is_iterative and not ticket.correlation_id:
            self._batches.nameless.add(ticket)
        self._take(ticket)

    def withdrawn(self, ticket: HeldTicket, *, is_ended: bool = False) -> None:
        """Forget a ticket that is cancelled, as soon as the queue looks at it."""
        if is_ended:
            waited_ns = self._clock_ns() - ticket.enqueue_ns
            self._statistics.record_failure(FailureReason.CANCELED, waited_ns)
        self._withdrawn_count += 1
        self._expiry.set(0)

    def give_up(self, ticket: HeldTicket) -> bool:
        """Forget the first request of a sequence that has not begun, unless others follow it."""
        if not self.waiting.give_up(ticket):
            return False
        if isinstance(ticket, OwnRequest):
            del self._own[ticket]
            ticket.queue = None
        return True

    def missing(self, party: PartyLane, missing: Missing) -> None:
        """Have an instance not wait for requests that were granted and will not come."""
        self.waiting.missed(missing.instance, self._batches.missing(party, missing))

    def lease_returned(self, party: PartyLane, number: int) -> None:
        """Take a lease back that was not used."""
        self._leases.returned(party, number)
        self._look()

    def asked_by(self, party: PartyLane, *, when_free: bool) -> None:
        """Tell a router the load, or hand it the next free instance."""
        self.reports.asked(party, when_free=when_free)
        if when_free:
            self._answer()

    def _answer(self) -> None:
        """Let routers whose requests wait elsewhere have what is free."""
        for party in answered(self.reports.askers, self.load):
            # What may share a batch does not go ahead of the others.
            if self._looks_at_once and self._leases.make(party, self._clock_ns()):
                self._expiry.set(self._leases.deadline_ns)
                self.reports.granted(party)
            else:
                self.reports.tell(party, self.load)

    def party_lost(self, party: PartyLane) -> None:
        """Have instances not wait for requests of a router that is gone."""
        self.reports.forget(party)
        self._leases.party_lost(party)
        self._batches.party_lost(party)
        self._expiry.set(0)

    # What its instances tell

    def join(self, instance: str, lane: LaneClient, adopted: Adopted) -> None:
        """Take an instance in that was adopted."""
        self._batches.join(instance, lane)
        self.waiting.join(
            instance,
            adopted.running,
            adopted.batch_count,
            self._clock_ns(),
            is_limited=adopted.is_limited,
        )
        self._look()

    def retire(self, instance: str) -> list[OwnRequest]:
        """Give an instance nothing more but what the sequences need that run there.

        Returns:
            Requests of this process whose sequences cannot begin here any more, given up; other
            routers ask again whether there is a queue.
        """
        return self._turn_back(self.waiting.retire(instance))

    def restore(self, instance: str) -> None:
        """Give an instance that was retired what comes again."""
        self.waiting.restore(instance, self._clock_ns())
        self._look()

    def leave(self, instance: str) -> None:
        """Forget an instance that is gone."""
        if not self._batches.leave(instance):
            return
        now_ns = self._clock_ns()
        for ticket, error in self.waiting.leave(instance, now_ns):
            if ticket not in self._batches.kept:
                self._drop(ticket, error, now_ns)
        self._look()

    def done(self, instance: str, done: Done) -> None:
        """Learn that an instance has executed a batch."""
        now_ns = self._clock_ns()
        if done.ended:
            self.waiting.ended(instance, done.ended, now_ns)
        if done.epoch != self._epoch:
            self.waiting.executed(instance, -1, done.execution_ns, now_ns)
        else:
            self._leases.ended(done.number)
            places = self._batches.done(instance, done)
            self.waiting.executed(instance, done.number, done.execution_ns, now_ns, places)
        self._look()

    def granted(self, instance: str) -> None:
        """Learn that an instance may execute one batch."""
        self.waiting.granted(instance)
        self._look()

    def _take(self, ticket: HeldTicket) -> None:
        try:
            is_due = self.waiting.enqueue(ticket, ticket.enqueue_ns)
        except TritonError as error:
            if self.has_heard() or not isinstance(error, InvalidArgumentError):
                # Else its router looks for the sequence, and may find it here in a moment.
                self._statistics.record_failure(FailureReason.REJECTED, 0)
            self._fail(ticket, error)
            return
        if ticket.avoid:
            self.waiting.avoid(ticket, ticket.avoid, self._clock_ns())
        if is_due:
            if self._looks_at_once:
                self._look()
            elif not self._is_look_due:
                self._is_look_due = True
                self._loop.call_soon(self._look)
        deadline_ns = self.waiting.deadline_ns
        if deadline_ns is not None:
            self._expiry.set(deadline_ns)

    def _look(self) -> None:
        """Do what is to be done now."""
        self._is_look_due = False
        now_ns = self._clock_ns()
        actions = self.waiting.next(now_ns)
        self._carry_out(actions, now_ns)
        for instance in actions.asked:
            self._batches.lanes[instance].ask()
        for instance in actions.declined:
            self._batches.lanes[instance].decline()
        self._wake.set(actions.wake_at_ns)
        if self.reports.askers:
            self._answer()

    def _carry_out(self, actions: Actions[HeldTicket], now_ns: int) -> None:
        for batch in actions.batches:
            for party in self._batches.give(batch):
                self.reports.granted(party)
        for ticket, error in actions.dropped:
            self._drop(ticket, error, now_ns)

    def _expire(self) -> None:
        now_ns = self._clock_ns()
        self._leases.expire(now_ns)
        for ticket, error in self.waiting.expire(now_ns):
            self._drop(ticket, error, now_ns)
        self._look()
        self._expiry.set(self.waiting.deadline_ns)
        self._expiry.set(self._leases.deadline_ns)

    def _drop(self, ticket: HeldTicket, error: TritonError, now_ns: int) -> None:
        if ticket.is_cancelled:
            # It has its outcome.
            self._withdrawn_count -= 1
        else:
            is_cancelled = isinstance(error, RequestCancelledError)
            reason = FailureReason.CANCELED if is_cancelled else FailureReason.REJECTED
            self._statistics.record_failure(reason, now_ns - ticket.enqueue_ns)
            self._fail(ticket, error)

    def _fail(self, ticket: HeldTicket, error: TritonError) -> None:
        if isinstance(ticket, OwnRequest):
            self._own.pop(ticket, None)
        ticket.fail(error)
