# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Finding the cluster's controller, creating it, and waiting for its end."""

import contextlib
import time
from typing import Any

import ray

from cluster.actors.controller_client import CONTROLLER_NAME
from cluster.controller.controller import ModelController
from cluster.controller.ownership import Owner
from cluster.options.parsing import ServerOptions
from deployments.instance.spec import NAMESPACE

# One long poll per router, and every load of a client.
_MAX_CONCURRENCY = 10_000
_KILL_TIMEOUT_S = 5.0
_KILL_POLL_S = 0.02
_NOBODY = Owner()
# Only the head has it. A controller elsewhere would keep a node from being removed, and would end
# with it; without the head there is nobody who could start it anyway.
_HEAD = {"node:__internal_head__": 0.001}


def wait_gone(timeout_s: float) -> None:
    """Wait until an ending controller's name is free, else a new one would be taken for it."""
    deadline_s = time.monotonic() + timeout_s
    with contextlib.suppress(ValueError):
        while time.monotonic() < deadline_s:
            ray.get_actor(CONTROLLER_NAME, namespace=NAMESPACE)
            time.sleep(_KILL_POLL_S)


def get_or_create_controller(options: ServerOptions, owner: Owner = _NOBODY) -> Any:
    """Return the handle of the cluster's controller, created when there is none.

    A controller that runs with other options is replaced; the new one adopts its instances, so that
    what has not changed serves on.

    Args:
        options: The server's options.
        owner: Whom the server belongs to.
    """
    try:
        handle: Any = ray.get_actor(CONTROLLER_NAME, namespace=NAMESPACE)
        if ray.get(handle.server_options.remote()) == options:
            return handle
        ray.kill(handle, no_restart=True)
        wait_gone(_KILL_TIMEOUT_S)
    except (ValueError, ray.exceptions.RayActorError):
        pass
    actor = ray.remote(ModelController).options(
        name=CONTROLLER_NAME,
        namespace=NAMESPACE,
        lifetime="detached",
        get_if_exists=True,
        max_restarts=-1,
        max_task_retries=0,
        max_concurrency=_MAX_CONCURRENCY,
        num_cpus=0,
        resources=_HEAD,
    )
    return actor.remote(options, owner)
