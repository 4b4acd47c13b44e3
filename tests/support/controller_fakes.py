# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""What a controller has around it: a key-value store and a cluster in memory."""

import asyncio
import math
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from cluster.controller.controller import ModelController
from cluster.controller.host import ControllerHost
from cluster.controller.ownership import Owner
from cluster.devices.inventory import Inventory
from cluster.instances import live
from cluster.instances.device_leases import DeviceLeases
from cluster.instances.live import LiveInstance, LiveInstances
from cluster.instances.node_files import NodeFilesSettings
from cluster.instances.placer import Placer
from cluster.instances.pool import InstancePool
from cluster.instances.prober import Prober
from cluster.options.parsing import from_mapping
from cluster.placement.demand import ClusterResources, NodeResources
from cluster.placement.node_devices import NodeDevices
from cluster.placement.node_requests import NodeRequest
from cluster.placement.nodes import SharedLook
from cluster.release import own_release
from cluster.repository.agents.contracts import Action
from deployments.instance.progress import Progress
from deployments.instance.spec import InstanceSpec
from deployments.model_files.contracts import ModelFiles
from deployments.model_files.prefetch import CacheView, Outcome, Prefetched
from tests.support import instance_host
from tests.support.control_plane_fakes import DRAIN_S, now

WRITE_S = 0.01
NOBODY = Owner()
NODE_FILES = NodeFilesSettings("", 0, "INFO")


class FakeStore:
    """A store in memory; a write takes `WRITE_S`.

    Attributes:
        values: What is in it.
        writes: Keys, in the order they were written or deleted.
        fail: Errors of writes; each is raised once.
    """

    def __init__(self) -> None:
        self.values: dict[bytes, bytes] = {}
        self.writes: list[bytes] = []
        self.fail: list[Exception] = []
        self._is_there = asyncio.Event()
        self._is_there.set()

    def go_away(self) -> None:
        """Have reads and writes of rows wait, as those of a head that is gone."""
        self._is_there.clear()

    def come_back(self) -> None:
        self._is_there.set()

    async def get(self, key: bytes) -> bytes | None:
        await self._is_there.wait()
        return self.values.get(key)

    async def keys(self, prefix: bytes) -> Sequence[bytes]:
        return [key for key in self.values if key.startswith(prefix)]

    async def create(self, key: bytes, value: bytes) -> bool:
        await self._reach(key)
        return self.values.setdefault(key, value) == value

    async def put(self, key: bytes, content: Callable[[], bytes]) -> None:
        value = content()
        await self._reach(key)
        self.values[key] = value

    async def delete(self, key: bytes) -> None:
        await self._reach(key)
        self.values.pop(key, None)

    async def _reach(self, key: bytes) -> None:
        await asyncio.sleep(WRITE_S)
        await self._is_there.wait()
        if self.fail:
            raise self.fail.pop(0)
        self.writes.append(key)


class FakeHost:
    """All parts of a `cluster.controller.host.ControllerHost`; outlives the controllers in it.

    Attributes:
        node_names: The nodes.
        store: The cluster's store.
        instances: The actors of the instances.
        pools: Those of the controller, by age.
        devices: GPUs, by node.
        killed: Names of instances that were killed.
        retired: Names of instances that finished their requests first.
        offers: Locations of files of loads that nodes give to others.
        told: What agents on nodes were told, by the key of their files.
        suspects: Incarnations a router got no answer from.
        fail: Errors of calls, by the call's name; each is raised once.
        fail_always: Errors of calls that are raised each time.
        progress: What all instances say of theirs.
        draining: Nodes that drain.
        requested: Nodes that are asked for.
        prestarted: What nodes were asked for, each time.
        prefetches: What nodes were asked to fetch, each time: the node, the model and its files.
        outcomes: What came of those that ended well.
        held: Nodes and the keys of files that they have prefetched.
        ended_s: When the process was ended.
        stepped_down: Whether a controller has found that another has taken over.
        restarts: When a controller has ended its process to be started again; it goes on here, and
            does nothing any more.
    """

    def __init__(
        self,
        store: FakeStore | None = None,
        instances: instance_host.FakeHost | None = None,
    ) -> None:
        self.store = store or FakeStore()
        self.instances = instances or _no_instances()
        self.pools: list[InstancePool] = []
        self.own_node = "node:h"
        self.node_id = "n1"
        self.offers: list[str] = []
        self.told: list[tuple[str, str]] = []
        self.node_names: tuple[str, ...] = ("n",)
        self.devices: dict[str, Inventory] = {}
        self.was_restarted = False
        self.killed: list[str] = []
        self.retired: list[str] = []
        self.suspects: list[str] = []
        self.fail: dict[str, Exception] = {}
        self.fail_always: dict[str, Exception] = {}
        self.looks = 0
        self.draining: set[str] = set()
        self.requested: frozenset[NodeRequest] = frozenset()
        self.prestarted: list[Mapping[str, int]] = []
        self.prefetches: list[tuple[str, str, ModelFiles]] = []
        self.outcomes: list[Outcome] = []
        self.held: set[tuple[str, str]] = set()
        self._go_on = asyncio.Event()
        self._go_on.set()
        self._was_stopped = False
        self.progress = Progress(turned=True, executing_for_s=0.0, is_stuck=False)
        self.ended_s: float | None = None
        self.stepped_down = False
        self.restarts: list[float] = []
        self._shared_look = SharedLook(self._look)
        self._prober = Prober(0.0)
        reports = NodeDevices(self._read_devices)
        self.placer = Placer(self.read_cluster, DeviceLeases(self.read_cluster, reports))

    @property
    def specs(self) -> list[InstanceSpec]:
        """Of all members of the controller's pools."""
        return [spec for pool in self.pools for spec in pool.specs]

    def restarted(self, *, was_restarted: bool = True) -> "FakeHost":
        """Return what the next controller finds: the instances, whose log begins anew.

        Args:
            was_restarted: Whether Ray starts it, or another driver.
        """
        # Those of a dead process look after nothing.
        for pool in self.pools:
            for place in (*pool._members, *pool._staged, *pool._leaving):
                place.stop_watching()
        self.instances.log.clear()
        again = FakeHost(self.store, self.instances)
        again.was_restarted = was_restarted
        return again

    def without_instances(self) -> "FakeHost":
        """Have all instances end at once."""
        for actor in self.instances.alive:
            self.instances.vanish(actor)
        self.instances.log.clear()
        return self

    async def read_cluster(self) -> ClusterResources:
        return await self._shared_look()

    async def _look(self) -> ClusterResources:
        self.looks += 1
        self._maybe_fail("read_cluster")
        nodes = []
        for name in self.node_names:
            gpus = self.devices.get(name, Inventory()).gpus
            total = {"CPU": 2, "GPU": len(gpus)} if gpus else {"CPU": 2}
            nodes.append(NodeResources(name, total, total))
        return ClusterResources(tuple(nodes), dict(self.devices))

    async def _read_devices(self, node_id: str) -> Inventory:
        return self.devices.get(node_id, Inventory())

    async def read_draining(self) -> frozenset[str]:
        return frozenset(self.draining)

    async def end_unused_actors(self, in_use: Collection[str], draining: Collection[str]) -> None:
        self._maybe_fail("end_unused_actors")

    async def ask_for_nodes(self, requests: Collection[NodeRequest]) -> None:
        self._maybe_fail("ask_for_nodes")
        self.requested = frozenset(requests)

    async def prestart(self, counts: Mapping[str, int], keep_s: int) -> Mapping[str, int]:
        self._maybe_fail("prestart")
        self.prestarted.append(counts)
        return counts

    def make_pool(self, on_change: Callable[[], None]) -> InstancePool:
        pool = InstancePool(on_change, self.instances, self._prober, self.placer)
        self.pools.append(pool)
        return pool

    async def find_live_instances(self) -> LiveInstances:
        self._maybe_fail("find_live_instances")
        return await live.find_live_instances(self.instances)

    async def kill_instances(self, instances: Iterable[LiveInstance]) -> None:
        self._maybe_fail("kill_instances")
        found = list(instances)
        self.killed += [str(each.name) for each in found]
        await live.kill_instances(self.instances, found)

    async def retire_instances(self, instances: Iterable[LiveInstance], drain_s: float) -> None:
        self._maybe_fail("retire_instances")
        found = list(instances)
        self.retired += [str(each.name) for each in found]
        await live.retire_instances(self.instances, found, drain_s)

    def suspect(self, incarnation: str) -> None:
        self.suspects.append(incarnation)

    async def ask_progress(self, incarnations: Iterable[str]) -> Mapping[str, Progress]:
        return dict.fromkeys(incarnations, self.progress)

    async def end_arbiters(self) -> None:
        self._maybe_fail("end_arbiters")

    async def offer_files(self, settings: NodeFilesSettings, location: str) -> None:
        self._maybe_fail("offer_files")
        self.offers.append(location)

    async def withdraw_files(self, all_but: Collection[str]) -> None:
        self._maybe_fail("withdraw_files")
        self.offers = [location for location in self.offers if location in set(all_but)]

    def tell_agents(self, key: str, action: Action) -> None:
        self.told.append((key, action.value))

    def hold_prefetches(self) -> None:
        """Have prefetches last until they are stopped, or released."""
        self._go_on.clear()

    def release_prefetches(self) -> None:
        self._go_on.set()

    async def prefetch(
        self,
        settings: NodeFilesSettings,
        node_id: str,
        model_name: str,
        files: ModelFiles,
        fraction: float,
    ) -> Prefetched:
        self.prefetches.append((node_id, model_name, files))
        self._maybe_fail("prefetch")
        self._was_stopped = False
        await self._go_on.wait()
        outcome = Outcome.STOPPED if self._was_stopped else Outcome.THERE
        self.outcomes.append(outcome)
        if outcome is Outcome.THERE:
            self.held.add((node_id, replace(files, agents=()).key()))
        return Prefetched(outcome, 1)

    async def view_of_cache(
        self, node_id: str, keys: Collection[str], fraction: float
    ) -> CacheView | None:
        return CacheView(tuple(key for key in keys if (node_id, key) in self.held), 1)

    async def stop_prefetch(self, node_ids: Collection[str]) -> None:
        self._was_stopped = True
        self._go_on.set()

    async def end_node_files(self) -> None:
        self._maybe_fail("end_node_files")

    def step_down(self) -> None:
        self.stepped_down = True

    def restart_process(self) -> None:
        self.restarts.append(now())

    def end_process(self) -> None:
        self.ended_s = now()

    def _maybe_fail(self, call: str) -> None:
        if call in self.fail_always:
            raise self.fail_always[call]
        if call in self.fail:
            raise self.fail.pop(call)


def _no_instances() -> instance_host.FakeHost:
    host = instance_host.FakeHost()
    host.node, host.drain_s, host.running = "n", math.inf, str(own_release())
    return host


async def controller_of(
    folder: Path | str,
    host: FakeHost,
    owner: Owner = NOBODY,
    *,
    resumes: bool = False,
    has_secrets: bool = False,
    **options: Any,
) -> ModelController:
    """Start a controller; it has not loaded anything yet."""
    given = {
        "model_repository": str(folder),
        "disable_auto_complete_config": True,
        "exit_timeout_secs": int(DRAIN_S),
        **options,
    }
    actor = ModelController.__new__(ModelController)
    parts: Any = host
    await actor.__init__(  # type: ignore[misc]
        from_mapping(given),
        owner,
        lambda _: ControllerHost(parts, parts, parts, parts),
        resumes=resumes,
        has_secrets=has_secrets,
    )
    return actor


def write_model(root: Path, name: str, count: int = 1, group: str = "", **parameters: str) -> None:
    """Write a model that needs no completion by a backend.

    Args:
        root: The repository.
        name: The model's name.
        count: Its instances.
        group: Its instance group, in place of one on the processor.
        parameters: Those of autoscaling.
    """
    rows = " ".join(
        f'parameters {{ key: "autoscaling.{key}" value {{ string_value: "{value}" }} }}'
        for key, value in parameters.items()
    )
    folder = root / name
    (folder / "1").mkdir(parents=True, exist_ok=True)
    (folder / "config.pbtxt").write_text(
        f'name: "{name}" backend: "identity" '
        'input { name: "X" data_type: TYPE_FP32 dims: [1] } '
        'output { name: "Y" data_type: TYPE_FP32 dims: [1] } '
        + (group or f"instance_group {{ kind: KIND_CPU count: {count} }}")
        + f" {rows}"
    )


explicit_controller_of = partial(controller_of, model_control_mode="explicit")


async def with_two_models(folder: Path, **options: Any) -> tuple[ModelController, FakeHost]:
    host = FakeHost()
    for name in ("a", "b"):
        write_model(folder, name)
    controller = await explicit_controller_of(folder, host, **options)
    await controller.start()
    for name in ("a", "b"):
        await controller.load(name, {})
    return controller, host


async def ready(controller: ModelController) -> list[str]:
    rows = await controller.status()
    return sorted(row["name"] for row in rows if row["state"] == "READY")
