# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Has instances that run another release of Manta replaced by such of this one, one by one.

For each a new one is started; when it is ready, routers are told and the old one finishes its
requests and sequences and ends. Then comes the next. Where there is no room for both the old one
goes first; those come last, when others have shown that this release works here. The first new
instance that does not load ends the renewal: what is left goes on serving as it is, until the
renewal is begun again.
"""

import asyncio
import logging
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from backends.api.errors import InternalError, TritonError
from backends.api.model_identifier import shown
from cluster.instances.pool import InstancePool
from cluster.models.in_service import move
from cluster.models.operated_model import OperatedModel
from cluster.models.operation import Kind
from cluster.placement.explanation import InstanceStatus

_log = logging.getLogger(__name__)

# How often it is looked whether an instance is there, or gone.
_LOOK_S: Final = 0.2
# A sequence may take its time; nobody waits for it but its instance.
_DRAIN_S: Final = 3600.0


class RenewalPhase(StrEnum):
    """Where a renewal is."""

    # Nothing was to be renewed, or nothing is any more.
    CURRENT = "current"
    RENEWING = "renewing"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class Stale:
    """An instance of another release."""

    key: str
    version: int
    name: str


@dataclass(slots=True, eq=False)
class Renewal:
    """Renews instances.

    Attributes:
        pools: Returns the instances of all versions.
        drain_s: How long the next instance waits for the end of the one before.
        phase: Where it is.
        reason: Why it has failed.
        done_count: Instances that were replaced since it was begun.
        current: The instance that is being replaced; empty for none.
    """

    pools: Callable[[], Iterator[tuple[str, int, InstancePool]]]
    model_of: Callable[[str], OperatedModel]
    drain_s: float
    phase: RenewalPhase = RenewalPhase.CURRENT
    reason: str = ""
    done_count: int = 0
    current: str = ""

    async def run(self, release: str) -> None:
        """Renew all instances that are of another release; how it went is in the attributes."""
        self.phase, self.reason, self.done_count = RenewalPhase.RENEWING, "", 0
        blocked: set[str] = set()
        try:
            while stale := sorted(self.stale(release), key=lambda each: each.name in blocked):
                before = self.done_count
                for each in stale:
                    self.current = each.name
                    if await self._renew(each, may_go_first=each.name in blocked):
                        self.done_count += 1
                    elif not self.model_of(each.key).operations:
                        blocked.add(each.name)
                if self.done_count == before:
                    # Loads or unloads are under way, or the last one has met its bounds.
                    await asyncio.sleep(_LOOK_S)
        except TritonError as error:
            self.phase = RenewalPhase.FAILED
            self.reason = f"instance {self.current} is not replaced: {error.message.strip()}"
            _log.error("the renewal of the instances has stopped: %s", self.reason)
        else:
            self.phase = RenewalPhase.CURRENT
        self.current = ""

    def stale(self, release: str) -> Iterator[Stale]:
        """Return the live instances of other releases, in the order of their names."""
        for key, version, pool in self.pools():
            for each in pool.places:
                if each.node_id and each.spec.release != release and not each.is_leaving:
                    yield Stale(key, version, each.spec.name)

    def counts(self) -> dict[str, int]:
        """Return how many live instances there are by release, those that end included."""
        found: dict[str, int] = {}
        for _, _, pool in self.pools():
            for each in pool.places:
                if each.node_id:
                    found[each.spec.release] = found.get(each.spec.release, 0) + 1
        return found

    async def _renew(self, stale: Stale, *, may_go_first: bool) -> bool:
        """Replace an instance; False when it cannot be done now.

        Raises:
            TritonError: The new instance does not load; the old one is still in service, unless it
                had to go first.
        """
        model = self.model_of(stale.key)
        pool = model.versions.pools.get(stale.version)
        if pool is None or all(spec.name != stale.name for spec in pool.specs):
            return False
        before = {each.spec.name for each in pool.places}
        operation = await model.run(
            Kind.RENEW,
            stale.version,
            f"renewal of {stale.name}",
            lambda operation: move(
                model.versions, stale.version, lambda _: (stale.name,), operation.block, _DRAIN_S
            ),
        )
        if operation is None:
            return False
        if not operation.is_over:
            operation.cancel()
            await operation.wait_ended()
            gone = (stale.name,) if may_go_first else ()
            if not (gone and model.displace(stale.version, gone, "its successor")):
                return False
        elif operation.was_cancelled:
            return False
        else:
            operation.result()
        await self._wait_there(pool, before)
        await self._wait_gone(pool, stale.name)
        _log.info("'%s': %s is replaced", shown(stale.key), stale.name)
        return True

    async def _wait_there(self, pool: InstancePool, before: set[str]) -> None:
        """Wait until what was started takes requests; it may have had to wait for room."""
        while True:
            new = [each for each in pool.places if each.spec.name not in before]
            for each in new:
                if each.is_failing:
                    raise InternalError(each.reason)
            if all(_is_over(each) for each in new):
                return
            await asyncio.sleep(_LOOK_S)

    async def _wait_gone(self, pool: InstancePool, name: str) -> None:
        """Wait until an instance has ended, or for as long as the next one waits for it."""
        deadline_s = asyncio.get_running_loop().time() + self.drain_s
        while any(each.spec.name == name for each in pool.places):
            if asyncio.get_running_loop().time() >= deadline_s:
                return
            await asyncio.sleep(_LOOK_S)


def _is_over(status: InstanceStatus) -> bool:
    """Whether an instance that was started is there, or on its way out again."""
    return bool(status.node_id) or status.is_leaving
