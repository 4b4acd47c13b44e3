# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""A Manta server from Python: starts or joins Ray, the controller and the ingress; drains and ends.

    with Server(options) as server:
        print(server.addresses)

The order of starting is what makes it quick: the controller loads models while Serve starts.
"""

import dataclasses
import logging
import subprocess
import threading
import time
from collections.abc import Callable, MutableMapping
from types import TracebackType
from typing import Any, Self

import ray
from ray import serve

from backends.api.errors import InternalError
from cluster.app import APPLICATION_NAME, application
from cluster.controller import NAMESPACE, get_or_create_controller
from cluster.options import ServerOptions
from cluster.ports import PortReservation
from cluster.reaper import start_reaper

logger = logging.getLogger(__name__)

# Plasma holds no tensors here; the store is as small as Ray allows.
_OBJECT_STORE_BYTES = 100 * 1024 * 1024
# A driver in a joined cluster beats this often; the controller ends the server when it hears
# nothing for the lease, so that a killed driver leaves nothing behind.
_HEARTBEAT_S = 2.0
_LEASE_S = 20.0

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
}


def delete_application() -> None:
    """End the ingress; what a controller does whose driver was killed."""
    serve.delete(APPLICATION_NAME)


class Server:
    """One running server.

    Args:
        options: Its options; ports of 0 are replaced by those chosen.
        environment: The process's environment, changed for an embedded Ray.
        on_ray_started: Called once Ray runs in this process; Ray has then replaced the handlers
            of SIGTERM by its own, which abort the process three seconds later.
    """

    def __init__(
        self,
        options: ServerOptions,
        environment: MutableMapping[str, str],
        on_ray_started: Callable[[], None] = lambda: None,
    ) -> None:
        self.options = options
        self._environment = environment
        self._on_ray_started = on_ray_started
        self._ports = PortReservation()
        self._controller: Any = None
        self._stopping = threading.Event()
        self._owns_ray = False
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
            InternalError: A model failed to load and ``--exit-on-error`` is on.
        """
        self._reserve_ports()
        self._start_ray()
        self._on_ray_started()
        embedded = self._owns_ray
        self._controller = get_or_create_controller(
            self.options, lease_s=0.0 if embedded else _LEASE_S, on_expiry=delete_application
        )
        loading = self._controller.start.remote()
        if not embedded:
            threading.Thread(target=self._beat, name="manta-lease", daemon=True).start()
        serve.start(proxy_location="Disabled")
        serve.run(
            application(self.options, follow_nodes=not embedded),
            name=APPLICATION_NAME,
            route_prefix=None,
        )
        ray.get(loading)
        failed = [row for row in self.status() if row["state"] != "READY"]
        if failed and self.options.exit_on_error:
            raise InternalError(
                "failed to load all models: "
                + "; ".join(f"{row['name']}: {row['reason']}" for row in failed)
            )

    def status(self) -> list[dict[str, Any]]:
        """Return name, version, backend, instances, state and reason of each model version."""
        rows: list[dict[str, Any]] = ray.get(self._controller.status.remote())
        return rows

    def stop(self) -> None:
        """Drain: answer what was accepted, end the ingress, the instances and what was started."""
        if self._stopping.is_set():
            return
        self._stopping.set()
        started_s = time.monotonic()
        try:
            if ray.is_initialized():
                serve.delete(APPLICATION_NAME)
                if self._controller is not None:
                    left_s = self.options.exit_timeout_secs - (time.monotonic() - started_s)
                    ray.get(self._controller.shutdown.remote(max(1.0, left_s)))
        except ray.exceptions.RayError as error:
            logger.warning("drain was cut short: %s", error)
        finally:
            if self._owns_ray:
                ray.shutdown()
            if self._reaper is not None:
                self._reaper.kill()
                self._reaper.wait()
            self._ports.close()

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

    def _start_ray(self) -> None:
        address = self.options.ray_address
        if ray.is_initialized():
            return
        if address:
            ray.init(address=address, namespace=NAMESPACE, log_to_driver=False)
            return
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
        while not self._stopping.wait(_HEARTBEAT_S):
            try:
                self._controller.heartbeat.remote()
            except ray.exceptions.RayError as error:
                logger.warning("the controller cannot be reached: %s", error)
