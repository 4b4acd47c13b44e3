# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Outcomes on their way from a model to the lanes.

Outcomes are put in on any thread, under the executor's mutex. The outcomes of a whole batch leave
in one callback of the reactor (`Outbox.flush`), and none is posted while one is under way. Behind
them the holder of a pool's queue is told which batches are done. How many requests lack a terminal
outcome belongs to the thread that turns the reactor.
"""

import asyncio
import concurrent.futures
import logging
import threading
from collections.abc import Callable, Sequence
from typing import Final

from backends.api.errors import TritonError, UnavailableError
from deployments.instance.assembly import PoolBatch
from deployments.instance.work import Outcome, StreamWork, UnaryWork
from deployments.reactor.reactor import Reactor

_log = logging.getLogger(__name__)

AnyWork = UnaryWork | StreamWork

# The outcome of a request that is to be sent once more, by way of its pool's queue.
BOUNCED: Final = UnavailableError("the request has lost its slot; send it again")


class Outbox:
    """Hands outcomes to lanes on the thread that turns the reactor.

    Args:
        model_name: For messages.
        mutex: The executor's; held by whoever touches ``waiting`` or calls `claim_flush`.
        reactor: Where outcomes are handed over.

    Attributes:
        waiting: Each outcome with its request, and whether it is the request's terminal one.
        reports: Batches of a pool that are done.
        report: Called with each of these, on the thread that turns the reactor.
        outstanding_count: Requests accepted whose terminal outcome has not been handed over.
    """

    def __init__(
        self,
        model_name: str,
        mutex: threading.Lock,
        reactor: Reactor,
    ) -> None:
        self._model_name = model_name
        self._mutex = mutex
        self._reactor = reactor
        self._idle: list[concurrent.futures.Future[None]] = []
        self._is_flush_due = False
        self.waiting: list[tuple[AnyWork, Outcome, bool]] = []
        self.reports: list[PoolBatch[AnyWork]] = []
        # An instance that is on its own has nobody to tell.
        self.report: Callable[[PoolBatch[AnyWork]], None] = lambda _: None
        self.outstanding_count = 0

    def claim_flush(self) -> bool:
        """Return whether the caller has to post `flush`; the mutex is held."""
        if self._is_flush_due or not (self.waiting or self.reports):
            return False
        self._is_flush_due = True
        return True

    async def wait_idle(self) -> None:
        """Return once every accepted request has its outcome; on any event loop."""
        idle: concurrent.futures.Future[None] = concurrent.futures.Future()
        self._reactor.call_soon_threadsafe(self._await_idle, idle)
        await asyncio.wrap_future(idle)

    # On the thread that turns the reactor.

    def accept(self, works: Sequence[AnyWork]) -> None:
        """Owe each of these requests a terminal outcome."""
        self.outstanding_count += len(works)

    def flush(self) -> None:
        """Hand over what waits."""
        with self._mutex:
            waiting, self.waiting = self.waiting, []
            reports: list[PoolBatch[AnyWork]] | tuple[()] = ()
            if self.reports:
                reports, self.reports = self.reports, []
            self._is_flush_due = False
        for work, outcome, final in waiting:
            self.deliver(work, outcome, final=final)
        for batch in reports:
            self.report(batch)

    def deliver(self, work: AnyWork, outcome: Outcome, *, final: bool) -> None:
        """Hand over an outcome."""
        lane = work.lane
        try:
            # A lane ends a request early when its response cannot be encoded.
            if lane.is_finished:
                pass
            elif outcome is BOUNCED:
                lane.bounce()
            elif isinstance(outcome, TritonError):
                lane.fail(outcome, final=final)
            else:
                lane.respond(outcome, final=final)
        except Exception:
            # One lane's trouble must not cost other lanes their outcomes.
            _log.exception("a response of model '%s' could not be sent", self._model_name)
        if final:
            self.outstanding_count -= 1
            if self._idle and not self.outstanding_count:
                self._tell_idle()

    def _await_idle(self, idle: "concurrent.futures.Future[None]") -> None:
        self._idle.append(idle)
        if not self.outstanding_count:
            self._tell_idle()

    def _tell_idle(self) -> None:
        waiting, self._idle = self._idle, []
        for idle in waiting:
            if idle.set_running_or_notify_cancel():
                idle.set_result(None)
