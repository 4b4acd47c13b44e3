# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""The Ray cluster a server runs on, its own or one it has joined, as `Server` sees it."""

import logging
import os
import subprocess
import threading
import time
from collections.abc import Callable, MutableMapping
from contextlib import nullcontext
from typing import Any, Final

import ray
from ray.serve.exceptions import RayServeException

from backends.api.errors import UnavailableError
from cluster.actors.calls import cause_of
from cluster.actors.controller_client import CONTROLLER_NAME
from cluster.actors.file_registry import Rows
from cluster.controller.ownership import Owner
from cluster.fork_server.starting import ForkServer
from cluster.options.parsing import ServerOptions
from cluster.server import serve_application
from cluster.server.app import application
from cluster.server.claim import claim, require_unclaimed
from cluster.server.embedded_node import embedded_node, has_lost_raylet, logs_folder
from cluster.server.error_messages import pause_while_the_head_is_away, print_messages
from cluster.server.ray_environment import prepare
from cluster.server.reaper import start_reaper
from cluster.server.shown_lines import manner_of
from cluster.server.start_controller import (
    create_another,
    find_controller,
    get_or_create_controller,
    has_left_state,
    wait_gone,
)
from cluster.server.worker_output import WorkerOutput
from deployments.instance.spec import NAMESPACE

_log = logging.getLogger(__name__)

# Plasma holds no tensors here; the store is as small as Ray allows.
_OBJECT_STORE_BYTES: Final = 100 * 1024 * 1024
# How soon a start notices that it shall stop.
_POLL_S: Final = 0.2
_END_TIMEOUT_S: Final = 5.0
# A process of the controller tries for a minute before it ends, and Ray starts the next.
_RESTART_TIMEOUT_S: Final = 120.0
# What Serve takes to end replicas, beside the time that the replicas take.
_DELETE_SLACK_S: Final = 60.0


class Controller:
    """The model controller, called from a thread.

    An upgrade of the server puts another actor in its place, which has the same owner.

    Args:
        handle: Its actor.
        token: The owner's.
        find: Returns the actor that is the controller now; None while there is none.
        another: Starts another actor that goes on where the lost one has ended.
    """

    is_left = staticmethod(has_left_state)

    def __init__(
        self,
        handle: Any,
        token: str = "",
        find: Callable[[], Any] = find_controller,
        another: Callable[[], Any] | None = None,
    ) -> None:
        self._handle = handle
        self._token = token
        self._find = find
        self._another = another
        self._is_ending = False
        self._lock = threading.Lock()
        self._loading: Any = None

    def is_there(self) -> bool:
        """Whether the cluster has a controller, or Ray is about to restart it."""
        return self._find() is not None

    def make_another(self) -> None:
        """Start another that goes on with that state, unless the server is about to end."""
        with self._lock:
            if not self._is_ending and self._another is not None:
                self._handle = self._another()

    def begin_loading(self) -> None:
        """Ask for the start-up models; `wait_loaded` waits for them."""
        self._loading = self._present().start.remote()

    def has_loaded(self) -> bool:
        """Whether each start-up model was loaded or has failed."""
        return bool(ray.wait([self._loading], timeout=0)[0])

    def wait_loaded(self, check: Callable[[], None]) -> list[dict[str, Any]]:
        """Wait for the start-up models and return their status.

        Args:
            check: Called while waiting; what it raises ends the wait.

        Raises:
            TritonError: There is no model repository that can be read; UNAVAILABLE when the
                controller has ended and Ray does not get another process of it to answer.
        """

        def ask() -> Any:
            self.begin_loading()
            return self._loading

        try:
            rows: list[dict[str, Any]] = self._answer(self._loading, ask, check)
        except ray.exceptions.RayTaskError as error:
            raise error.cause from None
        return rows

    def status(self) -> list[dict[str, Any]]:
        """Return name, version, backend, instances, state and reason of each model version."""
        rows: list[dict[str, Any]] = self._ask("status")
        return rows

    def process_settings(self) -> tuple[int, float]:
        """Return its process's niceness, and for how many seconds it looks for a lost GCS."""
        values: tuple[int, float] = self._ask("process_settings")
        return values

    def heartbeat(self) -> None:
        """Say that the owner is there; a controller that is away is logged."""
        try:
            self._present().heartbeat.remote(self._token)
        except Exception as error:
            # Ray's client raises what it likes, and the next heartbeat must follow.
            _log.warning("the controller cannot be reached: %s", error)

    def shutdown(self, timeout_s: float) -> None:
        """Drain and end every instance, then the controller."""
        with self._lock:
            self._is_ending = True
        handle = self._present()
        owner, _ = ray.get(handle.owner.remote())
        if owner.token == self._token:
            ray.get(handle.shutdown.remote(timeout_s))

    def _ask(self, method: str) -> Any:
        """Call a method that may be called again, and return its answer."""

        def ask() -> Any:
            return getattr(self._present(), method).remote()

        return self._answer(ask(), ask, lambda: None)

    def _answer(self, reference: Any, ask: Callable[[], Any], check: Callable[[], None]) -> Any:
        """Wait for an answer; of a controller that has died meanwhile, for that of the next one.

        What ``check`` raises ends the wait, as in `wait_loaded`.

        Raises:
            UnavailableError: None answers for `_RESTART_TIMEOUT_S`.
        """
        until_s: float | None = None
        while True:
            while not ray.wait([reference], timeout=_POLL_S)[0]:
                check()
            try:
                return ray.get(reference)
            except ray.exceptions.RayActorError as error:
                now_s = time.monotonic()
                until_s = now_s + _RESTART_TIMEOUT_S if until_s is None else until_s
                if now_s >= until_s:
                    raise UnavailableError(
                        f"the model controller ends again and again: {cause_of(error)}; look into"
                        f" the log of actor {CONTROLLER_NAME}"
                    ) from error
            check()
            time.sleep(_POLL_S)
            reference = ask()

    def _present(self) -> Any:
        """Return the actor that is the controller now; the last one known while there is none."""
        self._handle = self._find() or self._handle
        return self._handle


class RayCluster:
    """Starts or joins Ray, puts controller and ingress on it, and takes them off.

    Args:
        environment: The process's environment, changed for an embedded Ray.
        fork_server: Forks the processes of an embedded Ray; None has each start by itself.

    Attributes:
        is_own: Whether this process has started the cluster.
    """

    require_unclaimed = staticmethod(require_unclaimed)

    def __init__(
        self, environment: MutableMapping[str, str], fork_server: ForkServer | None = None
    ) -> None:
        self.is_own = False
        self._environment = environment
        self._fork_server = fork_server
        self._has_connected = False
        self._has_deployed = False
        self._had_serve = False
        self._output: WorkerOutput | None = None
        self._reaper: subprocess.Popen[bytes] | None = None

    @property
    def is_connected(self) -> bool:
        """Whether this process is part of a cluster already."""
        return bool(ray.is_initialized())

    @property
    def address(self) -> str:
        """Host and port of the GCS, for Ray's own tools."""
        return str(ray.get_runtime_context().gcs_address)

    @property
    def starts_serve(self) -> bool:
        """Whether Serve is this server's to end."""
        return not self.is_own and not self._had_serve

    def start(self, options: ServerOptions) -> None:
        """Start a cluster of one's own."""
        dashboard = options.dashboard
        prepare(self._environment, dashboard=dashboard)
        print_messages(is_wanted=options.verbose)
        self.is_own = True
        forks = self._fork_server
        workers = nullcontext() if forks is None else forks.in_front_of_workers()
        with embedded_node(dashboard=dashboard), workers:
            ray.init(
                address="local",
                namespace=NAMESPACE,
                include_dashboard=dashboard,
                object_store_memory=_OBJECT_STORE_BYTES,
                logging_level=_rays_level(options),
                # Coloured, also in a pipe; what processes print comes by the thread below.
                log_to_driver=options.verbose,
            )
        pause_while_the_head_is_away()
        self._output = WorkerOutput(logs_folder(), manner_of(options, is_terminal=os.isatty(1)))
        if dashboard:
            self._reaper = start_reaper()

    def has_started(self) -> None:
        """Note that the server is ready: what its processes log comes as they write it."""
        if self._output is not None:
            self._output.has_started()

    def has_lost_raylet(self) -> bool:
        """Whether a cluster of one's own has lost its raylet, and so everything that it ran."""
        return self.is_own and has_lost_raylet()

    def join(self, address: str) -> None:
        """Join a cluster, unless this process is part of one, and make sure no server runs on it.

        Raises:
            AlreadyExistsError: A server runs; the message names its owner.
            UnavailableError: There is no Ray to join.
        """
        if not self.is_connected:
            print_messages(is_wanted=False)
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
        pause_while_the_head_is_away()

    def ask_head(self) -> None:
        """Ask the GCS for anything; blocks while it is away."""
        Rows().get(b"manta")

    def has_restarted_fork_server(self) -> bool:
        """Start another fork server if it has ended; tell whether it had."""
        return self._fork_server is not None and self._fork_server.look()

    def look_for_serve(self) -> None:
        """Note whether Serve runs already, and so is somebody else's."""
        self._had_serve = serve_application.is_running()

    def take(self, options: ServerOptions, owner: Owner) -> Controller:
        """Start the controller.

        Raises:
            AlreadyExistsError: Another owner was faster.
        """
        # Nobody else is on a Ray of one's own: no need to wait until the controller can say so.
        take = get_or_create_controller if self.is_own else claim
        handle = take(options, owner)
        return Controller(
            handle, owner.token, find_controller, lambda: create_another(options, owner)
        )

    def deploy(self, options: ServerOptions, check: Callable[[], None]) -> None:
        """Put the ingress on Serve and wait until it runs; what ``check`` raises ends the wait.

        Raises:
            InternalError: Replicas cannot start; the message says why.
        """
        logging.getLogger("ray.serve").setLevel(_rays_level(options))
        serve_application.start_serve()
        check()
        self._has_deployed = True
        serve_application.deploy(application(options, follow_nodes=not self.is_own), check)

    def end(self, controller: Controller, timeout_s: float) -> None:
        """Drain the ingress, then end instances and controller; what fails is logged."""
        if not self.is_connected or self.has_lost_raylet():
            return
        started_s = time.monotonic()
        try:
            if self._has_deployed:
                serve_application.delete(
                    and_serve=self.starts_serve, timeout_s=timeout_s + _DELETE_SLACK_S
                )
            left_s = timeout_s - (time.monotonic() - started_s)
            controller.shutdown(max(1.0, left_s))
            if not self.is_own:
                wait_gone(_END_TIMEOUT_S)
        except (ray.exceptions.RayError, RayServeException, TimeoutError) as error:
            _log.warning("drain was cut short: %s", error)

    def leave(self) -> None:
        """End the cluster, or this process's connection with it, as it was begun."""
        if self.is_own or self._has_connected:
            ray.shutdown()
        if self._output is not None:
            self._output.stop()
        if self._reaper is not None:
            self._reaper.kill()
            self._reaper.wait()
        if self._fork_server is not None:
            self._fork_server.end()


def _rays_level(options: ServerOptions) -> int:
    """Return the level of what Ray and Serve log in this process."""
    return logging.INFO if options.verbose else logging.ERROR


def _why(error: BaseException) -> str:
    """Say why Ray cannot be joined; Ray keeps the reason in the cause's cause."""
    # To an address given explicitly Ray sends no token unless it is told to.
    if error.__cause__ is not None and "AuthToken" in str(error.__cause__):
        return (
            "it asks for a token; set RAY_AUTH_MODE=token, and RAY_AUTH_TOKEN or"
            " RAY_AUTH_TOKEN_PATH if the token is not in ~/.ray/auth_token"
        )
    return str(error)
