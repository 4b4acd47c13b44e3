# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Instance pools: the instances of a model version.

A pool is changed in place in three steps, so that requests find as many instances as before at any
instant: new instances are *staged*, that is started beside the others; a commit makes members of
those that are ready and lets as many others leave; those drain, and end. So one goes for one where
there is no room for all: who has no successor yet stays. What an instance that left has counted
stays with the pool, by node, until the version is loaded anew.

A pool tells its owner about every change by one callback and is asked for its endpoints.
"""

import asyncio
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import replace

from backends.api.model_config import ModelConfig
from cluster.instances.host import InstanceHost
from cluster.instances.live import LiveInstance
from cluster.instances.place import InstancePlace
from cluster.instances.placer import Placer
from cluster.instances.prober import Prober
from cluster.placement.explanation import InstanceStatus
from cluster.placement.planner import ActorName
from deployments.contracts.routing_table import InstanceEndpoint
from deployments.instance.spec import InstanceSpec
from deployments.metrics.counters import Snapshot, encode, merge


class InstancePool:
    """The instances of a model version.

    Args:
        on_change: Called on the loop whenever endpoints or reasons changed.
        host: Where the actors live.
        prober: Tells of actors that get nowhere.
        placer: Gives instances their places.
    """

    def __init__(
        self,
        on_change: Callable[[], None],
        host: InstanceHost,
        prober: Prober,
        placer: Placer,
    ) -> None:
        self._on_change = on_change
        self._host = host
        self._prober = prober
        self._placer = placer
        self._members: list[InstancePlace] = []
        self._staged: list[InstancePlace] = []
        self._leaving: list[InstancePlace] = []
        self._to_drain: list[InstancePlace] = []
        self._past: dict[str, Snapshot] = {}
        # Of the last load: what instances before it have counted is forgotten.
        self._generation = 0
        self._next_index = 0
        self._changed = asyncio.Event()
        self._drains: set[asyncio.Task[None]] = set()
        # Set when those that drain now have no longer than so many seconds.
        self._hurried = asyncio.Event()
        self._hurried_s = 0.0
        self._is_closed = False

    @property
    def specs(self) -> tuple[InstanceSpec, ...]:
        """What the members were made from: live ones first, each part by age."""
        places = sorted(self._members, key=lambda p: (p.description is None, p.spec.index))
        return tuple(place.spec for place in places)

    @property
    def next_index(self) -> int:
        """Lowest index that no instance of the pool ever had, so that no name is used twice."""
        return self._next_index

    @property
    def endpoints(self) -> tuple[InstanceEndpoint, ...]:
        """Where the live members listen that take requests."""
        return _endpoints(self._members)

    @property
    def leaving(self) -> tuple[InstanceEndpoint, ...]:
        """Where those listen that finish their last requests."""
        return _endpoints(self._leaving)

    @property
    def past(self) -> Mapping[str, bytes]:
        """By node: what instances that have left the pool had counted."""
        return {node: encode(snapshot) for node, snapshot in self._past.items()}

    @property
    def is_live(self) -> bool:
        """Whether it serves: some member that takes requests is live, or any if none does."""
        return _live_count(self._members) > 0

    @property
    def reason(self) -> str:
        """What instances that are not live wait for; empty when all are."""
        places = (*self._members, *self._staged)
        return "; ".join(place.reason for place in places if place.reason)

    @property
    def staged_config(self) -> ModelConfig | None:
        """Config of the first staged instance that is live, as its backend completed it."""
        live = (p.description for p in self._staged if p.description is not None)
        return next((description.config for description in live), None)

    @property
    def load_duration_ns(self) -> int:
        """Longest load among the live instances."""
        live = (p.description for p in self._members if p.description is not None)
        return max((description.load_duration_ns for description in live), default=0)

    @property
    def places(self) -> tuple[InstanceStatus, ...]:
        """All instances: members, those that are staged, and those that leave."""
        there = [place.status for place in (*self._members, *self._staged)]
        return (*there, *(replace(each.status, is_leaving=True) for each in self._leaving))

    def on_nodes(self, node_ids: Collection[str]) -> tuple[str, ...]:
        """Return the actor names of the live members on some nodes."""
        return tuple(
            place.spec.name
            for place in self._members
            if place.endpoint is not None and place.endpoint.node_id in node_ids
        )

    async def stage(
        self, specs: Iterable[InstanceSpec], least: int, on_blocked: Callable[[], None]
    ) -> None:
        """Start instances that take no requests yet; `commit` or `unstage` comes next.

        Returns when each is ready or waits for room, and some of those that are staged are ready.

        Args:
            specs: The new instances.
            least: How many of all that are staged have to be ready.
            on_blocked: Called when fewer are, for want of room.

        Raises:
            TritonError: An instance failed to load.
        """
        await asyncio.gather(*[self._add(self._staged, spec).settled for spec in specs])
        staged = self._staged
        if _live_count(staged) >= min(least, len(_counting(staged))):
            return
        on_blocked()
        while _live_count(staged) < min(least, len(_counting(staged))):
            for place in staged:
                if place.load_error is not None:
                    raise place.load_error
            await self.wait_changed()

    def commit(self, leaving: Collection[str]) -> tuple[str, ...]:
        """Make members of what is staged and ready, let as many go; `let_go` comes next.

        Members that are not live, and those that nothing staged is to follow, go at once. When all
        have gone that shall, what is staged becomes members as it is.

        Args:
            leaving: Actor names of the members that shall leave.

        Returns:
            Those that stay, until another one that is staged is ready.
        """
        outgoing = [place for place in self._members if place.spec.name in leaving]
        gone = [place for place in outgoing if place.description is None]
        for is_passive in (False, True):
            live = [p for p in outgoing if p.spec.group.passive is is_passive and p not in gone]
            new = [place for place in self._staged if place.spec.group.passive is is_passive]
            ready_count = sum(place.description is not None for place in new)
            gone += live[: ready_count + max(0, len(live) - len(new))]
        staying = tuple(place.spec.name for place in outgoing if place not in gone)
        new = [each for each in self._staged if not staying or each.description is not None]
        self._staged = [place for place in self._staged if place not in new]
        self._members += new
        self._leave(gone)
        return staying

    def count_anew(self) -> None:
        """Forget what instances before those that are staged have counted, or count yet."""
        self._generation = max((place.spec.generation for place in self._staged), default=0)
        self._past.clear()

    def _leave(self, gone: Collection[InstancePlace]) -> None:
        for place in gone:
            place.stop_watching()
        self._members = [place for place in self._members if place not in gone]
        self._leaving += gone
        self._to_drain += gone
        self._notify()

    async def wait_changed(self) -> None:
        """Wait until anything has changed of any instance."""
        self._changed.clear()
        await self._changed.wait()

    def displace(self, names: Collection[str]) -> Mapping[str, str]:
        """Let members go that are to come back when there is room; `let_go` comes next.

        Args:
            names: Their actor names; those of others are ignored.

        Returns:
            By the name of a member that goes: that of the new one, which waits for its place.
        """
        gone = [place for place in self._members if place.spec.name in names]
        followers = {}
        for place in gone:
            follower = self._renumbered(place.spec)
            self._add(self._members, follower).settle()
            followers[place.spec.name] = follower.name
        self._leave(gone)
        return followers

    async def unstage(self) -> None:
        """End what is staged."""
        staged, self._staged = self._staged, []
        await asyncio.gather(*(place.end(0) for place in staged))

    async def let_go(self, drain_s: float, *, hurries: bool = False) -> None:
        """Drain and end the instances that leave; what they have counted is kept.

        Args:
            drain_s: How long requests in flight, and then the model's own clean-up, may take.
            hurries: Whether those that drain already have no longer than that, either, and are
                waited for.
        """
        places, self._to_drain = self._to_drain, []
        drains = [asyncio.ensure_future(self._let_go(place, drain_s)) for place in places]
        if hurries:
            self._hurry(drain_s)
            drains += self._drains
        self._drains.update(drains)
        for drain in drains:
            drain.add_done_callback(self._drains.discard)
        await asyncio.gather(*drains)

    def _hurry(self, drain_s: float) -> None:
        self._hurried_s = drain_s
        self._hurried.set()
        self._hurried = asyncio.Event()

    async def statistics(self) -> Mapping[str, Snapshot]:
        """Ask the live members at once what they have counted.

        Returns:
            By actor name; without those that do not say.
        """
        places = [place for place in self._members if place.description is not None]
        counted = await asyncio.gather(*(place.statistics() for place in places))
        named = zip(places, counted, strict=True)
        return {place.spec.name: each for place, each in named if each is not None}

    async def _let_go(self, place: InstancePlace, drain_s: float) -> None:
        snapshot = await self._drained(place, drain_s)
        is_counted = place.spec.generation >= self._generation
        if snapshot is not None and place.endpoint is not None and is_counted:
            node_id = place.endpoint.node_id
            # Metrics of a model's own live as long as its instance.
            snapshot.custom = []
            known = [self._past[node_id]] if node_id in self._past else []
            self._past[node_id] = merge([*known, snapshot])
        self._leaving.remove(place)
        self._notify()
        await place.end(drain_s)

    async def _drained(self, place: InstancePlace, drain_s: float) -> Snapshot | None:
        """Drain an instance; once it is hurried, for no longer than others get."""
        if self._is_closed:
            drain_s = min(drain_s, self._hurried_s)
        drain = asyncio.ensure_future(place.drain(drain_s))
        hurried = asyncio.ensure_future(self._hurried.wait())
        try:
            await asyncio.wait({drain, hurried}, return_when=asyncio.FIRST_COMPLETED)
            if not drain.done():
                await asyncio.wait({drain}, timeout=self._hurried_s)
            return drain.result() if drain.done() else None
        finally:
            drain.cancel()
            hurried.cancel()

    def adopt(
        self,
        live: Iterable[LiveInstance],
        missing: Iterable[InstanceSpec],
        taken: Collection[int] = (),
    ) -> None:
        """Take over actors that another controller created, and start those it lacks.

        Args:
            live: Actors that have described themselves; those that drain leave at the next
                `let_go`.
            missing: Specs of the instances that are not alive; they start in the background.
            taken: Indices of actors that are there and have not described themselves: others start
                in their places, under names of their own.
        """
        self._next_index = max((self._next_index, *(index + 1 for index in taken)))
        for found in live:
            places = self._leaving if found.description.is_draining else self._members
            self._add(places, found.description.spec, found).settle()
        for place in self._leaving:
            place.stop_watching()
        self._to_drain = list(self._leaving)
        for spec in missing:
            free = self._renumbered(spec) if spec.index in taken else spec
            self._add(self._members, free).settle()

    async def close(self, drain_s: float) -> None:
        """Drain, shut down and kill every instance, in parallel. Nothing is staged afterwards.

        Those that `let_go` sees to end no later than the others, but not before this returns.

        Args:
            drain_s: How long requests in flight, and then the model's own clean-up, may take.
        """
        self._is_closed = True
        self._hurry(drain_s)
        places = (*self._members, *self._staged)
        self._members, self._staged = [], []
        for place in places:
            place.stop_watching()
        await asyncio.gather(*(_drain_and_end(place, drain_s) for place in places))

    def _renumbered(self, spec: InstanceSpec) -> InstanceSpec:
        """Return a spec with an index that no instance of the pool ever had."""
        index = self._next_index
        self._next_index += 1
        name = ActorName(spec.model_key, spec.version, index, spec.generation)
        return replace(spec, index=index, name=str(name))

    def _notify(self) -> None:
        self._changed.set()
        self._on_change()

    def _add(
        self, places: list[InstancePlace], spec: InstanceSpec, live: LiveInstance | None = None
    ) -> InstancePlace:
        place = InstancePlace(
            spec, self._notify, self._host, self._prober, self._placer, self._renumbered, live
        )
        places.append(place)
        self._next_index = max(self._next_index, spec.index + 1)
        return place


def _endpoints(places: Iterable[InstancePlace]) -> tuple[InstanceEndpoint, ...]:
    return tuple(
        place.endpoint
        for place in places
        if place.endpoint is not None and not place.spec.group.passive
    )


def _counting(places: Iterable[InstancePlace]) -> list[InstancePlace]:
    """Return those that take requests, or all if none does."""
    places = list(places)
    return [place for place in places if not place.spec.group.passive] or places


def _live_count(places: Iterable[InstancePlace]) -> int:
    return sum(place.description is not None for place in _counting(places))


async def _drain_and_end(place: InstancePlace, drain_s: float) -> None:
    await place.drain(drain_s)
    await place.end(drain_s)
