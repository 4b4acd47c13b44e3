# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Picks the instance for each request and carries it there over a lane.

The router holds the last routing table and, per instance in it, one `Link`: the lane to the
instance, or the attempt to open one. It never waits for the controller: with it gone, the last
table goes on being served.

Everything here runs on one event loop.
"""

import time
from collections.abc import Awaitable, Collection
from dataclasses import replace
from functools import partial

from mypy_extensions import mypyc_attr

from backends.api.model_config import ModelConfig
from backends.api.model_identifier import name_of
from backends.api.request import InferenceRequest
from backends.config.autoscaling import is_autoscaled
from deployments.admission.admissions import Admissions
from deployments.admission.rules import AdmissionDefaults
from deployments.contracts.routing_table import InstanceEndpoint, RoutingTable, lookup_error
from deployments.contracts.sinks import Inflight, ResponseSink
from deployments.metrics.counters import Snapshot
from deployments.response_cache.store import CacheStore
from deployments.routing.links import Heartbeat, LinkSet, drop, key_of, open_lane
from deployments.routing.membership import Membership
from deployments.routing.mirror import Mirror
from deployments.routing.mismatch_file import MismatchFile, default_folder
from deployments.routing.node_pools import NodePools
from deployments.routing.node_routes import NodeRoutes
from deployments.routing.ordered_sink import OrderedSink, order_of
from deployments.routing.pool import Link, LinkPool, ModelPools, NodeQueue, choose_lane
from deployments.routing.routed_request import RoutedRequest
from deployments.routing.sequence_routes import SequenceRoutes
from deployments.routing.served_model import ServedModel, ServedStep
from deployments.routing.served_models import ServedModels
from deployments.routing.waiting_requests import WaitingRequests, no_instance
from deployments.routing.wakes import Wakes, waits_for
from deployments.settings.lane_settings import DEFAULT_LANES, LaneSettings
from deployments.slabs.pool import SlabPool
from deployments.supervision.supervisor import Supervisor


@mypyc_attr(allow_interpreted_subclasses=True)
class Router:
    """Routes requests by the last routing table.

    Args:
        node_id: Ray node of this process; instances there are reached over Unix sockets.
        secret: Key of the lanes' handshake.
        slabs: This process's shared slabs.
        lanes: The server's options about lanes.
        opens_on_demand: Whether lanes to a model's instances open with its first request.
        own_incarnation: Instance in this process, which gets no requests from here.
        cache: Where answers of models with a response cache are kept; None when there is none.
        heartbeat: What to do about silent instances; None to leave them alone.

    Attributes:
        table: The table as it is known here.
        node_id: Ray node of this process.
        cache: See above.
        autoscaled: The pools of the versions whose number of instances follows their load.
        node_pools: The pools of this node and their queues.
        links: The ways to instances.
        models: The ready versions.
        mirror: Copies requests to shadows.
    """

    def __init__(
        self,
        node_id: str,
        secret: bytes,
        slabs: SlabPool,
        lanes: LaneSettings = DEFAULT_LANES,
        cache: CacheStore | None = None,
        *,
        opens_on_demand: bool = False,
        own_incarnation: str = "",
        heartbeat: Heartbeat | None = None,
    ) -> None:
        # Bound once: each request has it.
        self._resend = self.resend
        self._waiting = WaitingRequests()
        self.node_pools = NodePools(self._queue_changed)
        self._opens_on_demand = opens_on_demand
        self.table = RoutingTable()
        self.node_id = node_id
        self._secret = secret
        self._lane_settings = lanes
        self.cache = cache
        self.links = LinkSet(
            node_id,
            partial(open_lane, secret, slabs, lanes),
            self._waiting.send,
            opens_on_demand=opens_on_demand,
            own_incarnation=own_incarnation,
            heartbeat=heartbeat,
            node_pools=self.node_pools,
        )
        self._pools = ModelPools()
        self.autoscaled: dict[tuple[str, int], LinkPool] = {}
        self.models = ServedModels(self._pool_for, self._find_step, cache, self._open_lanes)
        self._tasks = Supervisor("router")
        self._membership: Membership | None = None
        self.mirror = Mirror(self.submit, self.models.get, MismatchFile(default_folder()))

    def wake_with(self, wakes: Wakes) -> None:
        """Have dormant versions woken that requests come for, from now on."""
        self._waiting.wakes = wakes

    def admit_with(self, defaults: AdmissionDefaults) -> None:
        """Refuse clients' requests under overload, from the next table on."""
        self.models.admissions = Admissions(time.monotonic_ns, defaults)

    def join_node(self, host: str | None = None) -> None:
        """Use the queues of this node's pools from now on, or hold them; see `Membership`."""
        self._membership = membership = Membership(
            self.node_id, self._secret, self._lane_settings, self.node_pools, self._reach, host
        )
        membership.start()

    def _reach(self, key: str, version: int, endpoint: InstanceEndpoint) -> None:
        pool = self._pools.get((key, version))
        if pool is not None:
            self.links.open_leaving(pool, endpoint)

    def update(self, table: RoutingTable) -> None:
        """Swap in a newer table; links to instances that left it close once they are idle."""
        if table.version <= self.table.version:
            return
        before, self.table = self.table, table
        if table.exiting:
            self._waiting.exit()
        changed = table.changed_since(before)
        if not changed:
            return
        self.models.update(table, changed)
        models = [table.models[name] for name in changed if name in table.models]
        versions = [((each.name, one.version), one) for each in models for one in each.versions]
        wanted = {key_of(it): (it, key) for key, one in versions for it in one.instances}
        leaving = {key_of(it): (it, key) for key, one in versions for it in one.leaving}
        for pool in self._pools.of(changed):
            # Before its instances go: what they give back waits for their successors.
            self._waiting.follow(pool, table.served(*pool.key), waits_for(table, pool.key[0]))
        self.links.sync(changed, wanted, leaving, self._pools)
        for pool in self._pools.of(changed):
            (self.node_pools.forget if pool.is_dormant else self.node_pools.refresh)(pool)
            self._refresh_routes(pool)
        self._forget_unserved(changed)
        self._waiting.wakes.table_changed()

    def _forget_unserved(self, names: Collection[str]) -> None:
        for pool in self._pools.of(names):
            if pool.key not in self.models and not pool.links:
                self._pools.remove(pool.key)
                self.autoscaled.pop(pool.key, None)
                self.node_pools.forget(pool)
                if pool.routes is not None:
                    pool.routes.close()
                self._waiting.fail(pool, no_instance(name_of(pool.key[0])))
                for link in (*pool.leaving, *pool.retired):
                    if link.lane is not None:
                        link.lane.close_when_idle()
                    else:
                        drop(link)

    def _pool_for(self, key: tuple[str, int], config: ModelConfig) -> LinkPool:
        pool = self._pools.make(key)
        # Queues tell each other by name which pool they speak of.
        pool.config = config if key[0] == config.name else replace(config, name=key[0])
        self.autoscaled.pop(key, None)
        if is_autoscaled(config):
            self.autoscaled[key] = pool
        sequences = config.sequence_batching
        if sequences is not None and pool.sequences is None:
            routes = pool.routes = pool.routes or self._new_routes(pool)
            pool.sequences = SequenceRoutes(pool, routes, sequences, self._waiting.add, self._tasks)
        if pool.order is None:
            pool.order = order_of(config)
        return pool

    def find(self, name: str, version: int = -1) -> ServedModel:
        """Return a ready version; a negative number means the newest.

        The name may be a model's key; see `backends.api.model_identifier`. A router that opens
        lanes on demand opens those to its instances.

        Raises:
            NotFoundError: No such model or version, or none of its versions is ready.
            InvalidArgumentError: Several models have the name.
            UnavailableError: The version is not ready.
        """
        served = self.models
        found = served.newest.get(name) if version < 0 else served.get(name, version)
        if found is None and name in served.keys:
            key = served.keys[name]
            found = served.newest.get(key) if version < 0 else served.get(key, version)
        if found is None:
            raise lookup_error(self.table, name, version)
        self._open_lanes(found)
        return found

    def _open_lanes(self, model: ServedModel) -> None:
        if self._opens_on_demand and self.links.open_all(model.pool):
            self._refresh_routes(model.pool)

    def first_use(self, name: str) -> Awaitable[None] | None:
        """Return what loads a model that `find` does not know yet; None for any other."""
        return self._waiting.wakes.first_use(self.models.key_of(name), lambda: self.table)

    def _find_step(self, name: str, version: int) -> ServedStep:
        return ServedStep(self.find(name, version), self.submit, self.models.choose)

    def is_only_own(self, model: ServedModel) -> bool:
        """Whether this process is a model's only instance, so that nobody can be called."""
        pool = model.pool
        return pool.has_own and not (pool.links or pool.unopened)

    def submit(self, model: ServedModel, request: InferenceRequest, sink: ResponseSink) -> Inflight:
        """Send a checked request to an instance; the sink hears of everything that follows."""
        # Answers of an ensemble whose steps have rollouts are those of pinned versions.
        if model.cache is not None and not (request.pins and model.ensemble is not None):
            return model.cache.start(
                request, sink, lambda request, sink: self._send(model, request, sink)
            )
        return self._send(model, request, sink)

    def _send(self, model: ServedModel, request: InferenceRequest, sink: ResponseSink) -> Inflight:
        if model.ensemble is not None:
            return model.ensemble.start(request, sink)
        routed = self._routed(model.pool, request, sink)
        self.resend(routed)
        return routed

    def _routed(
        self, pool: LinkPool, request: InferenceRequest, sink: ResponseSink
    ) -> RoutedRequest:
        if pool.order is not None:
            sink = OrderedSink(pool.order.of(request.tenant), sink)
        return RoutedRequest(self._resend, pool, request, sink)

    def submit_local(
        self, model: ServedModel, request: InferenceRequest, sink: ResponseSink
    ) -> RoutedRequest:
        """Send a checked request to an instance on this node, once: its memory is nowhere else."""
        pool = model.pool
        is_sequence = pool.sequences is not None and bool(request.correlation_id)
        may_come = is_sequence or pool.is_pooled or all(link.is_local for link in pool.links)
        if not may_come and all(each.draining for each in pool.lanes if each.is_local):
            raise no_instance(model.name, local_only=True)
        routed = self._routed(pool, request, sink)
        routed.retried = routed.local_only = True
        self.resend(routed)
        return routed

    def _refresh_routes(self, pool: LinkPool) -> None:
        """Look again at the nodes of a version."""
        if pool.sequences is None and all(link.is_local for link in pool.links):
            if pool.routes is not None:
                pool.routes.close()
                pool.routes = None
            return
        if pool.routes is None:
            pool.routes = self._new_routes(pool)
        pool.routes.refresh(pool.links)

    def _new_routes(self, pool: LinkPool) -> NodeRoutes:
        return NodeRoutes(pool, self.node_id, self._remote_queue, self._waiting.send)

    def _remote_queue(self, node_id: str, pool: LinkPool) -> NodeQueue | None:
        membership = self._membership
        return None if membership is None else membership.remote_queue(node_id, pool)

    def _queue_changed(self, pool: LinkPool) -> None:
        self._refresh_routes(pool)
        self._waiting.send(pool)

    def links_of(self, name: str, version: int) -> list[Link]:
        """Return the links to the instances of one version, those that leave it included."""
        pool = self._pools.get((name, version))
        return [] if pool is None else [*pool.links, *pool.leaving]

    def waiting_count(self, name: str, version: int) -> int:
        """Return how many requests of one version wait here for a lane."""
        pool = self._pools.get((name, version))
        return 0 if pool is None else len(pool.waiting)

    def counts_elsewhere(self, name: str, version: int) -> bool:
        """Whether another process of this node holds the queue of a version's pool."""
        pool = self._pools.get((name, version))
        return pool is not None and pool.is_pooled and pool.held is None

    def queue_counters(self) -> list[tuple[str, int, Snapshot]]:
        """Return what the queues held here have counted: model, version and counters."""
        return [
            (*pool.key, pool.held.snapshot()) for pool in self._pools.all() if pool.held is not None
        ]

    async def close(self) -> None:
        """Close all lanes; what is on them or waits for one fails."""
        if self._membership is not None:
            await self._membership.close()
        self._waiting.close()
        await self._waiting.wakes.close()
        await self.mirror.close()
        await self._tasks.close()
        for pool in self._pools.all():
            for link in (*pool.leaving, *pool.retired):
                drop(link)
        await self.links.close()
        if self.cache is not None:
            await self.cache.close()

    def resend(self, routed: RoutedRequest) -> None:
        """Send a request, to another instance than the one that had it, if one did."""
        pool, routes = routed.pool, routed.pool.routes
        if pool.is_pooled and routes is None:
            if pool.queue is not None:
                pool.queue.start(routed)
                return
        else:
            # That is of a queue that has it no more.
            routed.forget_given_id()
            if pool.sequences is not None and routed.request.correlation_id:
                pool.sequences.start(routed)
                return
            if routes is not None:
                if routes.send(routed):
                    return
            elif (lane := choose_lane(pool.links, routed.lane)) is not None:
                routed.count_wait()
                lane.start(routed)
                return
        # For the queue, or for a lane.
        routed.queue = None
        self._waiting.add(pool, routed)
