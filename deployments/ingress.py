# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""The ingress: one replica of the only Serve deployment, with sockets of its own.

Serve supervises, upgrades and reports replicas; requests never pass through it. A replica listens
on the HTTP, gRPC and metrics ports with SO_REUSEPORT, so any number of replicas share a node's
ports, or with the sockets of the replica that it replaces.
"""

import asyncio
import gc
import hmac
import logging
import os
import secrets
import socket
from collections.abc import Awaitable, Callable
from dataclasses import replace

import msgspec
import ray
import setproctitle

from backends.api.errors import TritonError
from deployments.access.contracts import Peer
from deployments.access.guard import serving_guard
from deployments.access.watch import PolicyWatch
from deployments.captures.making import RunningCaptures, make_captures
from deployments.contracts.control import ControllerLink
from deployments.contracts.routing_table import RoutingTable
from deployments.data_plane.callers import Access
from deployments.data_plane.data_plane import DataPlane
from deployments.data_plane.policy_tenants import PolicyTenants
from deployments.data_plane.tenant_leases import TenantLeases
from deployments.grpc.kserve.guarded import make_grpc_gate
from deployments.grpc.kserve.service import (
    INFERENCE_PATHS,
    PATHS,
    STREAM_PATHS,
    make_grpc_service,
)
from deployments.grpc.rpc.compression import ResponseCompression
from deployments.grpc.rpc.service import RpcService
from deployments.grpc.server.grpcio_server import GrpcioServer
from deployments.grpc.server.http2_server import Http2Server
from deployments.http.kserve.servers import make_http_server, make_metrics_server
from deployments.http.server.host import http_limits
from deployments.http2.keepalive_options import options_from_flags
from deployments.http2.limits import http2_limits
from deployments.ingress_settings import IngressSettings
from deployments.lane.handshake import NONCE_BYTES, ClientHandshake, ServerHandshake
from deployments.metrics.model_files import render_model_cache
from deployments.metrics.node_roles import ReadNodeRoles
from deployments.model_files.layout import cache_folder
from deployments.response_cache.factory import make_store
from deployments.routing.holding import IsLeaving, hold_while_needed
from deployments.routing.links import Heartbeat
from deployments.routing.router import Router
from deployments.routing.start_gate import StartGate
from deployments.routing.table_watch import TableWatch
from deployments.routing.wakes import Wakes
from deployments.scheduling.holds import holds_of
from deployments.settings.log_lines import set_up_logging
from deployments.settings.server_settings import InstanceSettings
from deployments.slabs.pool import SlabPool
from deployments.supervision.draining import ProtocolServer, drain
from deployments.supervision.freed_memory import FreedMemory
from deployments.supervision.handover import Address, Bequest, Inheritance, inherit
from deployments.supervision.memory_budget import MemoryBudget
from deployments.supervision.supervisor import Supervisor
from deployments.supervision.unix_sockets import bind_unix, is_unix
from deployments.supervision.usable_memory import usable_memory_bytes
from deployments.tracing.tracer import Tracer
from deployments.tracing.uses import TraceUseReports
from deployments.tracing.writer import make_trace_writer

logger = logging.getLogger(__name__)

# The models' instances need the rest.
_DEFAULT_MEMORY_DIVISOR = 4
# Records that a store does not take until then are lost.
_CAPTURES_TIMEOUT_S = 5.0


async def _stays() -> bool:
    return False


class Ingress:
    """One ingress replica.

    Args:
        settings: Addresses and limits.
        connect: Makes the link to the controller; importable where replicas run.
        is_replaced: Says whether replicas are being replaced by new ones; asked when this replica
            is told to end.
        has_run: Says whether another replica of this deployment runs.
        read_node_roles: Tells which nodes have no ingress, so that others tell their metrics; None
            when all have one.
        is_leaving: Says whether this node drains; asked when this replica is told to end.
        fill: Puts into the settings what no argument may have; None where that is nothing.
    """

    async def __init__(  # type: ignore[misc]  # Serve awaits it
        self,
        settings: IngressSettings,
        connect: Callable[[], ControllerLink],
        is_replaced: Callable[[], Awaitable[bool]],
        has_run: Callable[[], Awaitable[bool]],
        read_node_roles: ReadNodeRoles | None = None,
        is_leaving: IsLeaving = _stays,
        fill: Callable[[IngressSettings], IngressSettings] | None = None,
    ) -> None:
        setproctitle.setproctitle("manta: ingress")
        settings = settings if fill is None else fill(settings)
        set_up_logging(settings.log)
        self._settings = settings
        # What instances were told; nothing before there is a routing table.
        self._told: InstanceSettings | None = None
        self._is_replaced = is_replaced
        self._is_leaving = is_leaving
        self._inherited = Inheritance()
        self._servers: dict[str, ProtocolServer] = {}
        self._drain: asyncio.Task[None] | None = None
        # Why this replica asks to be replaced; it does not change its mind.
        self._fault: TritonError | None = None
        self._tasks = Supervisor("ingress")
        # Read before anything else is there: without its policy a replica serves nobody.
        self._guard = serving_guard(settings.access_policy)
        if self._guard is not None:
            PolicyWatch(self._guard).start(self._tasks)
        self._tenants = None if self._guard is None else PolicyTenants.of(self._guard)
        self._access = None if self._guard is None else Access(self._guard, self._tenants)
        self._gate = StartGate(settings.wait_for_models, has_run)
        self._budget = self._make_budget(settings)
        controller = connect()
        slabs = SlabPool()
        node_id = ray.get_runtime_context().get_node_id()
        self._replica = replica = secrets.token_hex(8)
        uses = TraceUseReports(controller, replica)
        self._tracer = Tracer(uses.report, make_trace_writer)
        cache = None if settings.cache is None else make_store(*settings.cache, os.environ)
        secret = await controller.lane_secret()
        timeout_s = settings.lanes.heartbeat_timeout_s
        self._router = Router(
            node_id,
            secret,
            slabs,
            settings.lanes,
            cache,
            heartbeat=Heartbeat(timeout_s, controller.report_wedged) if timeout_s else None,
        )
        self._set_up_router(controller)
        self._router.join_node(ray.util.get_node_ip_address())
        self._plane = DataPlane(
            settings.server_id,
            self._router,
            slabs,
            controller,
            strict_readiness=settings.strict_readiness,
            node_id=node_id,
            allow_client_memory=settings.allow_client_memory,
            tracer=self._tracer,
        )
        self._plane.settings.uses.budget = self._budget
        self._plane.page.read_node_roles = read_node_roles
        self._captures = self._capture(settings)
        self._tell_of_callers(controller)
        self._watch = TableWatch("ingress", controller, self._update, self._router)
        await self._succeed(secret, node_id)
        # What starting leaves behind lives as long as the process: no collection need visit it.
        gc.collect()
        gc.freeze()

    def _make_budget(self, settings: IngressSettings) -> MemoryBudget:
        """Return what messages of clients may take, and begin to give it back to the kernel."""
        limit_bytes = settings.memory_limit_bytes
        budget = MemoryBudget(limit_bytes or usable_memory_bytes() // _DEFAULT_MEMORY_DIVISOR)
        self._tasks.keep("freed memory", FreedMemory(budget).run)
        return budget

    def _set_up_router(self, controller: ControllerLink) -> None:
        """Tell the router what it has to know before its first table."""
        settings, router = self._settings, self._router
        router.wake_with(Wakes(controller.wake, settings.wake_limits))
        router.admit_with(settings.admission)
        router.node_pools.holds = holds_of(settings.scheduler_holds)

    def _capture(self, settings: IngressSettings) -> RunningCaptures | None:
        """Have answers name what they were made by, and requests kept, as far as that is asked."""
        self._plane.stages.always_names_origin = settings.answer_provenance
        if not settings.capture_config:
            return None
        captures = make_captures(settings.capture_config, settings.restricted_headers)
        self._plane.stages.captures = captures.captures
        return captures

    def _tell_of_callers(self, controller: ControllerLink) -> None:
        """Begin to renew the leases of tenants' limits, and to show what callers and tenants do."""
        self._plane.page.access = None if self._guard is None else self._guard.counters
        if self._tenants is not None:
            leases = TenantLeases(self._tenants.desk, controller)
            self._tasks.keep("leases of tenants' limits", leases.run)
            self._plane.page.tenants = self._tenants.desk

    def _update(self, table: RoutingTable) -> None:
        """Take a newer table, and what it says of logs and shared memory."""
        self._router.update(table)
        self._gate.take(table)
        self._plane.has_started = self._plane.has_started or table.initialised
        self._tracer.apply(table.settings, self._replica)
        told = replace(table.settings.for_instances(), version=table.version)
        if told != self._told:
            known = self._settings.log if self._told is None else self._told.log
            if told.log != known:
                set_up_logging(told.log)
            self._told = told
            self._plane.forget_regions(told.region_sources)
            self._router.links.greet("settings", msgspec.msgpack.encode(told))

    async def _succeed(self, secret: bytes, node_id: str) -> None:
        """Listen, with the sockets of the replica that this one replaces if there is one."""
        # A key of its own: a handshake overheard elsewhere opens nothing here.
        key = hmac.digest(secret, b"manta ingress handover", "sha256")
        prefix = f"manta-ingress-{hmac.digest(key, node_id.encode(), 'sha256').hex()[:24]}"
        settings = self._settings
        self._bequest = Bequest(
            prefix,
            settings.build,
            lambda: ServerHandshake(key, secrets.token_bytes(NONCE_BYTES)),
            self._listening_sockets,
            lambda: self._plane.has_started,
        )
        self._inherited = inherited = await inherit(
            prefix,
            settings.build,
            settings.addresses,
            lambda: ClientHandshake(key, secrets.token_bytes(NONCE_BYTES)),
        )
        self._plane.has_started = self._plane.has_started or inherited.has_started
        try:
            await self._gate.wait_for_table(inherited)
            taken = await self._listen(inherited.sockets)
        except BaseException:
            inherited.close()
            raise
        inherited.serves(taken)
        self._bequest.open()

    async def _listen(self, sockets: dict[str, socket.socket]) -> list[str]:
        """Start the servers; returns the protocols that are served with one of the sockets."""
        makers: dict[str, Callable[[], ProtocolServer]] = {
            "http": self._http_server,
            "grpc": self._grpc_server,
            "metrics": self._metrics_server,
            "openai": self._http_server,
        }
        taken = []
        for name, (host, port) in self._settings.addresses.items():
            server = makers[name]()
            # grpcio cannot be given a socket.
            is_own = not isinstance(server, GrpcioServer)
            sock = inherited = sockets.pop(name, None) if is_own else None
            if is_own and sock is None and is_unix(host):
                sock = bind_unix(host, self._settings.unix_socket_mode)
            await server.start(host, port, reuse_port=True, sock=sock)
            self._servers[name] = server
            if inherited is not None:
                taken.append(name)
        return taken

    def _listening_sockets(self) -> dict[str, tuple[Address, socket.socket]]:
        """Return what a successor may have."""
        addresses = self._settings.addresses
        found = {name: server.listening_socket() for name, server in self._servers.items()}
        return {name: (addresses[name], sock) for name, sock in found.items() if sock is not None}

    def _http_server(self) -> ProtocolServer:
        settings = self._settings
        return make_http_server(
            self._plane,
            max_input_bytes=settings.http_max_input_bytes,
            restrictions=settings.http_restrictions,
            header_forward_pattern=settings.http_header_forward_pattern,
            tls=settings.http_tls,
            limits=http_limits(settings.http_connections),
            budget=self._budget,
            access=self._access,
        )

    def _metrics_server(self) -> ProtocolServer:
        folder = cache_folder(self._settings.model_cache_directory)
        node_id = self._router.node_id
        return make_metrics_server(
            self._plane,
            budget=self._budget,
            render_model_cache=lambda: (
                render_model_cache(folder, node_id) + self._render_captures()
            ),
            tls=self._settings.metrics_tls,
            access=self._access,
        )

    def _render_captures(self) -> bytes:
        return b"" if self._captures is None else self._captures.writer.render()

    def _grpc_server(self) -> ProtocolServer:
        settings = self._settings
        restrictions, pattern = settings.grpc_restrictions, settings.grpc_header_forward_pattern
        service = make_grpc_service(self._plane, restrictions, header_forward_pattern=pattern)
        service_for: Callable[[Peer], RpcService] | None = None
        if self._access is not None:
            gate = make_grpc_gate(
                self._plane, self._access, restrictions, header_forward_pattern=pattern
            )
            # Of a connection whose peer nobody knows, too.
            service, service_for = gate.service_for(Peer("grpc")), gate.service_for
        tls, options, level = settings.grpc_tls, settings.grpc_options, settings.grpc_compression
        if settings.grpc_server == "grpcio":
            return GrpcioServer(
                service,
                options,
                tls=tls,
                compression=level,
                paths=PATHS,
                stream_paths=STREAM_PATHS,
                compressed_paths=INFERENCE_PATHS,
                service_for=service_for,
            )
        return Http2Server(
            service,
            limits=http2_limits(settings.grpc_connections, options_from_flags(options)),
            tls=tls,
            compression=ResponseCompression(level, INFERENCE_PATHS) if level != "none" else None,
            budget=self._budget,
            service_for=service_for,
        )

    async def check_health(self) -> None:
        """Fail when the routing table is not followed; Serve then replaces the replica.

        Serve kills it at the third failure in a row, without a word: what was accepted is answered
        between the first and then. Of a new replica Serve awaits the first check, however long that
        takes, before it takes the replica for running; unlike one whose constructor waits, it is
        drained if it has to end meanwhile.
        """
        if self._drain is None:
            try:
                self._watch.check()
                await self._gate.wait(self._watch.check)
            except TritonError as error:
                self._fault = error
                self._drain = self._tasks.spawn("drain", self._end())
        if self._fault is not None:
            raise self._fault

    async def drain(self) -> None:
        """Answer what was accepted, then close everything; see `deployments.supervision.draining`.

        Serve has it called whatever the reason why a replica ends.
        """
        if self._drain is None:
            self._drain = self._tasks.spawn("drain", self._end())
        # Whoever asks waits for the one drain: when Serve's call returns, the process goes.
        await asyncio.shield(self._drain)

    async def _end(self) -> None:
        await drain(
            self._servers,
            self._bequest,
            self._settings.drain_times,
            is_replaced=self._is_replaced,
            withdraw=self._withdraw,
        )
        exit_s = self._settings.exit_timeout_s
        await hold_while_needed(self._router.node_pools, self._is_leaving, exit_s)
        self._plane.exiting = True
        self._inherited.close()
        for server in self._servers.values():
            server.close()
        await self._watch.close()
        await self._router.close()
        await self._tracer.close()
        if self._captures is not None:
            await asyncio.to_thread(self._captures.writer.close, _CAPTURES_TIMEOUT_S)
        if self._guard is not None:
            await asyncio.to_thread(self._guard.close)

    def _withdraw(self) -> None:
        """Turn not ready, so that nothing new is sent here; what comes all the same is served."""
        self._plane.draining = True
