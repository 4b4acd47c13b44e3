# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""What may be done to versions of a model at the same time: one table, and what runs by it.

A row is what arrives, a column what runs, or waits for its turn, on a version of both:

- *wait*: it has its turn when the other has ended, or is pending and may be cancelled.
- *join*: the outcome of the other is its outcome; of a poll, when the other loads the same.
- *cancel*: the other is cancelled, once, and has cleaned up before the turn comes.
- *refuse*: it is not done; whoever asked asks again, or looks again.

*Pending* is an operation that waits for room in the cluster: what it has begun goes on for as long
as that takes, so that other rules may hold.
"""

import asyncio
import logging
from collections.abc import Coroutine, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Final

from backends.api.errors import TritonError
from cluster.models.contracts import Candidate

_log = logging.getLogger(__name__)

Work = asyncio.Task[None]


class Kind(StrEnum):
    """What is done to versions of a model."""

    # Of all versions: what loads is all of a model or nothing. A reload is one, too.
    LOAD = "load"
    # A load by the poll of the repository; one that joins nothing is a load.
    POLL = "poll"
    UNLOAD = "unload"
    # Of one version.
    RESIZE = "resize"
    WAKE = "wake"
    MOVE = "move"
    RENEW = "renew"
    # Of one version, and done at once.
    REST = "rest"
    DISPLACE = "displace"


class Meeting(StrEnum):
    """What becomes of what arrives while something else runs."""

    WAIT = "wait"
    JOIN = "join"
    CANCEL = "cancel"
    REFUSE = "refuse"


_W, _J, _C, _R = Meeting.WAIT, Meeting.JOIN, Meeting.CANCEL, Meeting.REFUSE
_K = Kind

# What runs takes time; those that are done at once have no column.
RUNNING: Final = (_K.LOAD, _K.UNLOAD, _K.RESIZE, _K.WAKE, _K.MOVE, _K.RENEW)

# By what arrives, and the columns above: while it works, and while it is pending.
_ROWS: Final[Mapping[Kind, tuple[tuple[Meeting, Meeting], ...]]] = {
    #            load      unload    resize    wake      move      renew
    _K.LOAD: ((_W, _C), (_W, _W), (_C, _C), (_W, _C), (_W, _C), (_W, _C)),
    _K.POLL: ((_J, _J), (_W, _W), (_J, _J), (_J, _J), (_J, _J), (_J, _J)),
    _K.UNLOAD: ((_C, _C), (_W, _W), (_C, _C), (_C, _C), (_C, _C), (_C, _C)),
    _K.RESIZE: ((_R, _R), (_R, _R), (_R, _C), (_R, _R), (_R, _C), (_R, _R)),
    _K.WAKE: ((_W, _W), (_W, _W), (_W, _W), (_J, _J), (_W, _W), (_W, _W)),
    _K.MOVE: ((_R, _R), (_R, _R), (_R, _R), (_R, _R), (_R, _C), (_R, _R)),
    _K.RENEW: ((_R, _R), (_R, _R), (_R, _R), (_R, _R), (_R, _R), (_R, _R)),
    _K.REST: ((_R, _R), (_R, _R), (_R, _C), (_R, _R), (_R, _C), (_R, _R)),
    _K.DISPLACE: ((_R, _R), (_R, _R), (_R, _C), (_R, _R), (_R, _C), (_R, _R)),
}


def meeting(arriving: Kind, running: Kind, *, is_pending: bool) -> Meeting:
    """Look up what becomes of what arrives."""
    return _ROWS[arriving][RUNNING.index(running)][is_pending]


@dataclass(eq=False, slots=True)
class Operation:
    """Something that is done to versions of a model, or waits for its turn.

    Attributes:
        kind: What it is.
        version: The version; None for all.
        candidate: What of the model it loads, or leaves in service.
        is_pending: Whether it waits for room.
        is_cancelled: Whether it was cancelled, perhaps before it began.
        has_changed: Whether a load has changed what ensembles are made of.
        following: What a load has begun with its end: the loads of ensembles.
        changed: Set, and another in its place, when it is pending, is cancelled or has ended.
    """

    kind: Kind
    version: int | None = None
    candidate: Candidate | None = None
    is_pending: bool = False
    is_cancelled: bool = False
    has_changed: bool = False
    following: asyncio.Task[None] | None = None
    changed: asyncio.Event = field(default_factory=asyncio.Event)
    _task: Work | None = None

    def concerns(self, version: int | None) -> bool:
        """Whether it is done to a version; to any, for None."""
        return self.version is None or version is None or self.version == version

    @property
    def has_begun(self) -> bool:
        """Whether its turn has come."""
        return self._task is not None

    @property
    def is_over(self) -> bool:
        """Whether it has ended, or will not begin."""
        return self.is_cancelled if self._task is None else self._task.done()

    @property
    def was_cancelled(self) -> bool:
        """Whether it has ended because it was cancelled."""
        return self.is_cancelled if self._task is None else self._task.cancelled()

    def begin(self, name: str, work: Coroutine[Any, Any, None]) -> Work:
        """Begin it, with an error that is seen also when nobody waits for it.

        Args:
            name: What it does, for the log.
            work: The coroutine; it logs its own `TritonError`.
        """
        self._task = asyncio.create_task(work, name=name)
        self._task.add_done_callback(_see_end)
        self._task.add_done_callback(lambda _: self._note())
        return self._task

    def block(self) -> None:
        """Note that it waits for room."""
        self.is_pending = True
        self._note()

    def cancel(self) -> None:
        """Cancel it; once, since a second time would break off its cleaning up."""
        if self.is_over or self.is_cancelled:
            return
        self.is_cancelled = True
        if self._task is not None:
            self._task.cancel()
        self._note()

    async def wait_settled(self) -> None:
        """Wait until it is pending or has ended."""
        while not (self.is_over or self.is_pending):
            await self.changed.wait()

    async def wait_ended(self) -> None:
        """Wait until it has ended."""
        while not self.is_over:
            await self.changed.wait()

    def result(self) -> None:
        """Return when it went well.

        Raises:
            TritonError: As it ended.
        """
        if self._task is not None and not self._task.cancelled():
            self._task.result()

    def _note(self) -> None:
        self.changed.set()
        self.changed = asyncio.Event()


async def finished(task: Work) -> None:
    """Wait for the end of a task that nobody cancels, also when who waits is cancelled."""
    try:
        await asyncio.shield(task)
    except asyncio.CancelledError:
        await asyncio.wait({task})
        raise


def _see_end(task: Work) -> None:
    error = None if task.cancelled() else task.exception()
    if error is not None and not isinstance(error, TritonError):
        _log.error("%s failed", task.get_name(), exc_info=error)
