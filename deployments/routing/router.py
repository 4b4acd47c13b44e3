# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Picks the instance for each request and carries it there over a lane.

Theory of operation. The router holds the last routing table and, per instance in it, one `Link`:
the lane to the instance, or the attempt to open one. A request goes to the open lane with the
fewest requests outstanding, or to the instance that has its sequence. When a lane breaks, each
request on it that has had no response and belongs to no sequence is sent once more, to another
instance; the rest fail with UNAVAILABLE. A link whose instance is still in the table reconnects; a
new incarnation of an instance is a new link. The router never waits for the controller: with it
gone, the last table goes on being served.

Everything here runs on one event loop.
"""

import asyncio
import logging
import time
from collections.abc import Iterable, Mapping
from typing import Final

from backends.api.errors import RequestCancelledError, TritonError, UnavailableError
from backends.api.model_config import ModelConfig
from backends.api.request import InferenceRequest
from backends.config.normalisation import change_requires_reload
from deployments.contracts.routing_table import (
    InstanceEndpoint,
    ModelReadyState,
    ModelVersion,
    RoutingTable,
    lookup_error,
)
from deployments.contracts.sinks import Inflight, ResponseSink
from deployments.ensembles.ensemble import Ensemble
from deployments.lane.client import LaneClient, LaneInflight
from deployments.lane.messages import DEFAULT_LIMITS, LaneLimits
from deployments.response_cache.cached_model import CachedModel
from deployments.response_cache.store import CacheStore
from deployments.routing.links import Heartbeat, LinkSet, drop
from deployments.routing.ordered_sink import OrderedSink, order_of
from deployments.routing.pool import Link, LinkPool
from deployments.routing.sequence_routes import SequenceRoutes
from deployments.routing.served_model import ServedModel
from deployments.slabs.pool import SlabPool

logger = logging.getLogger(__name__)

_GREETING_TIMEOUT_S: Final = 5.0


class RoutedRequest(LaneInflight):
    """One request on its way: what its lane keeps of it, and the handle its caller cancels."""

    __slots__ = ("local_only", "pool", "retried", "router")

    def __init__(
        self, router: "Router", pool: LinkPool, request: InferenceRequest, sink: ResponseSink
    ) -> None:
        super().__init__(request, sink)
        self.local_only = False
        self.router = router
        self.pool = pool
        self.retried = False

    def fail(self, error: TritonError) -> None:
        """Pass an error on, unless it only says that the instance is about to end."""
        lane = self.lane
        is_drain = lane is not None and lane.draining and isinstance(error, UnavailableError)
        is_settled = self.has_responded or self.retried or self.cancelled
        if is_drain and not (is_settled or _is_stateful(self.request)):
            self.retried = True
            self.router.resend(self)
        else:
            self.sink.fail(error)

    def cancel(self) -> None:
        """Cancel on the lane, or at once while no lane has the request."""
        if self.pool.waiting.pop(self, None) is not None:
            self.cancelled = True
            self.sink.fail(RequestCancelledError(""))
        else:
            super().cancel()


class Router:
    """Routes requests by the last routing table.

    Args:
        node_id: Ray node of this process; instances there are reached over Unix sockets.
        secret: Key of the lanes' handshake.
        slabs: This process's shared slabs.
        limits: Bounds of the lanes.
        opens_on_demand: Whether lanes to a model's instances open with its first request.
        own_incarnation: Instance in this process, which gets no requests from here.
        cache: Where answers of models with a response cache are kept; None when there is none.
        heartbeat: What to do about silent instances; None to leave them alone.
    """

    def __init__(
        self,
        node_id: str,
        secret: bytes,
        slabs: SlabPool,
        limits: LaneLimits = DEFAULT_LIMITS,
        cache: CacheStore | None = None,
        *,
        opens_on_demand: bool = False,
        own_incarnation: str = "",
        heartbeat: Heartbeat | None = None,
    ) -> None:
        self._opens_on_demand = opens_on_demand
        self.table = RoutingTable()
        self.node_id = node_id
        self._cache = cache
        self._links = LinkSet(
            node_id,
            lambda link, on_lost: LaneClient.connect(
                link.endpoint,
                same_node=link.is_local,
                secret=secret,
                slabs=slabs,
                limits=limits,
                on_lost=on_lost,
            ),
            self._connected,
            self._lost,
            opens_on_demand=opens_on_demand,
            own_incarnation=own_incarnation,
            heartbeat=heartbeat,
        )
        self._pools: dict[tuple[str, int], LinkPool] = {}
        self._served: dict[tuple[str, int], tuple[ModelVersion, ServedModel]] = {}
        self.ready_by_name: dict[str, ServedModel] = {}
        # Told to each instance when a lane to it opens: method and payload of a control call.
        self.greeting: tuple[str, bytes] | None = None
        self._greetings: set[asyncio.Task[list[bytes]]] = set()

    def update(self, table: RoutingTable) -> None:
        """Swap in a newer table; links to instances that left it close once they are idle."""
        if table.version <= self.table.version:
            return
        self.table = table
        wanted: dict[tuple[str, str], tuple[InstanceEndpoint, tuple[str, int]]] = {}
        served: dict[tuple[str, int], tuple[ModelVersion, ServedModel]] = {}
        newest: dict[str, ServedModel] = {}
        leaving: set[tuple[str, str]] = set()
        for model in table.models.values():
            for entry in model.versions:
                key = (model.name, entry.version)
                for endpoint in entry.instances:
                    wanted[endpoint.name, endpoint.incarnation] = (endpoint, key)
                leaving.update((each.name, each.incarnation) for each in entry.leaving)
                if entry.state is ModelReadyState.READY and entry.config is not None:
                    known = self._served.get(key)
                    if known is None or known[0].config != entry.config:
                        before = None if known is None else known[1]
                        known = (entry, self._serve(model.name, entry, entry.config, before))
                    served[key] = known
                    if known[1].cache is not None:
                        known[1].cache.identity = table.identity(model.name, entry.version)
                    if known[1].ensemble is not None:
                        known[1].ensemble.unbind()
                    newest[model.name] = known[1]
        self._served = served
        self.ready_by_name = newest
        self._links.sync(wanted, leaving, self._pools)
        for key in [key for key in self._pools if key not in served and not self._is_linked(key)]:
            self._fail_waiting(self._pools.pop(key), key)

    def _serve(
        self, name: str, entry: ModelVersion, config: ModelConfig, before: ServedModel | None
    ) -> ServedModel:
        pool = self._pools.setdefault((name, entry.version), LinkPool())
        sequences = config.sequence_batching
        if sequences is not None and pool.sequences is None:
            pool.sequences = SequenceRoutes(pool, sequences, self._wait_for_lane)
        if pool.order is None:
            pool.order = order_of(config)
        if before is not None and not change_requires_reload(before.config, config):
            # What these have counted goes on counting.
            served = ServedModel(name, entry, config, pool, before.ensemble)
            served.cache = before.cache
            return served
        ensemble = None
        if config.has_ensemble_scheduling:
            ensemble = Ensemble(self, config, str(entry.version))
        served = ServedModel(name, entry, config, pool, ensemble)
        if self._cache is not None and config.response_cache:
            served.cache = CachedModel(self._cache, time.monotonic_ns)
        return served

    @property
    def has_cache(self) -> bool:
        """Whether models may have a response cache."""
        return self._cache is not None

    def cache_gauges(self) -> Mapping[str, float]:
        """Return what metrics show of the whole cache."""
        return {} if self._cache is None else self._cache.gauges()

    def served(self, name: str, version: int) -> ServedModel | None:
        """Return a ready version, or None."""
        found = self._served.get((name, version))
        return None if found is None else found[1]

    def all_served(self) -> list[ServedModel]:
        """Return all ready versions."""
        return [served for _, served in self._served.values()]

    def find(self, name: str, version: int = -1) -> ServedModel:
        """Return a ready version; a negative number means the newest.

        A router that opens lanes on demand opens those to its instances.

        Raises:
            NotFoundError: No such model or version, or none of its versions is ready.
            UnavailableError: The version is not ready.
        """
        found = self.ready_by_name.get(name) if version < 0 else self.served(name, version)
        if found is None:
            raise lookup_error(self.table, name, version)
        if self._opens_on_demand:
            self._links.open_all(found.pool)
        return found

    def is_only_own(self, model: ServedModel) -> bool:
        """Whether this process is a model's only instance, so that nobody can be called."""
        pool = model.pool
        return pool.has_own and not (pool.links or pool.unopened)

    def submit(self, model: ServedModel, request: InferenceRequest, sink: ResponseSink) -> Inflight:
        """Send a checked request to an instance; the sink hears of everything that follows."""
        if model.cache is not None:
            return model.cache.start(
                request, sink, lambda request, sink: self._send(model, request, sink)
            )
        return self._send(model, request, sink)

    def _send(self, model: ServedModel, request: InferenceRequest, sink: ResponseSink) -> Inflight:
        if model.ensemble is not None:
            return model.ensemble.start(request, sink)
        pool = model.pool
        if pool.order is not None:
            sink = OrderedSink(pool.order, sink)
        routed = RoutedRequest(self, pool, request, sink)
        if pool.sequences is not None and request.correlation_id:
            pool.sequences.start(routed)
            return routed
        lane = pool.choose()
        if lane is not None:
            lane.start(routed)
        else:
            self._wait_for_lane(pool, routed)
        return routed

    def submit_local(
        self, model: ServedModel, request: InferenceRequest, sink: ResponseSink
    ) -> RoutedRequest:
        """Send a checked request to an instance on this node, once: its memory is nowhere else."""
        pool = model.pool
        lanes = [
            link.lane
            for link in pool.links
            if link.is_local and link.lane is not None and not link.lane.draining
        ]
        is_sequence = pool.sequences is not None and bool(request.correlation_id)
        if not lanes and not is_sequence and not all(link.is_local for link in pool.links):
            raise UnavailableError(
                f"model '{model.name}' has no instance on this node that answers at present; "
                f"requests with tensors in shared memory need one"
            )
        if pool.order is not None:
            sink = OrderedSink(pool.order, sink)
        routed = RoutedRequest(self, pool, request, sink)
        routed.retried = routed.local_only = True
        if pool.sequences is not None and is_sequence:
            pool.sequences.start(routed, local_only=True)
        elif lanes:
            min(lanes, key=lambda each: each.outstanding).start(routed)
        else:
            self._wait_for_lane(pool, routed)
        return routed

    async def call_instances(
        self, links: Iterable[Link], method: str, timeout_s: float, payload: bytes = b""
    ) -> list[bytes]:
        """Call a control method on instances; those that do not answer in time are left out."""
        calls = [
            link.lane.call(method, payload, timeout_s) for link in links if link.lane is not None
        ]
        answers = await asyncio.gather(*calls, return_exceptions=True)
        return [answer for answer in answers if isinstance(answer, bytes)]

    def greet(self, method: str, payload: bytes) -> None:
        """Call a control method on every instance, also on those that come later."""
        self.greeting = (method, payload)
        self._greet(self._links.all())

    def _greet(self, links: list[Link]) -> None:
        if self.greeting is None:
            return
        method, payload = self.greeting
        calls = self.call_instances(links, method, _GREETING_TIMEOUT_S, payload)
        task = asyncio.get_running_loop().create_task(calls)
        self._greetings.add(task)
        task.add_done_callback(self._greetings.discard)

    def links_of(self, name: str, version: int) -> list[Link]:
        """Return the links to the instances of one version, those that leave it included."""
        pool = self._pools.get((name, version))
        return [] if pool is None else [*pool.links, *pool.leaving]

    async def close(self) -> None:
        """Close all lanes; what is on them fails."""
        for pool in self._pools.values():
            if pool.sequences is not None:
                for link in list(pool.sequences.retired):
                    drop(link)
        await self._links.close()

    def _connected(self, link: Link) -> None:
        self._greet([link])
        self._send_waiting(link.pool)

    def _send_waiting(self, pool: LinkPool) -> None:
        waiting, pool.waiting = pool.waiting, {}
        for routed in waiting:
            if isinstance(routed, RoutedRequest):
                self.resend(routed)

    def resend(self, routed: RoutedRequest) -> None:
        """Send a request to another instance than the one that had it, if one did."""
        sequences = routed.pool.sequences
        if sequences is not None and routed.request.correlation_id:
            sequences.start(routed, local_only=routed.local_only)
            return
        lane = routed.pool.choose(avoid=routed.lane)
        if lane is None:
            self._wait_for_lane(routed.pool, routed)
            return
        lane.start(routed)

    def _wait_for_lane(self, pool: LinkPool, routed: LaneInflight) -> None:
        # A connection attempt is under way: its end decides. Otherwise nobody will ever come.
        if any(link.lane is None and not link.closed for link in pool.links):
            pool.waiting[routed] = asyncio.get_running_loop().time()
        else:
            routed.sink.fail(_no_instance(routed.request.model_name))

    def _lost(self, link: Link, orphans: list[LaneInflight]) -> None:
        for routed in orphans:
            if not isinstance(routed, RoutedRequest):
                continue
            if routed.cancelled:
                routed.sink.fail(RequestCancelledError(""))
            elif routed.has_responded or routed.retried or _is_stateful(routed.request):
                routed.sink.fail(
                    UnavailableError(
                        f"instance '{link.endpoint.name}' of model "
                        f"'{routed.request.model_name}' ended while it served the request; "
                        f"{_what_to_do(routed.request)}"
                    )
                )
            else:
                routed.retried = True
                self._resend_elsewhere(routed, link)

    def _resend_elsewhere(self, routed: RoutedRequest, lost: Link) -> None:
        others = any(
            other is not lost and not other.closed and (other.lane is None or other.lane.is_open)
            for other in routed.pool.links
        )
        if others:
            self.resend(routed)
        else:
            routed.sink.fail(_no_instance(routed.request.model_name))

    def _is_linked(self, key: tuple[str, int]) -> bool:
        return bool(self._pools[key].links)

    def _fail_waiting(self, pool: LinkPool, key: tuple[str, int]) -> None:
        waiting, pool.waiting = pool.waiting, {}
        for routed in waiting:
            routed.sink.fail(_no_instance(key[0]))
        if pool.sequences is not None:
            pool.sequences.close()


def _is_stateful(request: InferenceRequest) -> bool:
    return bool(request.correlation_id) or request.flags != 0


def _what_to_do(request: InferenceRequest) -> str:
    if not request.correlation_id:
        return "send the request again"
    return f"sequence {request.correlation_id} ended with it, start the sequence again"


def _no_instance(model_name: str) -> UnavailableError:
    return UnavailableError(
        f"model '{model_name}' has no instance that answers at present; it is being restarted, "
        f"try again"
    )
