# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""A Manta server from Python: starts or joins Ray, the controller and the ingress; drains and ends.

    with Server(options) as server:
        print(server.addresses)

The order of starting is what makes it quick: the controller loads models while Serve starts.
"""

import dataclasses
import logging
import os
import secrets
import socket
import subprocess
import threading
import time
from collections.abc import Callable, MutableMapping
from types import TracebackType
from typing import Any, Self

import ray
from ray.serve.exceptions import RayServeException

from backends.api.errors import InternalError, UnavailableError
from cluster.controller.ownership import HEARTBEAT_S, LEASE_S, Owner
from cluster.options.parsing import ServerOptions
from cluster.options.settings_at_start import drain_delay_s
from cluster.server import serve_application
from cluster.server.app import application
from cluster.server.claim import claim, require_unclaimed
from cluster.server.ports import PortReservation
from cluster.server.reaper import start_reaper
from cluster.server.start_controller import get_or_create_controller, wait_gone
from cluster.server.transport_options import check_tls
from deployments.instance.spec import NAMESPACE

logger = logging.getLogger(__name__)

# Plasma holds no tensors here; the store is as small as Ray allows.
_OBJECT_STORE_BYTES = 100 * 1024 * 1024
# How soon a start notices that it shall stop.
_POLL_S = 0.2
_END_TIMEOUT_S = 5.0
# What Serve takes to end replicas, beside the time that the replicas take.
_DELETE_SLACK_S = 60.0

# Read by Ray's processes when they start; for an embedded cluster this process is their parent.
RAY_ENVIRONMENT = {
    "RAY_SERVE_METRICS_EXPORT_INTERVAL_MS": "5000",
    "RAY_SERVE_REQUEST_PATH_LOG_BUFFER_SIZE": "1000",
    "RAY_SERVE_LOG_TO_STDERR": "0",
    "RAY_SERVE_RUN_USER_CODE_IN_SEPARATE_THREAD": "0",
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "1",
    "RAY_task_events_report_interval_ms": "0",
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_event_stats": "0",
    # A busy laptop may take longer than the 10 s Ray gives its first node.
    "RAY_raylet_start_wait_time_s": "60",
    # What cannot be installed is said at once; pip and uv try again themselves.
    "RUNTIME_ENV_RETRY_TIMES": "1",
}


class StartInterruptedError(Exception):
    """The server was told to stop before it was ready."""


class Server:
    """One running server.

    Args:
        options: Its options; ports of 0 are replaced by those chosen.
        environment: The process's environment, changed for an embedded Ray.
        on_ray_started: Called once Ray runs in this process; Ray has then replaced the handlers
            of SIGTERM by its own, which abort the process three seconds later.
        is_interrupted: Asked while starting whether to give up.
    """

    def __init__(
        self,
        options: ServerOptions,
        environment: MutableMapping[str, str],
        on_ray_started: Callable[[], None] = lambda: None,
        is_interrupted: Callable[[], bool] = lambda: False,
    ) -> None:
        self.options = options
        self._environment = environment
        self._on_ray_started = on_ray_started
        self._is_interrupted = is_interrupted
        self._ports = PortReservation()
        self._controller: Any = None
        self._is_stopping = False
        self._ended = threading.Event()
        self._owns_ray = False
        self._has_connected = False
        self._has_started_serve = False
        self._has_deployed = False
        self._reaper: subprocess.Popen[bytes] | None = None

    @property
    def addresses(self) -> dict[str, str]:
        """URLs by protocol, for those that are on."""
        options = self.options
        rows = {
            "http": (options.allow_http, options.http_address, options.http_port),
            "grpc": (options.allow_grpc, options.grpc_address, options.grpc_port),
            "metrics": (
                options.allow_metrics,
                options.metrics_address or options.http_address,
                options.metrics_port,
            ),
        }
        return {name: f"{host}:{port}" for name, (on, host, port) in rows.items() if on}

    def start(self) -> None:
        """Start everything and wait until start-up models are loaded and the ports are open.

        Raises:
            PortInUseError: A port cannot be had.
            StartInterruptedError: It was asked to stop meanwhile.
            TritonError: A TLS file cannot be used, there is no Ray to join, a server runs on it
                already, the ingress cannot start, or a model failed to load and
                ``--exit-on-error`` is on.
        """
        self._check()
        check_tls(self.options)
        if ray.is_initialized() or self.options.ray_address:
            self._join_ray()
            self._on_ray_started()
            require_unclaimed()
            self._reserve_ports()
        else:
            self._reserve_ports()
            self._start_ray()
            self._on_ray_started()
        self._check()
        owner = self._owner()
        # Nobody else is on a Ray of one's own: no need to wait until the controller can say so.
        take = get_or_create_controller if self._owns_ray else claim
        self._controller = take(self.options, owner)
        loading = self._controller.start.remote()
        if owner.lease_s:
            threading.Thread(target=self._beat, name="manta-lease", daemon=True).start()
        self._deploy_ingress()
        while not ray.wait([loading], timeout=_POLL_S)[0]:
            self._check()
        try:
            failed = [row for row in ray.get(loading) if row["state"] != "READY"]
        except ray.exceptions.RayTaskError as error:
            raise error.cause from None
        if failed and self.options.exit_on_error:
            raise InternalError(
                "failed to load all models: "
                + "; ".join(f"{row['name']}: {row['reason']}" for row in failed)
            )

    def _deploy_ingress(self) -> None:
        serve_application.start_serve()
        self._check()
        self._has_deployed = True
        serve_application.deploy(
            application(self.options, follow_nodes=not self._owns_ray), self._check
        )

    def _owner(self) -> Owner:
        """Describe this process; only a joined cluster can outlive it."""
        joined = not self._owns_ray
        self._has_started_serve = joined and not serve_application.is_running()
        where = ", ".join(f"{name} {address}" for name, address in self.addresses.items())
        return Owner(
            token=secrets.token_hex(8),
            description=f"process {os.getpid()} on {socket.gethostname()} ({where})",
            lease_s=LEASE_S if joined else 0.0,
            end_ingress=(
                serve_application.delete_with_serve
                if self._has_started_serve
                else serve_application.delete_without_serve
            ),
        )

    def _check(self) -> None:
        if self._is_interrupted():
            raise StartInterruptedError

    def status(self) -> list[dict[str, Any]]:
        """Return name, version, backend, instances, state and reason of each model version."""
        rows: list[dict[str, Any]] = ray.get(self._controller.status.remote())
        return rows

    def stop(self) -> None:
        """Drain: answer what was accepted, end the ingress, the instances and what was started."""
        if self._is_stopping:
            return
        self._is_stopping = True
        try:
            if ray.is_initialized() and self._controller is not None:
                self._end_server()
        except (ray.exceptions.RayError, RayServeException, TimeoutError) as error:
            logger.warning("drain was cut short: %s", error)
        finally:
            self._ended.set()
            if self._owns_ray or self._has_connected:
                ray.shutdown()
            if self._reaper is not None:
                self._reaper.kill()
                self._reaper.wait()
            self._ports.close()

    def _end_server(self) -> None:
        delay_s = drain_delay_s(self.options, os.environ)
        ends_s = time.monotonic() + delay_s + self.options.exit_timeout_secs
        if self._has_deployed:
            serve_application.delete(
                and_serve=self._has_started_serve,
                timeout_s=ends_s - time.monotonic() + _DELETE_SLACK_S,
            )
        left_s = ends_s - time.monotonic()
        ray.get(self._controller.shutdown.remote(max(1.0, left_s)))
        if not self._owns_ray:
            wait_gone(_END_TIMEOUT_S)

    def __enter__(self) -> Self:
        try:
            self.start()
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.stop()

    def _reserve_ports(self) -> None:
        options = self.options
        rows = (
            ("http_port", options.allow_http, options.http_address),
            ("grpc_port", options.allow_grpc, options.grpc_address),
            (
                "metrics_port",
                options.allow_metrics,
                options.metrics_address or options.http_address,
            ),
        )
        chosen: dict[str, Any] = {
            field: self._ports.reserve(
                f"--{field.replace('_', '-')}", host, getattr(options, field)
            )
            for field, on, host in rows
            if on
        }
        self.options = dataclasses.replace(options, **chosen)

    def _join_ray(self) -> None:
        if ray.is_initialized():
            return
        address = self.options.ray_address
        try:
            ray.init(
                address=address,
                namespace=NAMESPACE,
                logging_level=logging.ERROR,
                log_to_driver=False,
            )
        except (ConnectionError, ValueError, RuntimeError) as error:
            raise UnavailableError(
                f"--ray-address: cannot join the Ray cluster at '{address}': {_why(error)}"
            ) from error
        self._has_connected = True

    def _start_ray(self) -> None:
        self._environment.update(RAY_ENVIRONMENT)
        self._owns_ray = True
        ray.init(
            address="local",
            namespace=NAMESPACE,
            include_dashboard=self.options.dashboard,
            object_store_memory=_OBJECT_STORE_BYTES,
            logging_level=logging.ERROR,
            log_to_driver=True,
        )
        self._reaper = start_reaper()

    def _beat(self) -> None:
        while not self._ended.wait(HEARTBEAT_S):
            try:
                self._controller.heartbeat.remote()
            except ray.exceptions.RayError as error:
                logger.warning("the controller cannot be reached: %s", error)


def _why(error: BaseException) -> str:
    """Say why Ray cannot be joined; Ray keeps the reason in the cause's cause."""
    # To an address given explicitly Ray sends no token unless it is told to.
    if error.__cause__ is not None and "AuthToken" in str(error.__cause__):
        return (
            "it asks for a token; set RAY_AUTH_MODE=token, and RAY_AUTH_TOKEN or"
            " RAY_AUTH_TOKEN_PATH if the token is not in ~/.ray/auth_token"
        )
    return str(error)
