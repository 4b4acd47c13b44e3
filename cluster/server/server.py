# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""A Manta server from Python: starts or joins Ray, the controller and the ingress; drains and ends.

    with Server(options) as server:
        print(server.addresses)

The order of starting is what makes it quick: what needs no Ray is checked first, and the controller
loads models while Serve starts.
"""

import dataclasses
import os
import secrets
import socket
import threading
import time
from collections.abc import Callable, MutableMapping
from typing import Any, Self

from backends.api.errors import InternalError
from cluster.controller.ownership import HEARTBEAT_S, LEASE_S, Owner
from cluster.options.parsing import ServerOptions
from cluster.options.settings_at_start import drain_delay_s
from cluster.repository.contents import require_listed
from cluster.repository.repository import ModelRepository
from cluster.repository.single_model import SingleModels, refuse_files
from cluster.server.end_ingress import end_with_serve, end_without_serve
from cluster.server.ports import PortReservation
from cluster.server.ray_cluster import Controller, RayCluster
from cluster.server.transport_options import FILE_CHECKS, listeners
from cluster.server.watches import ControllerWatch, HeadWatch, short_patience
from deployments.supervision.unix_sockets import is_unix

# Clients may have been told that the server is ready before Serve tells this process.
_LAST_STEP_S = 5.0
# How soon the end of one's own Ray is noticed.
_LOOK_S = 1.0


class StartInterruptedError(Exception):
    """The server was told to stop before it was ready."""


class RayletLostError(Exception):
    """The raylet of the server's own Ray has ended, and everything that served with it."""

    def __init__(self) -> None:
        super().__init__(
            "the raylet of this server's own Ray has ended, and instances and ingresses with it:"
            " nothing starts it again, start the server anew. Why is in the kernel's log if it was"
            " killed for memory, else in raylet.err of Ray's session"
        )


class Server:
    """One running server.

    Args:
        options: Its options; ports of 0 are replaced by those chosen.
        environment: The process's environment, changed for an embedded Ray.
        on_ray_started: Called once Ray runs in this process; Ray has then replaced the handlers
            of SIGTERM by its own, which abort the process three seconds later.
        is_interrupted: Asked while starting whether to give up.
        connect: Makes the connection with Ray.
        say: Takes lines for the operator while the server runs.
        on_phase: Told what of the start is done.

    Attributes:
        options: The options, with the ports that were chosen.
        warnings: What the operator should know of a server that runs all the same.
    """

    def __init__(
        self,
        options: ServerOptions,
        environment: MutableMapping[str, str],
        on_ray_started: Callable[[], None] = lambda: None,
        is_interrupted: Callable[[], bool] = lambda: False,
        connect: Callable[[MutableMapping[str, str]], RayCluster] = RayCluster,
        say: Callable[[str], None] = lambda line: None,
        on_phase: Callable[[str], None] = lambda what: None,
    ) -> None:
        self.options = options
        self.warnings: list[str] = []
        self._on_ray_started = on_ray_started
        self._is_interrupted = is_interrupted
        self._cluster = connect(environment)
        self._ports = PortReservation()
        self._single_models = SingleModels(environment)
        self._controller: Controller | None = None
        self._is_stopping = False
        self._last_step_until_s: float | None = None
        self._ended = threading.Event()
        self._say = say
        self._on_phase = on_phase
        self._head = HeadWatch(self._cluster.ask_head, say)

    @property
    def addresses(self) -> dict[str, str]:
        """URLs by protocol, for those that are on."""
        rows = ((name, host, port) for name, on, host, port in listeners(self.options) if on)
        return {name: host if is_unix(host) else f"{host}:{port}" for name, host, port in rows}

    def start(self) -> None:
        """Start everything and wait until start-up models are loaded and the ports are open.

        Raises:
            PortInUseError: A port cannot be had.
            StartInterruptedError: It was asked to stop meanwhile.
            RayletLostError: Its own Ray has ended meanwhile.
            TritonError: A TLS file or every model repository cannot be read, there is no Ray to
                join, a server runs on it already, the ingress cannot start, or a model failed to
                load and ``--exit-on-error`` is on.
        """
        self._check_files()
        self._enter_ray()
        how = "joined" if self._joins else "started"
        self._on_phase(f"Ray {how} at {self._cluster.address}")
        controller = self._take_cluster()
        controller.begin_loading()
        self._keep_lease(controller)
        self._check()
        self._cluster.deploy(self.options, self._check_last_step)
        self._on_phase("ports open")
        self._require_models(controller.wait_loaded(self._check_last_step))
        self._cluster.has_started()

    def _check_files(self) -> None:
        """Look at what needs no Ray, which takes seconds to start."""
        self._check()
        for check in FILE_CHECKS:
            check(self.options)
        if self._joins:
            # The controller of a joined cluster may run on another node.
            refuse_files(self.options.model_repository)
            return
        repositories = self._single_models.repositories(self.options.model_repository)
        self.options = dataclasses.replace(self.options, model_repository=repositories)
        require_listed(ModelRepository(repositories).scan())

    def _enter_ray(self) -> None:
        if self._joins:
            self._cluster.join(self.options.ray_address)
            self._on_ray_started()
            # Before the ports: who has them is likely the server that runs there.
            self._cluster.require_unclaimed()
            self._reserve_ports()
        else:
            self._reserve_ports()
            self._cluster.start(self.options)
            self._on_ray_started()
        self._check()

    def _take_cluster(self) -> Controller:
        if not self._cluster.is_own:
            self._cluster.look_for_serve()
        self._controller = self._cluster.take(self.options, self._owner())
        return self._controller

    def _keep_lease(self, controller: Controller) -> None:
        """Say again and again that this process lives; only a joined cluster can outlive it."""
        self._head.start(self._ended, is_own=self._cluster.is_own)
        ControllerWatch(controller, self._say).start(self._ended)
        threading.Thread(
            target=self._beat, args=(controller,), name="manta-lease", daemon=True
        ).start()
        if self._cluster.is_own:
            return
        niceness, reconnect_s = controller.process_settings()
        if niceness > 0:
            self.warnings.append(
                f"Warning: processes of this Ray cluster run at nice {niceness} and starve beside "
                "others; set RAY_worker_niceness=0 where Ray is started, on every node."
            )
        self.warnings += filter(None, [short_patience(reconnect_s)])

    def _require_models(self, rows: list[dict[str, Any]]) -> None:
        failed = [row for row in rows if row["state"] != "READY"]
        if failed and self.options.exit_on_error:
            reasons = [f"{row['name']}: {row['reason'].strip()}" for row in failed]
            between = " " if len(reasons) == 1 else "\n\n"
            raise InternalError(between.join(("failed to load all models:", *reasons)))

    def status(self) -> list[dict[str, Any]]:
        """Return name, version, backend, instances, state and reason of each model version."""
        return [] if self._controller is None else self._controller.status()

    def serve(self, told: threading.Event) -> None:
        """Wait until this process is told to stop.

        Raises:
            RayletLostError: Nothing is served any more.
        """
        while not told.wait(_LOOK_S):
            self._check_raylet()

    def stop(self) -> None:
        """Drain: answer what was accepted, end the ingress, the instances and what was started."""
        if self._is_stopping:
            return
        self._is_stopping = True
        try:
            if self._controller is not None:
                self._cluster.end(
                    self._controller,
                    self.options.exit_timeout_secs + drain_delay_s(self.options, os.environ),
                )
        finally:
            self._ended.set()
            self._cluster.leave()
            self._ports.close()
            self._single_models.close()

    def __enter__(self) -> Self:
        try:
            self.start()
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    @property
    def _joins(self) -> bool:
        return bool(self.options.ray_address) or (
            self._cluster.is_connected and not self._cluster.is_own
        )

    def _check(self) -> None:
        self._check_raylet()
        if self._is_interrupted():
            raise StartInterruptedError

    def _check_raylet(self) -> None:
        if self._cluster.has_lost_raylet():
            raise RayletLostError

    def _check_last_step(self) -> None:
        """Give up, but not a start whose models are loaded and whose ingress is about to run.

        Such a server ends as one that was ready does: it drains, and its exit code is 0.
        """
        self._check_raylet()
        if not self._is_interrupted():
            return
        if self._last_step_until_s is None:
            is_last = self._controller is not None and self._controller.has_loaded()
            self._last_step_until_s = time.monotonic() + (_LAST_STEP_S if is_last else 0.0)
        if time.monotonic() >= self._last_step_until_s:
            raise StartInterruptedError

    def _reserve_ports(self) -> None:
        chosen: dict[str, Any] = {
            f"{name}_port": self._ports.reserve(f"--{name}-port", host, port)
            for name, on, host, port in listeners(self.options)
            if on and not is_unix(host)
        }
        self.options = dataclasses.replace(self.options, **chosen)

    def _owner(self) -> Owner:
        """Describe this process."""
        where = ", ".join(f"{name} {address}" for name, address in self.addresses.items())
        return Owner(
            token=secrets.token_hex(8),
            description=f"process {os.getpid()} on {socket.gethostname()} ({where})",
            lease_s=0.0 if self._cluster.is_own else LEASE_S,
            end_ingress=(end_with_serve if self._cluster.starts_serve else end_without_serve),
        )

    def _beat(self, controller: Controller) -> None:
        while not self._ended.wait(HEARTBEAT_S):
            if not self._cluster.is_own:
                controller.heartbeat()
            self._head.look()
            if self._cluster.has_restarted_fork_server():
                self._say("The fork server had ended: another one was started.")
