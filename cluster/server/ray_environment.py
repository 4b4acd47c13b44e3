# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""What the processes of an embedded Ray find in their environment, and what forks them.

Importing this module imports no Ray: what it reads of the environment has to be there before.
"""

import logging
from collections.abc import MutableMapping
from importlib import import_module
from typing import Final

from backends import compiled_form
from cluster.fork_server.imported import INSTANCES, identifiers_from_kernel
from cluster.fork_server.starting import ForkServer, of_no_job
from cluster.options.parsing import ServerOptions

_log = logging.getLogger(__name__)

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
    # Nor may the agent for runtime environments have started 30 s after the raylet.
    "RAY_agent_register_timeout_ms": "60000",
    # What cannot be installed is said at once; pip and uv try again themselves.
    "RUNTIME_ENV_RETRY_TIMES": "1",
    # So idle workers have done it beforehand.
    "RAY_preload_python_modules": ",".join(INSTANCES),
    # Ray's 15 starves ingress and instances beside any other process of the machine.
    "RAY_worker_niceness": "0",
    # Serve looks ten times a second whether its one application is as it should be.
    "RAY_SERVE_CONTROL_LOOP_INTERVAL_S": "0.25",
}

# What `manta serve` goes on with: Serve above all.
_OF_THE_SERVER: Final = ("cluster.server.server", "cluster.server.ray_cluster")

# What only Ray's dashboard shows: metrics of Ray itself.
WITHOUT_DASHBOARD: Final = {"RAY_enable_metrics_collection": "0"}


def prepare(environment: MutableMapping[str, str], *, dashboard: bool = False) -> None:
    """Tell the processes of an embedded cluster, which inherit this environment, how to run."""
    if not dashboard:
        environment.update(WITHOUT_DASHBOARD)
    niceness = environment.get("RAY_worker_niceness")
    environment.update(RAY_ENVIRONMENT)
    if niceness is not None:
        environment["RAY_worker_niceness"] = niceness
    # ONNX Runtime would keep a database in the home folder and send its maker what it runs.
    environment.setdefault("ORT_DISABLE_TELEMETRY", "1")
    # Processes start as long as the server runs; all are compiled or none.
    if not environment.get(compiled_form.VARIABLE):
        environment[compiled_form.VARIABLE] = compiled_form.choice()


def begun(options: ServerOptions, environment: MutableMapping[str, str]) -> ForkServer | None:
    """Start the fork server of an embedded Ray; None where there shall be none, or cannot be."""
    if options.ray_address or options.no_fork_server:
        return None
    prepare(environment, dashboard=options.dashboard)
    with of_no_job(environment):
        import_module("ray")
    # The fork server needs most of this, too, and then neither imports nor keeps it twice.
    with identifiers_from_kernel():
        for each in _OF_THE_SERVER:
            import_module(each)
    try:
        return ForkServer(environment, is_forked=True, preload=options.fork_server_preload)
    except OSError as error:
        _log.warning("processes are started plainly: there is no fork server: %s", error)
        return None
