# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""How instances of one model leave: when their successors are ready, and after routers know."""

import asyncio
from collections.abc import Awaitable, Callable, Collection, Coroutine, Iterable, Mapping
from typing import Any

from cluster.models.contracts import Candidate, ModelSource, VersionPool
from cluster.models.operation import finished

Spawn = Callable[[str, Coroutine[Any, Any, None]], asyncio.Task[None]]


class Succession:
    """Lets instances go.

    Args:
        name: The model's key.
        source: Frees what candidates were read to.
        spawn: Runs in the background, under a name, what nobody waits for.
        routers_know: Returns when routers have heard of the records as they are; nothing drains
            before, so that what a router still sends to a drained instance is the exception.
        drain_s: How long requests in flight may take.
    """

    def __init__(
        self,
        name: str,
        source: ModelSource,
        spawn: Spawn,
        routers_know: Callable[[], Awaitable[None]],
        drain_s: float,
    ) -> None:
        self._name = name
        self._source = source
        self._spawn = spawn
        self._routers_know = routers_know
        self._drain_s = drain_s

    def shrink(self, pool: VersionPool, drain_s: float | None = None) -> None:
        """Begin to drain and end the instances that a commit let go."""
        self._spawn(f"drain of '{self._name}'", self._shrink(pool, drain_s))

    async def _shrink(self, pool: VersionPool, drain_s: float | None) -> None:
        await self._routers_know()
        await pool.let_go(self._drain_s if drain_s is None else drain_s)

    def end(
        self,
        pools: Collection[VersionPool],
        candidates: Collection[Candidate],
        changed: Collection[VersionPool] = (),
    ) -> asyncio.Task[None]:
        """Drain and end instances, then free the files they were loaded from.

        Args:
            pools: End altogether.
            candidates: What only they, or those that leave the others, were made from.
            changed: Go on with other instances.
        """
        return self._spawn(f"drain of '{self._name}'", self._end(pools, candidates, changed))

    async def _end(
        self,
        pools: Collection[VersionPool],
        candidates: Collection[Candidate],
        changed: Collection[VersionPool],
    ) -> None:
        for candidate in candidates:
            await self._source.unloading(candidate)
        await self._routers_know()
        ends = [pool.close(self._drain_s) for pool in pools]
        ends += [pool.let_go(self._drain_s, hurries=True) for pool in changed]
        await asyncio.gather(*ends)
        for candidate in candidates:
            await self._source.release(candidate)

    async def replace(
        self,
        staying: Mapping[VersionPool, tuple[str, ...]],
        drain_s: float | None,
        on_blocked: Callable[[], None],
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
        self, pool: VersionPool, names: tuple[str, ...], drain_s: float | None
    ) -> None:
        while names:
            await pool.wait_changed()
            before, names = names, pool.commit(names)
            if names != before:
                self.shrink(pool, drain_s)

    async def unstage(self, pools: Iterable[VersionPool]) -> None:
        """End what is staged; wait for it, since the next operation stages in the same pools."""

        async def undo() -> None:
            await asyncio.gather(*(pool.unstage() for pool in pools))

        await finished(self._spawn(f"undoing an operation on '{self._name}'", undo()))
