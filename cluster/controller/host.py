# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""What a controller needs of the Ray cluster it runs in, and nothing else of it."""

import logging
import os
import threading
import warnings
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Final, NoReturn, Protocol

import ray

from cluster.actors.arbiter import end_arbiters
from cluster.controller.store import GcsStore, Store
from cluster.instances.actor_host import ActorHost
from cluster.instances.device_leases import DeviceLeases, DeviceRules
from cluster.instances.live import (
    LiveInstance,
    LiveInstances,
    find_live_instances,
    kill_instances,
    retire_instances,
)
from cluster.instances.node_actors import end_unused_actors
from cluster.instances.node_files import (
    NodeFilesSettings,
    end_node_files,
    offer_files,
    tell_agents,
    withdraw_files,
)
from cluster.instances.node_requests import RequestedNodes
from cluster.instances.placer import Placer
from cluster.instances.pool import InstancePool
from cluster.instances.prefetch import prefetch_to_node, stop_prefetch, view_of_cache
from cluster.instances.prestart import prestart_workers
from cluster.instances.prober import Prober
from cluster.models.contracts import VersionPool
from cluster.placement.demand import NODE_PREFIX, ClusterResources
from cluster.placement.node_devices import NodeDevices
from cluster.placement.node_requests import NodeRequest
from cluster.placement.nodes import SharedLook, read_cluster, read_devices, read_draining
from cluster.repository.agents.contracts import Action
from cluster.threads import GCS, NODES
from deployments.instance.progress import Progress
from deployments.instance.spec import InstanceSpec
from deployments.model_files.contracts import ModelFiles
from deployments.model_files.prefetch import CacheView, Prefetched

_log = logging.getLogger(__name__)

# An idle process answers within 0.4 s.
_ASK_TIMEOUT_S: Final = 1.0
# Ray kills a process that does not end by itself after 5 s.
_KILL_TIMEOUT_S: Final = 7.0


class AdoptingPool(VersionPool, Protocol):
    """A pool that can take over instances of an earlier controller."""

    def adopt(
        self,
        live: Iterable[LiveInstance],
        missing: Iterable[InstanceSpec],
        taken: Collection[int] = (),
    ) -> None:
        """Take over live instances, and start those that the pool lacks."""


class ControllerHost(Protocol):
    """The cluster, as the controller sees it."""

    @property
    def store(self) -> Store:
        """Where durable state is kept."""

    @property
    def was_restarted(self) -> bool:
        """Whether this process replaces one that died."""

    @property
    def placer(self) -> Placer:
        """The places of all instances."""

    @property
    def own_node(self) -> str:
        """Resource that the controller's node alone has."""

    async def read_cluster(self) -> ClusterResources:
        """Return the nodes there are and what is free on each."""

    async def read_draining(self) -> frozenset[str]:
        """Return the ids of the nodes that drain."""

    async def end_unused_actors(self, in_use: Collection[str], draining: Collection[str]) -> None:
        """End what instances had started on nodes that have none; see `node_actors`."""

    async def ask_for_nodes(self, requests: Collection[NodeRequest]) -> None:
        """Have Ray's autoscaler hear of these requests and of no earlier ones."""

    async def prestart(self, counts: Mapping[str, int], keep_s: int) -> Mapping[str, int]:
        """Have idle workers started, by node, and return how many are; see `prestart_workers`."""

    def make_pool(self, on_change: Callable[[], None]) -> AdoptingPool:
        """Return an empty pool that calls ``on_change`` after each change."""

    def use_devices(self, rules: DeviceRules) -> None:
        """Say by what rules instances get their GPUs; before the first pool is made."""

    async def find_live_instances(self) -> LiveInstances:
        """Return the instances that are alive."""

    async def kill_instances(self, instances: Iterable[LiveInstance]) -> None:
        """Kill instances at once."""

    async def retire_instances(self, instances: Iterable[LiveInstance], drain_s: float) -> None:
        """Have instances finish their requests, for at most so long, and kill them."""

    def suspect(self, incarnation: str) -> None:
        """Ask an instance at once whether it gets on, and have it replaced if it does not."""

    async def ask_progress(self, incarnations: Iterable[str]) -> Mapping[str, Progress]:
        """Return, by incarnation, what instances say that answer at once."""

    async def end_arbiters(self) -> None:
        """End the rate limiters of all nodes."""

    @property
    def node_id(self) -> str:
        """The controller's node."""

    async def offer_files(self, settings: NodeFilesSettings, location: str) -> None:
        """Have a node give files of a load to others.

        Raises:
            TritonError: It has no room for them, or does not have them.
        """

    async def withdraw_files(self, all_but: Collection[str]) -> None:
        """Have all nodes let go of files of loads but those of some locations."""

    def tell_agents(self, key: str, action: Action) -> None:
        """Tell the agents that ran over files of a store what came of the load; blocks."""

    async def prefetch(
        self,
        settings: NodeFilesSettings,
        node_id: str,
        model_name: str,
        files: ModelFiles,
        fraction: float,
    ) -> Prefetched:
        """Have a node fetch files that nobody needs yet; see `prefetch_to_node`."""

    async def view_of_cache(
        self, node_id: str, keys: Collection[str], fraction: float
    ) -> CacheView | None:
        """Return what a node's cache has, if any process there can tell."""

    async def stop_prefetch(self, node_ids: Collection[str]) -> None:
        """Have nodes stop what they prefetch."""

    async def end_node_files(self) -> None:
        """End what fetches files of models, on all nodes."""

    def end_process(self) -> None:
        """End the controller's process for good."""

    def step_down(self) -> None:
        """End this process at once: another controller, also of the same actor, has taken over."""

    def restart_process(self) -> None:
        """End this process at once, so that Ray starts the controller again."""


class RayControllerHost:
    """Implements `ControllerHost` inside the controller's actor.

    Args:
        heartbeat_timeout_s: For how long an instance may get nowhere; 0.0 for any time.
    """

    def __init__(self, heartbeat_timeout_s: float) -> None:
        self.store: Store = GcsStore()
        self.own_node = f"{NODE_PREFIX}{ray.util.get_node_ip_address()}"
        self.node_id: str = ray.get_runtime_context().get_node_id()
        look = self._look = SharedLook(read_cluster)
        self._instances = ActorHost(look)
        self._devices = NodeDevices(read_devices)
        self._leases = DeviceLeases(self.read_cluster, self._devices)
        self.placer = Placer(look, self._leases)
        self._requested = RequestedNodes()
        self._prober = Prober(heartbeat_timeout_s)
        self._actor = ray.get_runtime_context().current_actor

    @property
    def was_restarted(self) -> bool:
        """See `ControllerHost`."""
        with warnings.catch_warnings():
            # Ray's own property still uses a call Ray has deprecated.
            warnings.simplefilter("ignore", DeprecationWarning)
            return bool(ray.get_runtime_context().was_current_actor_reconstructed)

    async def read_cluster(self) -> ClusterResources:
        """See `ControllerHost`."""
        return await self._devices.look(await self._look())

    async def read_draining(self) -> frozenset[str]:
        """See `ControllerHost`."""
        return await read_draining()

    async def end_unused_actors(self, in_use: Collection[str], draining: Collection[str]) -> None:
        """See `ControllerHost`."""
        await end_unused_actors(in_use, draining)

    async def ask_for_nodes(self, requests: Collection[NodeRequest]) -> None:
        """See `ControllerHost`."""
        await GCS.run(self._requested.become, requests)

    async def prestart(self, counts: Mapping[str, int], keep_s: int) -> Mapping[str, int]:
        """See `ControllerHost`."""
        return await NODES.run(prestart_workers, counts, keep_s)

    def make_pool(self, on_change: Callable[[], None]) -> AdoptingPool:
        """See `ControllerHost`."""
        return InstancePool(on_change, self._instances, self._prober, self.placer)

    def use_devices(self, rules: DeviceRules) -> None:
        """See `ControllerHost`."""
        self._leases.rules = rules

    async def find_live_instances(self) -> LiveInstances:
        """See `ControllerHost`."""
        return await find_live_instances(self._instances)

    async def kill_instances(self, instances: Iterable[LiveInstance]) -> None:
        """See `ControllerHost`."""
        await kill_instances(self._instances, instances)

    async def retire_instances(self, instances: Iterable[LiveInstance], drain_s: float) -> None:
        """See `ControllerHost`."""
        await retire_instances(self._instances, instances, drain_s)

    def suspect(self, incarnation: str) -> None:
        """See `ControllerHost`."""
        self._prober.suspect(incarnation)

    async def ask_progress(self, incarnations: Iterable[str]) -> Mapping[str, Progress]:
        """See `ControllerHost`."""
        return await self._prober.ask_all(incarnations, _ASK_TIMEOUT_S)

    async def end_arbiters(self) -> None:
        """See `ControllerHost`."""
        await GCS.run(end_arbiters)

    async def offer_files(self, settings: NodeFilesSettings, location: str) -> None:
        """See `ControllerHost`."""
        await NODES.run(offer_files, settings, location)

    async def withdraw_files(self, all_but: Collection[str]) -> None:
        """See `ControllerHost`."""
        await NODES.run(withdraw_files, all_but)

    def tell_agents(self, key: str, action: Action) -> None:
        """See `ControllerHost`."""
        tell_agents(key, action)

    async def prefetch(
        self,
        settings: NodeFilesSettings,
        node_id: str,
        model_name: str,
        files: ModelFiles,
        fraction: float,
    ) -> Prefetched:
        """See `ControllerHost`."""
        return await prefetch_to_node(settings, node_id, model_name, files, fraction)

    async def view_of_cache(
        self, node_id: str, keys: Collection[str], fraction: float
    ) -> CacheView | None:
        """See `ControllerHost`."""
        return await view_of_cache(node_id, keys, fraction)

    async def stop_prefetch(self, node_ids: Collection[str]) -> None:
        """See `ControllerHost`."""
        await GCS.run(stop_prefetch, node_ids)

    async def end_node_files(self) -> None:
        """See `ControllerHost`."""
        await GCS.run(end_node_files)

    def end_process(self) -> None:
        """See `ControllerHost`."""
        try:
            ray.kill(self._actor, no_restart=True)
        except Exception:
            _log.exception("the controller cannot end its actor; the process ends itself")
            _exit()
        # A GCS that was killed while it started this process knows the actor and not where it is:
        # it takes the name from it, and the process lives on.
        last = threading.Timer(_KILL_TIMEOUT_S, _exit)
        last.daemon = True
        last.start()

    def step_down(self) -> None:
        """See `ControllerHost`."""
        # Not through Ray: killing the actor would kill the successor.
        _log.error("another controller has taken over; this process ends")
        _exit()

    def restart_process(self) -> None:
        """See `ControllerHost`."""
        _exit()


def _exit() -> NoReturn:
    # Ray starts the controller again, which finds that it has no owner and ends in order.
    os._exit(1)
