# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""The ingress: one replica of the only Serve deployment, with sockets of its own.

Serve supervises, upgrades and reports replicas; requests never pass through it. A replica listens
on the HTTP, gRPC and metrics ports with SO_REUSEPORT, so any number of replicas share a node's
ports.
"""

import asyncio
import gc
import logging
import os
import secrets
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Protocol

import msgspec
import ray
import setproctitle

from deployments.contracts.control import ControllerLink
from deployments.contracts.routing_table import RoutingTable
from deployments.data_plane.data_plane import DataPlane
from deployments.grpc.kserve.service import (
    INFERENCE_PATHS,
    PATHS,
    STREAM_PATHS,
    make_grpc_service,
)
from deployments.grpc.rpc.compression import ResponseCompression
from deployments.grpc.server.grpcio_server import GrpcioServer
from deployments.grpc.server.http2_server import Http2Server
from deployments.http.kserve.application import make_http_server, make_metrics_server
from deployments.http2.keepalive_options import options_from_flags
from deployments.http2.limits import Http2Limits
from deployments.lane.messages import LaneLimits
from deployments.response_cache.factory import make_store
from deployments.routing.links import Heartbeat
from deployments.routing.reports import make_report
from deployments.routing.router import Router
from deployments.routing.table_watch import TableWatch
from deployments.security.tls import TlsFiles
from deployments.settings.log_lines import set_up_logging
from deployments.settings.server_settings import InstanceSettings, LogSettings
from deployments.slabs.pool import SlabPool
from deployments.tracing.tracer import Tracer
from deployments.tracing.uses import TraceUseReports
from deployments.tracing.writer import make_trace_writer

logger = logging.getLogger(__name__)


class ProtocolServer(Protocol):
    """A listening server of one transport."""

    async def start(self, host: str, port: int, *, reuse_port: bool) -> int:
        """Listen; returns the bound port."""

    def begin_drain(self) -> None:
        """Have connections end: idle ones after a grace, busy ones with their answers."""

    def stop_accepting(self) -> None:
        """Serve what the kernel has accepted, then close the port."""

    async def wait_drained(self, timeout_s: float) -> bool:
        """Wait until no connection is open; False when that takes longer."""

    def close(self) -> None:
        """Close everything at once."""


@dataclass(frozen=True, slots=True)
class IngressSettings:
    """What a replica is told.

    Attributes:
        server_id: Name in server metadata.
        strict_readiness: Whether ready needs every model ready.
        http: Address and port; None when off.
        grpc: Address and port; None when off.
        metrics: Address and port; None when off.
        grpc_server: ``own`` or ``grpcio``.
        http_max_input_bytes: ``--http-max-input-size``.
        grpc_options: Values of the flags in
            `deployments.grpc.server.grpcio_server.OPTIONS`, milliseconds.
        slab_threshold_bytes: Tensors at least this large travel through shared slabs.
        exit_timeout_s: How long a drain may take.
        heartbeat_timeout_s: ``--instance-heartbeat-timeout-secs``; 0.0 is off.
        log: What is logged until the controller says otherwise.
        http_restrictions: ``--http-restricted-api``.
        grpc_restrictions: ``--grpc-restricted-protocol``.
        http_header_forward_pattern: Headers that become request parameters.
        grpc_header_forward_pattern: Metadata that become request parameters.
        allow_client_memory: ``--allow-client-shm``.
        http_tls: Set to serve HTTP over TLS.
        grpc_tls: Set to serve gRPC over TLS.
        grpc_compression: ``--grpc-infer-response-compression-level``.
        cache: Name and settings of the response cache; None without one.
    """

    server_id: str = "triton"
    strict_readiness: bool = True
    http: tuple[str, int] | None = ("0.0.0.0", 8000)  # noqa: S104 - Triton's default
    grpc: tuple[str, int] | None = ("0.0.0.0", 8001)  # noqa: S104
    metrics: tuple[str, int] | None = ("0.0.0.0", 8002)  # noqa: S104
    grpc_server: str = "own"
    http_max_input_bytes: int = 1 << 26
    slab_threshold_bytes: int = 1 << 16
    exit_timeout_s: float = 30.0
    heartbeat_timeout_s: float = 10.0
    grpc_options: dict[str, int] = field(default_factory=dict)
    log: LogSettings = LogSettings()
    http_restrictions: tuple[tuple[tuple[str, ...], str, str], ...] = field(default=(), repr=False)
    grpc_restrictions: tuple[tuple[tuple[str, ...], str, str], ...] = field(default=(), repr=False)
    http_header_forward_pattern: str = ""
    grpc_header_forward_pattern: str = ""
    allow_client_memory: bool = False
    http_tls: TlsFiles | None = None
    grpc_tls: TlsFiles | None = None
    grpc_compression: str = "none"
    cache: tuple[str, dict[str, str]] | None = field(default=None, repr=False)


class Ingress:
    """One ingress replica.

    Args:
        settings: Addresses and limits.
        connect: Makes the link to the controller; importable where replicas run.
    """

    async def __init__(  # type: ignore[misc]  # Serve awaits it
        self, settings: IngressSettings, connect: Callable[[], ControllerLink]
    ) -> None:
        setproctitle.setproctitle("manta: ingress")
        set_up_logging(settings.log)
        self._settings = settings
        # What instances were told; nothing before there is a routing table.
        self._told: InstanceSettings | None = None
        self._servers: list[ProtocolServer] = []
        self._draining = False
        controller = connect()
        slabs = SlabPool()
        node_id = ray.get_runtime_context().get_node_id()
        replica = secrets.token_hex(8)
        uses = TraceUseReports(controller, replica)
        self._replica = replica
        self._tracer = Tracer(uses.report, make_trace_writer)
        limits = LaneLimits(threshold_bytes=settings.slab_threshold_bytes)
        cache = None if settings.cache is None else make_store(*settings.cache, os.environ)
        timeout_s = settings.heartbeat_timeout_s
        self._router = Router(
            node_id,
            await controller.lane_secret(),
            slabs,
            limits,
            cache,
            heartbeat=Heartbeat(timeout_s, controller.report_wedged) if timeout_s else None,
        )
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
        self._watch = TableWatch(
            "ingress", controller, self._update, lambda: make_report(self._router)
        )
        await self._listen()
        # What starting leaves behind lives as long as the process: no collection need visit it.
        gc.collect()
        gc.freeze()

    def _update(self, table: RoutingTable) -> None:
        """Take a newer table, and what it says of logs and shared memory."""
        self._router.update(table)
        self._tracer.apply(table.settings, self._replica)
        told = replace(table.settings.for_instances(), version=table.version)
        if told != self._told:
            known = self._settings.log if self._told is None else self._told.log
            if told.log != known:
                set_up_logging(told.log)
            self._told = told
            self._plane.forget_regions(told.region_sources)
            self._router.greet("settings", msgspec.msgpack.encode(told))

    async def _listen(self) -> None:
        settings = self._settings
        if settings.http is not None:
            await self._start(
                make_http_server(
                    self._plane,
                    max_input_bytes=settings.http_max_input_bytes,
                    restrictions=settings.http_restrictions,
                    header_forward_pattern=settings.http_header_forward_pattern,
                    tls=settings.http_tls,
                ),
                settings.http,
            )
        if settings.grpc is not None:
            await self._start(self._grpc_server(), settings.grpc)
        if settings.metrics is not None:
            await self._start(make_metrics_server(self._plane), settings.metrics)

    def _grpc_server(self) -> ProtocolServer:
        settings = self._settings
        service = make_grpc_service(
            self._plane,
            settings.grpc_restrictions,
            header_forward_pattern=settings.grpc_header_forward_pattern,
        )
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
            )
        return Http2Server(
            service,
            limits=Http2Limits(keepalive=options_from_flags(options)),
            tls=tls,
            compression=ResponseCompression(level, INFERENCE_PATHS) if level != "none" else None,
        )

    async def _start(self, server: ProtocolServer, address: tuple[str, int]) -> None:
        await server.start(*address, reuse_port=True)
        self._servers.append(server)

    async def check_health(self) -> None:
        """Fail when the routing table is not followed; Serve then replaces the replica."""
        if not self._draining:
            self._watch.check()

    async def drain(self) -> None:
        """Answer what was accepted, then close everything."""
        if self._draining:
            return
        self._draining = True
        # Not ready, so that nothing new is sent here; what comes all the same is served.
        self._plane.draining = True
        for server in self._servers:
            server.begin_drain()
            server.stop_accepting()
        await asyncio.gather(
            *(server.wait_drained(self._settings.exit_timeout_s) for server in self._servers)
        )
        self._plane.exiting = True
        for server in self._servers:
            server.close()
        await self._watch.close()
        await self._router.close()
        await self._tracer.close()

    async def __del__(self) -> None:
        await self.drain()
