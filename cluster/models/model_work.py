# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""The operations on one model: what serves, and the one that is under way.

A *resize*, which gives a version another count of instances, is an operation as loads are: a later
load or an unload cancels it, and it begins only while there is none. It can be cancelled at any
time because nothing that serves is touched before all that is new is ready. The poll leaves it
alone while the repository has what serves.
"""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field

from cluster.models import operation
from cluster.models.contracts import Candidate
from cluster.models.override import NO_OVERRIDE, Override
from cluster.models.versions import ModelVersions


@dataclass(slots=True, eq=False)
class ModelWork:
    """What a record cannot hold: what serves, and the operation in progress.

    Attributes:
        versions: What serves.
        blocked: Set while the operation is pending for want of room.
        lock: Held to begin or replace an operation.
        override: What the model was last asked to be loaded with.
        kept_override: That of its last successful load.
        loading: What the operation makes of the model; None when that is not known yet.
        has_changed: Whether the last load has changed what ensembles are made of.
        work: The operation.
    """

    versions: ModelVersions
    blocked: asyncio.Event
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    override: Override = NO_OVERRIDE
    kept_override: Override = NO_OVERRIDE
    loading: Candidate | None = None
    has_changed: bool = False
    work: asyncio.Task[None] | None = None

    async def resize(
        self, version: int, count: int, begun: Callable[[asyncio.Task[None]], object]
    ) -> bool:
        """Give a ready version another count of instances, unless another operation is under way.

        Args:
            version: Version number.
            count: How many instances shall serve.
            begun: Called with the operation.

        Returns:
            Whether the version has as many now, those that wait for room included.

        Raises:
            TritonError: A new instance failed to load; what served before still serves.
        """
        if self.lock.locked() or operation.is_running(self.work):
            return False
        async with self.lock:
            self.blocked.clear()
            resize = self._resize(version, count)
            work = self.work = operation.begin(f"resize of '{self.versions.name}'", resize)
            begun(work)
        await asyncio.wait({work})
        if work.cancelled():
            return False
        work.result()
        return True

    async def _resize(self, version: int, count: int) -> None:
        self.loading = candidate = self.versions.candidate
        try:
            await self.versions.resize(version, count)
        finally:
            if self.loading is candidate:
                self.loading = None
