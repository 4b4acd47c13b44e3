# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""The queue of one model version at a holder, as another router uses it.

A request becomes a ticket and waits. What is granted is sent to the instance as a part of its
batch. A holder that has not heard of the model yet is asked again, with all that came later behind
it, so that sequences keep their order.
"""

import asyncio
import itertools
import logging
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final

from backends.api.errors import (
    InvalidArgumentError,
    RequestCancelledError,
    TritonError,
    UnavailableError,
)
from backends.api.model_config import ModelConfig
from backends.api.request import SEQUENCE_START
from deployments.contracts.routing_table import InstanceEndpoint
from deployments.lane.batches import BatchPart
from deployments.lane.frames import FLAG_FINAL, LEASE_END, LOAD, TICKET, WITHDRAW
from deployments.lane.messages import encode
from deployments.pool_queue.messages import Grant, Lease, LeaseEnd, Load, Missing, Question
from deployments.pool_queue.own_request import OwnRequest, Taken, TicketMaker, ticket_of
from deployments.pool_queue.waiting_ticket import WaitingTicket, WaitingTickets, not_begun
from deployments.reactor.transport import Cancellable

if TYPE_CHECKING:
    from deployments.pool_queue.ticket_lane import TicketLane

logger = logging.getLogger(__name__)

# How often a request is put in the queue at once because its instance could not be reached.
MAX_TRIES: Final = 3
# How long a holder may not know of a model that the routing table has, or give requests to
# instances that this router does not reach.
UNKNOWN_S = 30.0
_FIRST_RETRY_S: Final = 0.005
_LONGEST_RETRY_S: Final = 0.2


class TicketQueue:
    """The queue of one model version at a holder.

    Attributes:
        config: What it goes by.
        on_load: Called when the holder has told of its load; None for nobody.
        on_lease: Called when the holder answers a question by a lease, which is to be used or
            given back; None to give it back.
        on_turned_away: Called when the holder has no such queue; returns whether requests that may
            as well wait elsewhere are to be the router's again. None to try again here.
        tickets: Those of its requests that the holder has not decided on.
    """

    def __init__(self, lane: "TicketLane", config: ModelConfig, version: int) -> None:
        self._lane = lane
        self._loop = asyncio.get_running_loop()
        self._clock_ns = time.monotonic_ns
        self._model_name = config.name
        self._version = version
        self.configure(config)
        self.on_load: Callable[[Load], None] | None = None
        self.tickets = WaitingTickets()
        self.on_lease: Callable[[Lease], None] | None = None
        self.on_turned_away: Callable[[], bool] | None = None
        self._withdrawing_count = 0
        self._parked: list[WaitingTicket] = []
        # Whether the holder had no queue the last time, and another node has: this one may never
        # have an instance again.
        self._is_left = False
        self._retry_s = _FIRST_RETRY_S
        self._timer: Cancellable | None = None

    @property
    def waiting_count(self) -> int:
        """Requests that the holder has not decided on."""
        return len(self.tickets)

    @property
    def staying_count(self) -> int:
        """Requests that wait and are not to be withdrawn."""
        return self.waiting_count - self._withdrawing_count

    def configure(self, config: ModelConfig) -> None:
        """Go by another config of the same model version from now on."""
        self.config = config
        self._tickets = TicketMaker(config)

    @property
    def is_open(self) -> bool:
        """Whether its holder can be reached: a request that comes while it cannot goes back."""
        return self._lane.is_open

    # Requests

    def start(self, request: OwnRequest) -> None:
        """Let a request wait for an instance; never raises: what ends it reaches the request.

        When the lane is lost the request is the router's again in the next tick of the loop.
        """
        self._tickets.make(request, self)
        self._wait(WaitingTicket(self, request))

    def cancelled(self, request: OwnRequest) -> None:
        """End a request that waits here and has been cancelled, once the holder has forgotten it.

        If it is granted meanwhile, its instance hears of the cancel.
        """
        waiting = self._lane.find(request) if request.queue is self else None
        if waiting is not None and self._withdraw(waiting, FLAG_FINAL):
            self._fail(request, RequestCancelledError(""))

    def start_on(self, lease: Lease, request: OwnRequest) -> bool:
        """Start a request on a lease; return whether that could be done, or it is given back."""
        self._tickets.make(request, self)
        part = BatchPart(lease.epoch, lease.number, 1, 1)
        is_avoided = request.avoid == lease.instance
        if not is_avoided and self._send_part(lease.instance, part, [request]):
            return True
        self.give_back(lease)
        request.queue = None
        return False

    def give_back(self, lease: Lease) -> None:
        """Do without a lease."""
        end = LeaseEnd(self._model_name, self._version, lease.number)
        self._lane.send(LEASE_END, 0, encode(end))

    def withdraw(
        self,
        request: OwnRequest,
        taken: Taken,
        *,
        is_start: bool = False,
    ) -> None:
        """Have a request back.

        Args:
            request: The request.
            taken: Called with the request once it is the router's again; with None when it went
                another way: it was granted meanwhile, has ended, or the lane is lost.
            is_start: Whether it begins a sequence, of which it stays if more waits there.
        """
        waiting = self._lane.find(request) if request.queue is self else None
        if waiting is None or waiting.is_withdrawn:
            self._loop.call_soon(taken, None)
            return

        def settled(back: OwnRequest | None) -> None:
            self._withdrawing_count -= 1
            taken(back)

        self._withdrawing_count += 1
        waiting.taken = settled
        if is_start:
            waiting.is_withdrawn = True
            self.tickets.bind(waiting)
            missing = Missing(self._model_name, self._version, 0, 0, "")
            self._lane.send(WITHDRAW, request.number, encode(missing))
        elif self._withdraw(waiting):
            self._loop.call_soon(self.gone, waiting, RequestCancelledError(""))

    @property
    def has_movable(self) -> bool:
        """Whether requests wait that may as well wait elsewhere."""
        return bool(self.tickets.movable)

    def withdraw_oldest(self, count: int, taken: Taken) -> int:
        """Have requests back that may as well wait elsewhere, the oldest first; see `withdraw`.

        Returns:
            How many they are.
        """
        oldest = list(itertools.islice(self.tickets.movable, count))
        for waiting in oldest:
            self.withdraw(waiting.request, taken)
        return len(oldest)

    def starts(self) -> list[OwnRequest]:
        """Return the first requests of sequences that wait and may begin elsewhere."""
        return [each.request for each in self.tickets.starts]

    def _withdraw(self, waiting: WaitingTicket, flags: int = 0) -> bool:
        """Return whether a request does not wait any more; otherwise the holder is asked."""
        number = waiting.request.number
        is_new, waiting.is_withdrawn = not waiting.is_withdrawn, True
        self.tickets.bind(waiting)
        if waiting.is_parked:
            self._parked.remove(waiting)
            self._lane.strike_out(number)
            return True
        if is_new or flags:
            # One of a sequence that was to begin elsewhere may have been left where it is.
            self._lane.send(WITHDRAW, number, flags=flags)
        return False

    def _wait(self, waiting: WaitingTicket, *, is_later: bool = False) -> None:
        lane, request = self._lane, waiting.request
        if not lane.is_open:
            request.queue = None
            self._loop.call_soon(lane.owner.returned, [request])
            return
        message = self._ticket_of(request)
        if message is None:
            return
        request.number = number = lane.write_down(waiting)
        if is_later or self._is_behind(request):
            self._park(waiting)
        else:
            lane.send(TICKET, number, message)

    def _is_behind(self, request: OwnRequest) -> bool:
        """Whether what is parked goes first: all, or what is of the same sequence.

        One whose instance is out of reach is in nobody else's way.
        """
        correlation_id = request.correlation_id
        return any(
            each.is_unknown or (correlation_id and each.request.correlation_id == correlation_id)
            for each in self._parked
        )

    def _ticket_of(self, request: OwnRequest) -> bytes | None:
        longest = self._lane.max_message_bytes
        now_ns = 0 if self._lane.is_local else self._clock_ns()
        try:
            ticket = ticket_of(request, self._model_name, self._version, now_ns=now_ns)
            message: bytes = encode(ticket)
            if len(message) <= longest:
                return message
            reason = f"{len(message)} bytes of id and shape tensors, expected at most {longest}"
        except Exception as error:  # whatever a strange id provokes
            reason = str(error)
        text = f"request for model '{self._model_name}' cannot be queued: {reason}"
        self._loop.call_soon(self._fail, request, InvalidArgumentError(text))
        return None

    def _fail(self, request: OwnRequest, error: TritonError) -> None:
        request.queue = None
        try:
            request.fail(error)
        except Exception:
            logger.exception("a request for model '%s' raised on its error", self._model_name)

    # What the holder says, as the lane hears it

    def granted(self, grant: Grant, granted: Sequence[WaitingTicket]) -> None:
        """Send requests as a part of a batch."""
        for waiting in granted:
            waiting.settle(None)
        requests = [waiting.request for waiting in granted]
        if grant.correlation_ids:
            for request, correlation_id in zip(requests, grant.correlation_ids, strict=True):
                if correlation_id and not request.correlation_id:
                    request.correlation_id = correlation_id
                    request.flags |= SEQUENCE_START
        count = len(requests)
        part = BatchPart(grant.epoch, grant.number, count, slots=grant.slots, party=grant.party)
        if self._send_part(grant.instance, part, requests):
            self._retry_s = _FIRST_RETRY_S
            return
        place = grant.place
        if place is not None:
            tcp = place.host, place.port
            endpoint = InstanceEndpoint(place.name, grant.instance, place.node_id, place.uds, tcp)
            self._lane.owner.reach(self._model_name, self._version, endpoint)
        batch = grant.epoch, grant.number, grant.instance
        missing = Missing(self._model_name, self._version, *batch)
        self._lane.send(WITHDRAW, 0, encode(missing))
        for waiting in granted:
            self._try_elsewhere(waiting, grant.instance)

    def _send_part(self, instance: str, part: BatchPart, requests: list[OwnRequest]) -> bool:
        if self._lane.is_local:
            part.queued_ns = [request.enqueue_ns for request in requests]
        else:
            now_ns = self._clock_ns()
            part.waited_ns = [now_ns - request.enqueue_ns for request in requests]
        if not self._lane.owner.send_part(instance, part, requests):
            return False
        for request in requests:
            request.queue = None
            if request.cancelled and request.lane is not None:
                # It was granted before the holder heard of the cancel.
                request.lane.send_cancel(request)
        return True

    def _try_elsewhere(self, waiting: WaitingTicket, instance: str) -> None:
        request = waiting.request
        if request.is_cancelled:
            self._fail(request, RequestCancelledError(""))
            return
        # It has died, or has just started: lanes to it open a little later here than there.
        now_s = self._loop.time()
        again = WaitingTicket(self, request, waiting.tries + 1)
        again.unknown_since_s = since_s = waiting.unknown_since_s or now_s
        if now_s - since_s >= UNKNOWN_S:
            text = (
                f"request for model '{self._model_name}' version {self._version}: for "
                f"{UNKNOWN_S:g} s no instance that was free for it could be reached; try again"
            )
            self._fail(request, UnavailableError(text))
            return
        request.forget_given_id()
        request.avoid = instance
        self._wait(again, is_later=waiting.tries >= MAX_TRIES)

    def refused(self, waiting: WaitingTicket, error: TritonError) -> None:
        """Pass on the error of a request that does not wait any more."""
        waiting.settle(None)
        self._fail(waiting.request, error)

    def unknown(self, waiting: WaitingTicket, error: TritonError) -> None:
        """Keep a request for a holder that does not know the model yet, for a while."""
        now_s = self._loop.time()
        waiting.unknown_since_s = waiting.unknown_since_s or now_s
        request = waiting.request
        if not waiting.is_withdrawn:
            self._is_left = self.on_turned_away is not None and self.on_turned_away()
            if self._is_left and request.is_movable:
                self._return(waiting)
                return
            if now_s - waiting.unknown_since_s < UNKNOWN_S:
                waiting.is_unknown = True
                self._park(waiting)
                return
        self._lane.strike_out(request.number)
        self.gone(waiting, error)

    def gone(self, waiting: WaitingTicket, error: TritonError) -> None:
        """End a request, or give it back, that the holder has no ticket of any more."""
        request = waiting.request
        if request.is_cancelled:
            waiting.settle(None)
            self._fail(request, RequestCancelledError(""))
        elif waiting.is_withdrawn:
            request.queue = None
            waiting.settle(request)
        else:
            self._fail(request, error)

    def _park(self, waiting: WaitingTicket) -> None:
        waiting.is_parked = True
        self.tickets.bind(waiting)
        self._parked.append(waiting)
        if self._timer is None:
            self._timer = self._loop.call_later(self._retry_s, self._try_again)
            self._retry_s = min(self._retry_s * 2, _LONGEST_RETRY_S)

    def _try_again(self) -> None:
        self._timer = None
        parked, self._parked = self._parked, []
        is_left, self._is_left = self._is_left, False
        if is_left:
            going = dict.fromkeys(not_begun(parked, self.tickets.all()))
            parked = [each for each in parked if each not in going]
            for waiting in going:
                self._return(waiting)
        for waiting in parked:
            waiting.is_parked = False
            request = waiting.request
            message = self._ticket_of(request)
            if message is None:
                self._lane.strike_out(request.number)
            else:
                self.tickets.remove(waiting)
                self.tickets.add(waiting)
                self._lane.send(TICKET, request.number, message)

    def _return(self, waiting: WaitingTicket) -> None:
        request = waiting.request
        self._lane.strike_out(request.number)
        request.queue = None
        self._lane.owner.returned([request])

    def ask(self, *, when_free: bool = False, is_over: bool = False) -> None:
        """Have the holder tell its load now, or when it has a free instance; or not any more."""
        question = Question(self._model_name, self._version, when_free, is_over)
        self._lane.send(LOAD, 0, encode(question))

    async def knows(self, correlation_id: int | str) -> bool | None:
        """Whether a sequence goes on there; None when the holder does not say."""
        return await self._lane.knows(self._model_name, self._version, correlation_id)

    def close(self) -> None:
        """Try nothing again: the lane is lost, or the model is gone from here."""
        self._parked.clear()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
