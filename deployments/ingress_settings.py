# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""What an ingress replica is told when it is made: plain data, which travels through Ray."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from deployments.admission.rules import AdmissionDefaults
from deployments.contracts.wake_limits import WakeLimits
from deployments.security.restrictions import RESTRICTED_PREFIX
from deployments.security.tls import TlsFiles
from deployments.settings.connection_limits import ConnectionLimits
from deployments.settings.lane_settings import LaneSettings
from deployments.settings.server_settings import LogSettings
from deployments.settings.wait_for_models import WaitForModels
from deployments.supervision.draining import DrainTimes
from deployments.supervision.handover import Address
from deployments.supervision.unix_sockets import DEFAULT_MODE


@dataclass(frozen=True, slots=True)
class IngressSettings:
    """What a replica is told.

    Attributes:
        server_id: Name in server metadata.
        strict_readiness: Whether ready needs every model ready.
        http: Address and port; None when off.
        grpc: Address and port; None when off.
        metrics: Address and port; None when off.
        openai: Address and port of one more HTTP server; None when off.
        grpc_server: ``own`` or ``grpcio``.
        http_max_input_bytes: ``--http-max-input-size``.
        grpc_options: Values of the flags in
            `deployments.grpc.server.grpcio_server.OPTIONS`, milliseconds.
        lanes: The server's options about lanes.
        exit_timeout_s: How long a drain may take.
        scheduler_holds: Variables of the server that hold schedulers back; see
            `deployments.scheduling.holds`.
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
        build: Name of the application's build. Replicas of another build are replaced by this one.
        drain_delay_s: How long a replica that ends without a successor goes on accepting.
        memory_limit_bytes: What messages of clients may take in a replica; 0 is a quarter of the
            memory that its process may use.
        model_cache_directory: ``--model-cache-directory``.
        wake_limits: What may wait for versions that are being woken.
        wait_for_models: Which models Serve waits for before a replica runs.
        capture_config: ``--capture-config``.
        answer_provenance: ``--answer-provenance``.
        admission: What is refused under overload.
        http_connections: Bounds of the HTTP port.
        grpc_connections: Bounds of the gRPC port.
        access_policy: ``--access-policy``, a path on the replica's node; empty without one.
        unix_socket_mode: ``--unix-socket-mode``.
        metrics_tls: Set to serve metrics over TLS.
    """

    server_id: str = "triton"
    strict_readiness: bool = True
    http: tuple[str, int] | None = ("0.0.0.0", 8000)  # noqa: S104 - Triton's default
    grpc: tuple[str, int] | None = ("0.0.0.0", 8001)  # noqa: S104
    metrics: tuple[str, int] | None = ("0.0.0.0", 8002)  # noqa: S104
    grpc_server: str = "own"
    http_max_input_bytes: int = 1 << 26
    lanes: LaneSettings = LaneSettings()
    exit_timeout_s: float = 30.0
    scheduler_holds: Mapping[str, str] = field(default_factory=dict)
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
    build: str = ""
    drain_delay_s: float = 0.0
    memory_limit_bytes: int = 0
    model_cache_directory: str = ""
    wake_limits: WakeLimits = WakeLimits()
    wait_for_models: WaitForModels = WaitForModels.NONE
    capture_config: str = ""
    answer_provenance: bool = False
    admission: AdmissionDefaults = AdmissionDefaults()
    http_connections: ConnectionLimits = ConnectionLimits()
    grpc_connections: ConnectionLimits = ConnectionLimits(write_s=300)
    access_policy: str = ""
    unix_socket_mode: int = DEFAULT_MODE
    metrics_tls: TlsFiles | None = None
    openai: tuple[str, int] | None = None

    @property
    def restricted_headers(self) -> frozenset[str]:
        """Names in lower case of the headers and metadata that open restricted APIs."""
        http = {header.lower() for _, header, _ in self.http_restrictions}
        return frozenset(
            http | {RESTRICTED_PREFIX + key.lower() for _, key, _ in self.grpc_restrictions}
        )

    @property
    def addresses(self) -> dict[str, Address]:
        """Addresses by protocol, for those that are on."""
        rows = {
            "http": self.http,
            "grpc": self.grpc,
            "metrics": self.metrics,
            "openai": self.openai,
        }
        return {name: address for name, address in rows.items() if address is not None}

    @property
    def drain_times(self) -> DrainTimes:
        """How long the stages of a drain may take."""
        return DrainTimes(delay_s=self.drain_delay_s, exit_s=self.exit_timeout_s)
