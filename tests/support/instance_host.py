# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Instance actors in memory, on virtual time, for tests of pools."""

import asyncio
import itertools
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, field, replace
from typing import Any

from backends.api.errors import TritonError
from backends.api.model_config import ModelConfig
from cluster.devices.inventory import Inventory
from cluster.instances.device_leases import DeviceLeases
from cluster.instances.host import ActorLostError, ActorUnreachableError, Knock
from cluster.instances.placer import Placer
from cluster.instances.pool import InstancePool
from cluster.placement.demand import ClusterResources
from cluster.placement.node_devices import NodeDevices
from deployments.contracts.routing_table import InstanceEndpoint
from deployments.instance.progress import Progress
from deployments.instance.spec import InstanceDescription, InstanceSpec
from deployments.metrics.counters import Snapshot

LOAD_S = 1.0
WELL = Progress(turned=True, executing_for_s=0.0, is_stuck=False)


def spec(index: int = 0, name: str = "m") -> InstanceSpec:
    return InstanceSpec(
        name=f"{name}/1#{index}@1",
        generation=1,
        model_name=name,
        version=1,
        index=index,
        instance_name=f"{name}_{index}",
        config=ModelConfig(name),
        auto_complete=False,
        model_dir=f"/models/{name}",
    )


@dataclass(eq=False)
class FakeActor:
    """One actor.

    Attributes:
        incarnation: Of its process.
        progress: What it answers; None while it is stopped and answers nothing.
        died: Done, with the error that calls meet, once its process is dead.
        questions: How often it was asked for its progress.
        drain_s: How long its requests take; as long as they may, at most.
        counted: What it has counted.
        loaded: The incarnation that has loaded; empty before one has.
        is_draining: Whether it refuses requests.
        resumes: Done once it is not stopped any more; None while it never was.
        node: Where it runs.
        has_process: Set once Ray had room for it.
    """

    spec: InstanceSpec
    incarnation: str
    died: asyncio.Future[None]
    progress: Progress | None = WELL
    questions: int = 0
    drain_s: float = 0.0
    counted: Snapshot = field(default_factory=lambda: Snapshot(execution_count=1))
    loaded: str = ""
    is_draining: bool = False
    resumes: asyncio.Event | None = None
    node: str = "node"
    is_closed: asyncio.Event = field(default_factory=asyncio.Event)
    has_process: asyncio.Event = field(default_factory=asyncio.Event)

    def description(self) -> InstanceDescription:
        spec = self.spec
        name = f"{spec.model_name}/{spec.version}#{spec.index}"
        endpoint = InstanceEndpoint(name, self.incarnation, self.node, "", ("", 0))
        found = {"default_model_filename": "found"} if spec.auto_complete else {}
        config = replace(spec.config, **found)  # type: ignore[arg-type]  # a string, as it has
        return InstanceDescription(spec, config, endpoint, 1, 1, self.is_draining)

    async def answer(self, method: str, *arguments: Any) -> Any:
        if method == "wait_closed":
            await self.is_closed.wait()
        if method == "progress":
            self.questions += 1
            if self.progress is None:
                await asyncio.Event().wait()
            return self.progress
        if method == "drain":
            self.is_draining = True
            await asyncio.sleep(min(self.drain_s, *arguments))
        if method == "statistics":
            return self.counted
        return True


class FakeHost:
    """Implements `cluster.instances.host.InstanceHost`.

    Attributes:
        actors: All there were, by age.
        killed: Incarnations that were killed.
        groups: Names of the instances that have a placement group.
        fail_create: Raised by `create`, each once.
        fail_load: Raised by ``describe``, each once.
        fail: Errors of loads, by actor name without generation; each is raised once.
        blocked: Actor names without generation that the cluster has no room for.
        log: What happened: ``start``, ``ready``, ``drain`` and ``end`` with actor names.
        named: Actor names by incarnation.
        drain_s: How long requests take of actors that are created now.
        knocked: What becomes of connections to actors.
        cluster: The nodes there are.
        dies_silently: Whether processes die before they answer anything.
        kill_s: How long a kill takes.
        fail_kill: Raised by `kill`, each once.
        hung_kills: How many of the next kills never answer.
        lost_kills: How many of the next kills are answered, and do nothing.
        room: How many actors have a process; None for all.
        running: The release that processes run which are started.
        twice: Exclusive devices that were given to an actor while another had them.
        node: Where actors start that were given no place.
    """

    def __init__(self) -> None:
        self.actors: list[FakeActor] = []
        self.killed: list[str] = []
        self.fail_create: list[Exception] = []
        self.groups: set[str] = set()
        self.fail_load: list[TritonError | ActorLostError] = []
        self.fail: dict[str, list[TritonError]] = {}
        self.blocked: set[str] = set()
        self.log: list[str] = []
        self.named: dict[str, str] = {}
        self.drain_s = 0.0
        self.knocked = Knock.REFUSED
        self.dies_silently = False
        self.cluster = ClusterResources(())
        self.deaths = 7
        self.kill_s = 0.0
        self.fail_kill: list[Exception] = []
        self.hung_kills = 0
        self.lost_kills = 0
        self.room: int | None = None
        self.running = ""
        self.twice: list[str] = []
        self.node = "node"
        self._numbers = itertools.count()
        self._names: dict[str, FakeActor] = {}

    async def create(self, spec: InstanceSpec) -> FakeActor:
        if self.fail_create:
            raise self.fail_create.pop(0)
        if spec.name in self._names:
            raise ValueError(f"an actor of the name {spec.name} exists")
        if spec.gang is not None:
            self.groups.add(spec.name)
        died = asyncio.get_running_loop().create_future()
        spec = replace(spec, release=self.running)
        has = {actor.spec.device for actor in self.alive}
        if spec.device is not None and spec.device.is_exclusive and spec.device in has:
            self.twice.append(f"{spec.device.uuid} to {spec.name}")
        place = spec.device or spec.node
        node = self.node if place is None else place.node_id
        actor = FakeActor(spec, self._incarnation(spec), died, drain_s=self.drain_s, node=node)
        self.actors.append(actor)
        self._names[spec.name] = actor
        self.give_room()
        return actor

    def _incarnation(self, spec: InstanceSpec) -> str:
        made = f"i{next(self._numbers)}"
        self.named[made] = spec.name
        return made

    def give_room(self) -> None:
        """Start the processes that there is room for, the oldest first."""
        room = len(self._names) if self.room is None else self.room
        room -= sum(actor.has_process.is_set() for actor in self.alive)
        waiting = [each for each in self.alive if not each.has_process.is_set()]
        free = [each for each in waiting if _unnumbered(each) not in self.blocked]
        for actor in free[: max(0, room)]:
            self.log.append(f"start {actor.spec.name}")
            actor.has_process.set()

    def unblock(self) -> None:
        """Have room for all."""
        self.blocked.clear()
        self.give_room()

    async def call(self, handle: FakeActor, method: str, *arguments: object) -> Any:
        died = handle.died
        if self.dies_silently:
            await asyncio.wait({died})
        answer = asyncio.ensure_future(self._answer(handle, method, *arguments))
        try:
            await asyncio.wait({answer, died}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            if not answer.done():
                answer.cancel()
        if died.done():
            died.result()
        return answer.result()

    async def _answer(self, actor: FakeActor, method: str, *arguments: object) -> Any:
        await actor.has_process.wait()
        if method == "describe":
            return await self._describe(actor)
        if method == "drain":
            self.log.append(f"drain {actor.spec.name}")
        return await actor.answer(method, *arguments)

    async def _describe(self, actor: FakeActor) -> InstanceDescription:
        if self.fail_load:
            raise self.fail_load.pop(0)
        if actor.resumes is not None:
            await actor.resumes.wait()
        incarnation = actor.incarnation
        if actor.loaded != incarnation:
            await asyncio.sleep(LOAD_S)
            errors = self.fail.get(_unnumbered(actor))
            if errors:
                raise errors.pop(0)
            actor.loaded = incarnation
            self.log.append(f"ready {actor.spec.name}")
        return actor.description()

    async def knock(self, address: tuple[str, int], timeout_s: float) -> Knock:
        return self.knocked

    def disconnect(self, actor: FakeActor) -> None:
        """Break off the calls of an actor that lives on."""
        died, actor.died = actor.died, asyncio.get_running_loop().create_future()
        died.set_exception(ActorUnreachableError("cannot be reached"))

    def crash(self, actor: FakeActor) -> None:
        """End an actor's process; as Ray does, start it again unless it was killed."""
        died = actor.died
        if not died.done():
            died.set_exception(ActorLostError("a signal"))
            died.exception()
        if self._names.get(actor.spec.name) is actor:
            actor.died = asyncio.get_running_loop().create_future()
            actor.incarnation = self._incarnation(actor.spec)

    async def look_up(self, name: str) -> FakeActor | None:
        return self._names.get(name)

    async def restarts(self, handle: FakeActor) -> int:
        self.deaths += self.dies_silently
        return self.deaths

    async def kill(self, handle: FakeActor) -> None:
        if self.kill_s:
            await asyncio.sleep(self.kill_s)
        if self.fail_kill:
            raise self.fail_kill.pop(0)
        if self.hung_kills:
            self.hung_kills -= 1
            await asyncio.Event().wait()
        if self.lost_kills:
            self.lost_kills -= 1
            return
        if self._names.get(handle.spec.name) is handle:
            self.killed.append(handle.incarnation)
        self.vanish(handle)

    def vanish(self, actor: FakeActor) -> None:
        """End an actor for good, as its node does that ends."""
        if self._names.get(actor.spec.name) is actor:
            del self._names[actor.spec.name]
            if actor.has_process.is_set():
                self.log.append(f"end {actor.spec.name}")
            self.give_room()
        self.crash(actor)

    async def release(self, spec: InstanceSpec) -> None:
        if spec.gang is not None:
            self.groups.discard(spec.name)

    async def release_all_but(self, all_but: Collection[str]) -> None:
        self.groups &= set(all_but)

    async def names(self) -> list[str]:
        return [*self._names, "model-controller"]

    @property
    def alive(self) -> list[FakeActor]:
        """The actors that nobody has killed."""
        return list(self._names.values())

    async def resources(self) -> ClusterResources:
        return self.cluster


def _unnumbered(actor: FakeActor) -> str:
    return actor.spec.name.rpartition("@")[0]


async def started(pool: InstancePool, specs: Iterable[InstanceSpec]) -> None:
    """Have a pool serve with instances; those that wait for room among them."""
    await pool.stage(specs, 0, lambda: None)
    pool.commit(())


async def until(condition: Callable[[], object], within_s: float = 600.0) -> float:
    """Let virtual time pass until a condition holds; returns how many seconds."""
    loop = asyncio.get_running_loop()
    start_s = loop.time()
    while not condition():
        assert loop.time() - start_s < within_s
        await asyncio.sleep(0.01)
    return loop.time() - start_s


def anywhere() -> Placer:
    """Return a placer that leaves all places to the host."""

    async def no_nodes() -> ClusterResources:
        return ClusterResources()

    async def no_devices(node_id: str) -> Inventory:
        return Inventory()

    return Placer(no_nodes, DeviceLeases(no_nodes, NodeDevices(no_devices)))
