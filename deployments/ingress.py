# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""The ingress: one replica of the only Serve deployment, with sockets of its own.

Serve supervises, upgrades and reports replicas; requests never pass through it. A replica listens
on the HTTP, gRPC and metrics ports with SO_REUSEPORT, so any number of replicas share a node's
ports.
"""

import asyncio
import contextlib
import logging
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol

import ray
import setproctitle

from deployments.data_plane import DataPlane
from deployments.grpc_service import GrpcService
from deployments.grpcio_server import GrpcioServer
from deployments.http2_server import Http2Server
from deployments.http_ingress import make_http_server, make_metrics_server
from deployments.lane.slabs import SlabPool
from deployments.router import Router
from deployments.routing import RoutingTable
from deployments.seams import RepositoryControl

logger = logging.getLogger(__name__)


class ControllerLink(RepositoryControl, Protocol):
    """What a replica needs of the controller besides repository control."""

    async def lane_secret(self) -> bytes:
        """Return the key of the lanes' handshake."""

    async def watch_routing_table(self, update: Callable[[RoutingTable], None]) -> None:
        """Call ``update`` with each newer table, for ever, through restarts of the controller."""


class ProtocolServer(Protocol):
    """A listening server of one transport."""

    async def start(self, host: str, port: int, *, reuse_port: bool) -> int:
        """Listen; returns the bound port."""

    def begin_drain(self) -> None:
        """Accept nothing new; idle connections close, busy ones after their answers."""

    async def wait_drained(self, timeout_s: float) -> object:
        """Wait until all accepted requests are answered, at most ``timeout_s``."""

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
        slab_threshold_bytes: Tensors at least this large travel through shared slabs.
        exit_timeout_s: How long a drain may take.
        log_level: Name of the least level that is logged.
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
    log_level: str = "INFO"
    grpc_options: dict[str, int] = field(default_factory=dict)


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
        logging.getLogger("deployments").setLevel(settings.log_level)
        self._settings = settings
        self._servers: list[ProtocolServer] = []
        self._draining = False
        controller = connect()
        slabs = SlabPool()
        self._router = Router(
            ray.get_runtime_context().get_node_id(), await controller.lane_secret(), slabs
        )
        self._plane = DataPlane(
            settings.server_id,
            self._router,
            slabs,
            controller,
            strict_readiness=settings.strict_readiness,
        )
        self._watch = asyncio.get_running_loop().create_task(
            controller.watch_routing_table(self._router.update)
        )
        await self._listen()

    async def _listen(self) -> None:
        settings = self._settings
        if settings.http is not None:
            await self._start(
                make_http_server(self._plane, max_input_bytes=settings.http_max_input_bytes),
                settings.http,
            )
        if settings.grpc is not None:
            service = GrpcService(self._plane)
            grpc: ProtocolServer = (
                Http2Server(service)
                if settings.grpc_server == "own"
                else GrpcioServer(service, settings.grpc_options)
            )
            await self._start(grpc, settings.grpc)
        if settings.metrics is not None:
            await self._start(make_metrics_server(self._plane), settings.metrics)

    async def _start(self, server: ProtocolServer, address: tuple[str, int]) -> None:
        await server.start(*address, reuse_port=True)
        self._servers.append(server)

    async def check_health(self) -> None:
        """Fail when the routing table is no longer watched; Serve then replaces the replica."""
        if self._watch.done() and not self._draining:
            raise RuntimeError("the ingress no longer follows the routing table")

    async def drain(self) -> None:
        """Answer what was accepted, then close everything."""
        if self._draining:
            return
        self._draining = True
        # Not ready, so that nothing new is sent here; what comes all the same is served.
        self._plane.draining = True
        for server in self._servers:
            server.begin_drain()
        await asyncio.gather(
            *(server.wait_drained(self._settings.exit_timeout_s) for server in self._servers)
        )
        self._plane.exiting = True
        for server in self._servers:
            server.close()
        self._watch.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await self._watch
        await self._router.close()

    async def __del__(self) -> None:
        await self.drain()
