# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""How instances of one model leave: when their successors are ready, and after routers know.

What they were made from is freed when the last of them has ended.
"""

import asyncio
from collections.abc import Awaitable, Callable, Collection, Coroutine, Iterable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from cluster.instances.pool import InstancePool
from cluster.models.contracts import Candidate, ModelSource, OnBlocked
from cluster.models.operation import finished

Spawn = Callable[[str, Coroutine[Any, Any, None]], asyncio.Task[None]]


@dataclass(slots=True, eq=False)
class Succession:
    """Lets instances go.

    Attributes:
        name: The model's key.
        source: Frees what candidates were read to.
        spawn: Runs in the background, under a name, what nobody waits for.
        routers_know: Returns when routers have heard of the records as they are; nothing drains
            before, so that what a router still sends to a drained instance is the exception.
        drain_s: How long requests in flight may take.
        candidate: What serves was made from; None when nothing serves, or what was adopted.
    """

    name: str
    source: ModelSource
    spawn: Spawn
    routers_know: Callable[[], Awaitable[None]]
    drain_s: float
    candidate: Candidate | None = None
    # What instances that are being replaced were made from.
    _former: list[Candidate] = field(default_factory=list)

    def begin(self, candidate: Candidate) -> None:
        """Note that a candidate serves in the place of the one before."""
        if self.candidate is not None and self.candidate is not candidate:
            self._former.append(self.candidate)
        self.candidate = candidate
        self.spawn(f"notice of '{self.name}'", self.source.loaded(candidate))

    def shrink(self, pool: InstancePool, drain_s: float | None = None) -> None:
        """Begin to drain and end the instances that a commit let go."""
        self.spawn(f"drain of '{self.name}'", self._shrink(pool, drain_s))

    async def _shrink(self, pool: InstancePool, drain_s: float | None) -> None:
        await self.routers_know()
        await pool.let_go(self.drain_s if drain_s is None else drain_s)

    def leave(self, pools: Iterable[InstancePool], *, is_last: bool) -> None:
        """Drain and end the instances that a commit let go, with those that drain already.

        Args:
            pools: Which they were in.
            is_last: Whether no other instance of an earlier candidate waits for a successor.
        """
        ends = [partial(pool.let_go, self.drain_s, hurries=True) for pool in pools]
        unused = self._take_former() if is_last else []
        self.spawn(f"drain of '{self.name}'", self._end(ends, unused))

    def end(self, pools: Iterable[InstancePool], *, is_all: bool = False) -> asyncio.Task[None]:
        """Drain and end all instances of some versions, or of all that there are."""
        ends = [partial(pool.close, self.drain_s) for pool in pools]
        unused = self._take_all() if is_all else []
        return self.spawn(f"drain of '{self.name}'", self._end(ends, unused))

    async def close(self, pools: Iterable[InstancePool], drain_s: float) -> None:
        """Drain and end every instance, whatever routers know."""
        ends = [partial(pool.close, drain_s) for pool in pools]
        await self._end(ends, self._take_all(), waits=False)

    async def _end(
        self,
        ends: Collection[Callable[[], Awaitable[None]]],
        unused: Collection[Candidate],
        *,
        waits: bool = True,
    ) -> None:
        for candidate in unused:
            await self.source.unloading(candidate)
        if waits:
            await self.routers_know()
        await asyncio.gather(*(end() for end in ends))
        for candidate in unused:
            await self.source.release(candidate)

    def _take_former(self) -> list[Candidate]:
        former, self._former = self._former, []
        return former

    def _take_all(self) -> list[Candidate]:
        candidate, self.candidate = self.candidate, None
        return self._take_former() + ([] if candidate is None else [candidate])

    async def replace(
        self,
        staying: Mapping[InstancePool, tuple[str, ...]],
        drain_s: float | None,
        on_blocked: OnBlocked,
    ) -> None:
        """Let instances go, each when its successor is ready, however long there is no room.

        When this is cancelled, what is staged yet ends, and who has no successor stays.

        Args:
            staying: By pool: the names of those that shall go.
            drain_s: How long requests in flight may take; None for as long as ever.
            on_blocked: Called when there are any.
        """
        if not any(staying.values()):
            return
        on_blocked()
        works = [asyncio.ensure_future(self._replace(*each, drain_s)) for each in staying.items()]
        try:
            await asyncio.gather(*works)
        except BaseException:
            for work in works:
                work.cancel()
            await self.unstage(staying)
            raise

    async def _replace(
        self, pool: InstancePool, names: tuple[str, ...], drain_s: float | None
    ) -> None:
        while names:
            await pool.wait_changed()
            before, names = names, pool.commit(names)
            if names != before:
                self.shrink(pool, drain_s)

    async def unstage(self, pools: Iterable[InstancePool]) -> None:
        """End what is staged; wait for it, since the next operation stages in the same pools."""

        async def undo() -> None:
            await asyncio.gather(*(pool.unstage() for pool in pools))

        await finished(self.spawn(f"undoing an operation on '{self.name}'", undo()))
