# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Puts the ingress application on Serve, looks whether it is there, and takes it off again.

Serve's own calls look once a second whether they are done; these look twenty times.
"""

import asyncio
import contextlib
import logging
import time
from collections.abc import Callable
from typing import Any, Final

import ray
from ray import serve
from ray.exceptions import RayError
from ray.serve.exceptions import RayServeException

from backends.api.errors import InternalError
from cluster.actors.serve_controller import find_serve_controller
from cluster.placement.nodes import read_draining
from cluster.threads import GCS

logger = logging.getLogger(__name__)

APPLICATION_NAME: Final = "manta"
INGRESS_NAME: Final = "Ingress"
# Of what every node has 1 of, whatever its name. Serve's max_replicas_per_node uses it too, with
# one name for all builds: the replicas of a new one would have no place before the old ones stop.
PER_NODE_RESOURCE: Final = "node:__internal_implicit_resource_manta-ingress-"

_POLL_S: Final = 0.05
_ANSWER_TIMEOUT_S: Final = 10.0
# What takes longer than the replicas may is stuck.
_DELETE_TIMEOUT_S: Final = 120.0
_UPDATING_TIMEOUT_S: Final = 2.0
_RUNNING_STATES: Final = ("RUNNING", "PENDING_MIGRATION")


def is_running() -> bool:
    """Whether Serve runs on this Ray cluster."""
    return find_serve_controller() is not None


def start_serve() -> None:
    """Start Serve, without proxies, unless it runs."""
    serve.start(proxy_location="Disabled")


def deploy(application: serve.Application, check: Callable[[], None]) -> None:
    """Deploy the application under `APPLICATION_NAME` and wait until it runs.

    Args:
        application: What `cluster.server.app.application` made.
        check: Called while waiting; what it raises ends the wait.

    Raises:
        InternalError: Replicas cannot start; the message says why.
    """
    serve.run_many(
        [serve.RunTarget(application, name=APPLICATION_NAME, route_prefix=None)],
        wait_for_ingress_deployment_creation=False,
        wait_for_applications_running=False,
    )
    while True:
        found = serve.status().applications.get(APPLICATION_NAME)
        if found is not None and found.status == "RUNNING":
            return
        if found is not None and found.status == "DEPLOY_FAILED":
            reasons = [found.message, *(each.message for each in found.deployments.values())]
            raise InternalError("the ingress cannot start: " + " ".join(filter(None, reasons)))
        check()
        time.sleep(_POLL_S)


def delete(*, and_serve: bool, timeout_s: float = _DELETE_TIMEOUT_S) -> None:
    """Drain and end the ingress; nothing happens when it is not there.

    Args:
        and_serve: Whether to end Serve as well, unless other applications run on it.
        timeout_s: How long replicas are waited for.

    Raises:
        TimeoutError: Replicas do not end.
    """
    with contextlib.suppress(RayServeException):
        serve.delete(APPLICATION_NAME, _blocking=False)
        deadline_s = time.monotonic() + timeout_s
        while APPLICATION_NAME in (applications := serve.status().applications):
            if time.monotonic() > deadline_s:
                raise TimeoutError("the ingress replicas do not end")
            time.sleep(_POLL_S)
        if and_serve and not applications:
            serve.shutdown()


def is_deployed() -> bool:
    """Whether any application on Serve has the ingress, whatever the application's name.

    It has it too while Serve builds the application anew from another configuration, and when that
    has failed: the replicas of before serve on, though details of the application show none.

    Ray: python/ray/serve/_private/application_state.py _clear_target_state_and_store_config

    Raises:
        RayError: Serve does not answer.
    """
    actor = find_serve_controller()
    if actor is None:
        return False
    # serve.status() holds on to the Serve it saw first, which may have been shut down since.
    deployments = ray.get(actor.list_deployment_ids.remote(), timeout=_ANSWER_TIMEOUT_S)
    return any(each.name == INGRESS_NAME for each in deployments)


def ingress_build() -> str:
    """Return the build of the replicas that Serve starts; empty when it has no such application.

    Raises:
        RayError: Serve does not answer.
    """
    actor = find_serve_controller()
    if actor is None:
        return ""
    details = ray.get(actor.get_serve_instance_details.remote(), timeout=_ANSWER_TIMEOUT_S)
    application = details["applications"].get(APPLICATION_NAME, {})
    deployment = application.get("deployments", {}).get(INGRESS_NAME, {})
    options = deployment.get("deployment_config", {}).get("ray_actor_options") or {}
    resources = options.get("resources") or {}
    found = (name for name in resources if name.startswith(PER_NODE_RESOURCE))
    return next(found, "").removeprefix(PER_NODE_RESOURCE)


async def is_being_replaced() -> bool:
    """Whether Serve is replacing replicas by those of another build; asked by a replica.

    False also when Serve does not answer.
    """
    _, deployment = await _own_details()
    return bool(deployment.get("status") == "UPDATING")


async def has_run() -> bool:
    """Whether a replica that was started since the last deployment runs; asked by a replica.

    False also when Serve does not answer.
    """
    application, deployment = await _own_details()
    return has_run_since_deployed(application, deployment)


def has_run_since_deployed(application: dict[str, Any], deployment: dict[str, Any]) -> bool:
    """Whether details of Serve show a replica that started after the last deployment and runs.

    Args:
        application: An element of ``applications`` in Serve's details.
        deployment: One of its ``deployments``.
    """
    return any(
        replica["state"] in _RUNNING_STATES
        and replica["start_time_s"] > application["last_deployed_time_s"]
        for replica in deployment.get("replicas", ())
    )


async def _own_details() -> tuple[dict[str, Any], dict[str, Any]]:
    """Return what Serve says of the application and of the ingress that the caller belongs to.

    Both are empty when Serve does not answer.
    """
    try:
        async with asyncio.timeout(_UPDATING_TIMEOUT_S):
            actor = await GCS.run(find_serve_controller)
            if actor is None:
                return {}, {}
            details = await actor.get_serve_instance_details.remote()
        # An application that is being deleted has lost its deployment, or is not listed any more.
        application = details["applications"].get(serve.get_replica_context().app_name, {})
        return application, application.get("deployments", {}).get(INGRESS_NAME, {})
    except (TimeoutError, RayError, RayServeException) as error:
        logger.warning("Serve does not say what it does with its replicas: %r", error)
        return {}, {}


async def is_node_draining() -> bool:
    """Whether this process's node drains; False also when Ray does not answer."""
    try:
        node_id = ray.get_runtime_context().get_node_id()
        async with asyncio.timeout(_UPDATING_TIMEOUT_S):
            return node_id in await read_draining()
    except Exception as error:
        # Ray's client raises what it likes.
        logger.warning("Ray does not say whether the node drains: %r", error)
        return False
