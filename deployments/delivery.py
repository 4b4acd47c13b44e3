# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""The last step of every request: its outcomes go to its lane, in order where order was asked for.

Everything here belongs to the lock of the lanes' reactor, except where said otherwise.
"""

import asyncio
import concurrent.futures
import logging
from collections.abc import Sequence

from backends.api.errors import TritonError
from deployments.execution import Outcome, StreamWork, UnaryWork
from deployments.scheduling.completion import CompletionQueue

_log = logging.getLogger(__name__)

AnyWork = UnaryWork | StreamWork


class Deliveries:
    """The requests that wait for their terminal outcome.

    Args:
        model_name: For the log.
        preserves_order: Whether outcomes leave in the order their requests were accepted.

    Attributes:
        outstanding_count: Accepted requests without their terminal outcome; readable anywhere.
    """

    def __init__(self, model_name: str, *, preserves_order: bool) -> None:
        self._model_name = model_name
        self.outstanding_count = 0
        self._idle: concurrent.futures.Future[None] | None = None
        self._completion: CompletionQueue[AnyWork, Outcome] | None = (
            CompletionQueue() if preserves_order else None
        )

    def accept(self, works: Sequence[AnyWork]) -> None:
        """Owe these requests an outcome."""
        self.outstanding_count += len(works)
        if self._completion is not None:
            for work in works:
                self._completion.accept(work)

    def deliver(self, work: AnyWork, outcome: Outcome, *, final: bool) -> None:
        """Send an outcome, and those it held back."""
        if self._completion is None:
            self._hand_over(work, outcome, final=final)
            return
        for released in self._completion.add(work, outcome, final=final):
            self._hand_over(released[0], released[1], final=released[2])

    def when_idle(self) -> concurrent.futures.Future[None]:
        """Return what is done once nothing is outstanding, if only for a moment."""
        self._idle = self._idle or concurrent.futures.Future()
        if not self.outstanding_count and not self._idle.done():
            self._idle.set_result(None)
        return self._idle

    def _hand_over(self, work: AnyWork, outcome: Outcome, *, final: bool) -> None:
        lane = work.lane
        try:
            # A lane ends a request early when its response cannot be encoded.
            if lane.is_finished:
                pass
            elif isinstance(outcome, TritonError):
                lane.fail(outcome)
            else:
                lane.respond(outcome, final=final)
        except Exception:
            # One lane's trouble must not cost other lanes their outcomes.
            _log.exception("a response of model '%s' could not be sent", self._model_name)
        if final:
            self.outstanding_count -= 1
            if self._idle is not None and not self.outstanding_count and not self._idle.done():
                self._idle.set_result(None)


async def done_within(future: concurrent.futures.Future[None], timeout_s: float) -> bool:
    """Wait on the running loop; whether the future was done in time."""
    if future.done():
        return True
    try:
        async with asyncio.timeout(timeout_s):
            await asyncio.shield(asyncio.wrap_future(future))
    except TimeoutError:
        return False
    return True
