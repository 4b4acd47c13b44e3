# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""The Ray cluster a server runs on, its own or one it has joined, as `Server` sees it."""

import logging
import subprocess
import time
from collections.abc import Callable, MutableMapping
from typing import Any, Final

import ray
from ray.experimental.internal_kv import _internal_kv_exists
from ray.serve.exceptions import RayServeException

from backends import compiled_form
from backends.api.errors import UnavailableError
from cluster.actors.file_registry import STORE_NAMESPACE
from cluster.controller.ownership import Owner
from cluster.options.parsing import ServerOptions
from cluster.server import serve_application
from cluster.server.app import application
from cluster.server.claim import claim, require_unclaimed
from cluster.server.reaper import start_reaper
from cluster.server.start_controller import (
    find_controller,
    get_or_create_controller,
    wait_gone,
)
from deployments.instance.spec import NAMESPACE

_log = logging.getLogger(__name__)

# Plasma holds no tensors here; the store is as small as Ray allows.
_OBJECT_STORE_BYTES: Final = 100 * 1024 * 1024
# How soon a start notices that it shall stop.
_POLL_S: Final = 0.2
_END_TIMEOUT_S: Final = 5.0
# What Serve takes to end replicas, beside the time that the replicas take.
_DELETE_SLACK_S: Final = 60.0

# What instances import before they know their model, and for the most frequent kind of models.
PRELOADED: Final = (
    "deployments.instance.actor",
    "cluster.actors.arbiter",
    "cluster.actors.controller_client",
    "cluster.instances.node_files",
    "backends.python.backend",
)

# Read by Ray's processes when they start; for an embedded cluster this process is their parent.
RAY_ENVIRONMENT: Final = {
    "RAY_SERVE_METRICS_EXPORT_INTERVAL_MS": "5000",
    "RAY_SERVE_REQUEST_PATH_LOG_BUFFER_SIZE": "1000",
    "RAY_SERVE_LOG_TO_STDERR": "0",
    # A replica that does not answer cannot drain either: waiting for it holds up its successor.
    "RAY_SERVE_FORCE_STOP_UNHEALTHY_REPLICAS": "1",
    "RAY_SERVE_RUN_USER_CODE_IN_SEPARATE_THREAD": "0",
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "1",
    "RAY_task_events_report_interval_ms": "0",
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_event_stats": "0",
    # A busy laptop may take longer than the 10 s Ray gives its first node.
    "RAY_raylet_start_wait_time_s": "60",
    # What cannot be installed is said at once; pip and uv try again themselves.
    "RUNTIME_ENV_RETRY_TIMES": "1",
    # So idle workers have done it beforehand.
    "RAY_preload_python_modules": ",".join(PRELOADED),
    # Ray's 15 starves ingress and instances beside any other process of the machine.
    "RAY_worker_niceness": "0",
    # Serve looks ten times a second whether its one application is as it should be.
    "RAY_SERVE_CONTROL_LOOP_INTERVAL_S": "0.25",
    # The log monitor lists all log files ten times a second until there are a thousand.
    "RAY_LOG_MONITOR_MANY_FILES_THRESHOLD": "1",
    "LOG_NAME_UPDATE_INTERVAL_S": "2",
}

# What only Ray's dashboard shows: its agent's look at every process, and metrics of Ray itself.
WITHOUT_DASHBOARD: Final = {
    "REPORTER_UPDATE_INTERVAL_MS": "3600000",
    "RAY_enable_metrics_collection": "0",
}


def prepare(environment: MutableMapping[str, str]) -> None:
    """Tell the processes of an embedded cluster, which inherit this environment, how to run."""
    niceness = environment.get("RAY_worker_niceness")
    environment.update(RAY_ENVIRONMENT)
    if niceness is not None:
        environment["RAY_worker_niceness"] = niceness
    # Processes start as long as the server runs; all are compiled or none.
    if not environment.get(compiled_form.VARIABLE):
        environment[compiled_form.VARIABLE] = compiled_form.choice()


class Controller:
    """The model controller, called from a thread.

    An upgrade of the server puts another actor in its place, which has the same owner.

    Args:
        handle: Its actor.
        token: The owner's.
        find: Returns the actor that is the controller now; None while there is none.
    """

    def __init__(
        self, handle: Any, token: str = "", find: Callable[[], Any] = find_controller
    ) -> None:
        self._handle = handle
        self._token = token
        self._find = find
        self._loading: Any = None

    def begin_loading(self) -> None:
        """Ask for the start-up models; `wait_loaded` waits for them."""
        self._loading = self._handle.start.remote()

    def has_loaded(self) -> bool:
        """Whether each start-up model was loaded or has failed."""
        return bool(ray.wait([self._loading], timeout=0)[0])

    def wait_loaded(self, check: Callable[[], None]) -> list[dict[str, Any]]:
        """Wait for the start-up models and return their status.

        Args:
            check: Called while waiting; what it raises ends the wait.

        Raises:
            TritonError: There is no model repository that can be read.
        """
        while not ray.wait([self._loading], timeout=_POLL_S)[0]:
            check()
        try:
            rows: list[dict[str, Any]] = ray.get(self._loading)
        except ray.exceptions.RayTaskError as error:
            raise error.cause from None
        return rows

    def status(self) -> list[dict[str, Any]]:
        """Return name, version, backend, instances, state and reason of each model version."""
        rows: list[dict[str, Any]] = ray.get(self._present().status.remote())
        return rows

    def process_settings(self) -> tuple[int, float]:
        """Return its process's niceness, and for how many seconds it looks for a lost GCS."""
        values: tuple[int, float] = ray.get(self._handle.process_settings.remote())
        return values

    def heartbeat(self) -> None:
        """Say that the owner is there; a controller that is away is logged."""
        try:
            self._present().heartbeat.remote(self._token)
        except ray.exceptions.RayError as error:
            _log.warning("the controller cannot be reached: %s", error)

    def shutdown(self, timeout_s: float) -> None:
        """Drain and end every instance, then the controller."""
        handle = self._present()
        owner, _ = ray.get(handle.owner.remote())
        if owner.token == self._token:
            ray.get(handle.shutdown.remote(timeout_s))

    def _present(self) -> Any:
        """Return the actor that is the controller now; the last one known while there is none."""
        self._handle = self._find() or self._handle
        return self._handle


class RayCluster:
    """Starts or joins Ray, puts controller and ingress on it, and takes them off.

    Args:
        environment: The process's environment, changed for an embedded Ray.

    Attributes:
        is_own: Whether this process has started the cluster.
    """

    def __init__(self, environment: MutableMapping[str, str]) -> None:
        self.is_own = False
        self._environment = environment
        self._has_connected = False
        self._has_deployed = False
        self._had_serve = False
        self._reaper: subprocess.Popen[bytes] | None = None

    @property
    def is_connected(self) -> bool:
        """Whether this process is part of a cluster already."""
        return bool(ray.is_initialized())

    @property
    def starts_serve(self) -> bool:
        """Whether Serve is this server's to end."""
        return not self.is_own and not self._had_serve

    def start(self, *, dashboard: bool) -> None:
        """Start a cluster of one's own."""
        prepare(self._environment)
        if not dashboard:
            self._environment.update(WITHOUT_DASHBOARD)
        self.is_own = True
        ray.init(
            address="local",
            namespace=NAMESPACE,
            include_dashboard=dashboard,
            object_store_memory=_OBJECT_STORE_BYTES,
            logging_level=logging.ERROR,
            log_to_driver=True,
        )
        self._reaper = start_reaper()

    def join(self, address: str) -> None:
        """Join a cluster, unless this process is part of one, and make sure no server runs on it.

        Raises:
            AlreadyExistsError: A server runs; the message names its owner.
            UnavailableError: There is no Ray to join.
        """
        if not self.is_connected:
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

    def ask_head(self) -> None:
        """Ask the GCS for anything; blocks while it is away."""
        _internal_kv_exists(b"manta", namespace=STORE_NAMESPACE)

    def require_unclaimed(self) -> None:
        """Make sure no server runs on the cluster; see `cluster.server.claim`."""
        require_unclaimed()

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
        return Controller(take(options, owner), owner.token)

    def deploy(self, options: ServerOptions, check: Callable[[], None]) -> None:
        """Put the ingress on Serve and wait until it runs.

        Args:
            options: The server's options.
            check: Called while waiting; what it raises ends the wait.

        Raises:
            InternalError: Replicas cannot start; the message says why.
        """
        serve_application.start_serve()
        check()
        self._has_deployed = True
        serve_application.deploy(application(options, follow_nodes=not self.is_own), check)

    def end(self, controller: Controller, timeout_s: float) -> None:
        """Drain the ingress, then end instances and controller; what fails is logged.

        Args:
            controller: The controller.
            timeout_s: How long all of it may take.
        """
        if not self.is_connected:
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
        if self._reaper is not None:
            self._reaper.kill()
            self._reaper.wait()


def _why(error: BaseException) -> str:
    """Say why Ray cannot be joined; Ray keeps the reason in the cause's cause."""
    # To an address given explicitly Ray sends no token unless it is told to.
    if error.__cause__ is not None and "AuthToken" in str(error.__cause__):
        return (
            "it asks for a token; set RAY_AUTH_MODE=token, and RAY_AUTH_TOKEN or"
            " RAY_AUTH_TOKEN_PATH if the token is not in ~/.ray/auth_token"
        )
    return str(error)
