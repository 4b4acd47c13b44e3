# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""What a controller needs of the Ray cluster it runs in, and nothing else of it."""

import logging
import os
import threading
import warnings
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Final, NoReturn

import ray

from cluster.actors.arbiter import end_arbiters
from cluster.controller.store import GcsStore, Store
from cluster.instances.actor_host import ActorHost
from cluster.instances.device_leases import DeviceLeases
from cluster.instances.live import (
    find_live_instances,
    kill_instances,
    retire_instances,
)
from cluster.instances.node_actors import end_unused_actors
from cluster.instances.node_files import (
    end_node_files,
    offer_files,
    prefetch_to_node,
    stop_prefetch,
    tell_agents,
    view_of_cache,
    withdraw_files,
)
from cluster.instances.placer import Placer
from cluster.instances.pool import InstancePool
from cluster.instances.prestart import RequestedNodes, prestart_workers
from cluster.instances.prober import Prober
from cluster.placement.demand import NODE_PREFIX, ClusterResources
from cluster.placement.node_devices import NodeDevices
from cluster.placement.nodes import SharedLook, read_cluster, read_devices, read_draining
from cluster.threads import GCS, NODES
from deployments.instance.progress import Progress

_log = logging.getLogger(__name__)

# An idle process answers within 0.4 s.
_ASK_TIMEOUT_S: Final = 1.0
# Ray kills a process that does not end by itself after 5 s.
_KILL_TIMEOUT_S: Final = 7.0


class NodeFiles:
    """What fetches files of models, on all nodes; see the functions of the same names."""

    offer_files = staticmethod(NODES.wrapped(offer_files))
    withdraw_files = staticmethod(NODES.wrapped(withdraw_files))
    tell_agents = staticmethod(tell_agents)
    prefetch = staticmethod(prefetch_to_node)
    view_of_cache = staticmethod(view_of_cache)
    stop_prefetch = staticmethod(GCS.wrapped(stop_prefetch))
    end_node_files = staticmethod(GCS.wrapped(end_node_files))


class Nodes:
    """The nodes of the cluster.

    Attributes:
        node_id: The controller's node.
        own_node: Resource that the controller's node alone has.
        ask_for_nodes: Has Ray's autoscaler hear of some requests and of no earlier ones.
    """

    read_draining = staticmethod(read_draining)
    end_unused_actors = staticmethod(end_unused_actors)
    end_arbiters = staticmethod(GCS.wrapped(end_arbiters))
    prestart = staticmethod(NODES.wrapped(prestart_workers))

    def __init__(self) -> None:
        self.node_id: str = ray.get_runtime_context().get_node_id()
        self.own_node = f"{NODE_PREFIX}{ray.util.get_node_ip_address()}"
        self.look = SharedLook(read_cluster)
        self.devices = NodeDevices(read_devices)
        self.ask_for_nodes = GCS.wrapped(RequestedNodes().become)

    async def read_cluster(self) -> ClusterResources:
        """Return the nodes there are and what is free on each."""
        return await self.devices.look(await self.look())


class Actors:
    """The instances of the cluster.

    Args:
        heartbeat_timeout_s: For how long an instance may get nowhere; 0.0 for any time.

    Attributes:
        placer: Their places.
        suspect: Asks one at once whether it gets on, and has it replaced if it does not.
    """

    def __init__(self, nodes: Nodes, heartbeat_timeout_s: float) -> None:
        instances = self._instances = ActorHost(nodes.look)
        self.placer = Placer(nodes.look, DeviceLeases(nodes.read_cluster, nodes.devices))
        self._prober = Prober(heartbeat_timeout_s)
        self.suspect = self._prober.suspect
        self.find_live_instances = partial(find_live_instances, instances)
        self.kill_instances = partial(kill_instances, instances)
        self.retire_instances = partial(retire_instances, instances)

    def make_pool(self, on_change: Callable[[], None]) -> InstancePool:
        """Return an empty pool that calls ``on_change`` after each change."""
        return InstancePool(on_change, self._instances, self._prober, self.placer)

    async def ask_progress(self, incarnations: Iterable[str]) -> Mapping[str, Progress]:
        """Return, by incarnation, what instances say that answer at once."""
        return await self._prober.ask_all(incarnations, _ASK_TIMEOUT_S)


class Process:
    """The controller's process, and what outlives it.

    Attributes:
        store: Where durable state is kept.
    """

    def __init__(self) -> None:
        self.store: Store = GcsStore()
        self._actor = ray.get_runtime_context().current_actor

    @property
    def was_restarted(self) -> bool:
        """Whether this process replaces one that died."""
        with warnings.catch_warnings():
            # Ray's own property still uses a call Ray has deprecated.
            warnings.simplefilter("ignore", DeprecationWarning)
            return bool(ray.get_runtime_context().was_current_actor_reconstructed)

    def end_process(self) -> None:
        """End the controller's process for good."""
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
        """End this process at once: another controller, also of the same actor, has taken over."""
        # Not through Ray: killing the actor would kill the successor.
        _log.error("another controller has taken over; this process ends")
        _exit()

    def restart_process(self) -> None:
        """End this process at once, so that Ray starts the controller again."""
        _exit()


@dataclass(frozen=True, slots=True)
class ControllerHost:
    """The cluster, as the controller sees it."""

    nodes: Nodes
    actors: Actors
    files: NodeFiles
    process: Process


def ray_host(heartbeat_timeout_s: float) -> ControllerHost:
    """Return the Ray cluster that this process is in."""
    nodes = Nodes()
    return ControllerHost(nodes, Actors(nodes, heartbeat_timeout_s), NodeFiles(), Process())


def _exit() -> NoReturn:
    # Ray starts the controller again, which finds that it has no owner and ends in order.
    os._exit(1)
