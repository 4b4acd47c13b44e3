# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""What `ModelLifecycle` keeps of a model beside its record: what serves, and what is being done."""

import asyncio
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from typing import Any

from cluster.models import operation
from cluster.models.contracts import Candidate
from cluster.models.override import NO_OVERRIDE, Override
from cluster.models.versions import ModelVersions


@dataclass(slots=True, eq=False)
class OperatedModel:
    """A model, and the operation on it that is in progress.

    Attributes:
        versions: What serves.
        blocked: Set by an operation that waits for room.
        lock: Held by who starts or replaces an operation.
        override: What it was last asked to be loaded with.
        kept_override: What it was last loaded with.
        loading: The candidate of a load in progress.
        has_changed: Whether the last load changed what ensembles are made of.
        work: The operation.
        cancelled: The last operation that was cancelled.
    """

    versions: ModelVersions
    blocked: asyncio.Event
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    override: Override = NO_OVERRIDE
    kept_override: Override = NO_OVERRIDE
    loading: Candidate | None = None
    has_changed: bool = False
    work: operation.Work | None = None
    cancelled: operation.Work | None = None

    def cancel(self) -> None:
        """Cancel the operation; once, since a second time would break off its cleaning up."""
        if operation.is_running(self.work) and self.work is not self.cancelled:
            self.cancelled = self.work
            self.work.cancel()

    async def end_work(self) -> None:
        """Cancel the operation and wait until it has cleaned up."""
        self.cancel()
        if operation.is_running(self.work):
            await asyncio.wait({self.work})

    async def run(
        self,
        name: str,
        work: Coroutine[Any, Any, None],
        followed: Callable[[operation.Work], operation.Work],
    ) -> operation.Work:
        """Begin an operation, with the lock held; return when it has ended or waits for room.

        Args:
            name: What it does, for the log.
            work: The coroutine.
            followed: Has the end of the lifecycle wait for the task.
        """
        self.blocked.clear()
        task = self.work = followed(operation.begin(name, work))
        blocked = asyncio.create_task(self.blocked.wait())
        try:
            await asyncio.wait({task, blocked}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            blocked.cancel()
        return task
