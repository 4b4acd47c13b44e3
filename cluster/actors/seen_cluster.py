# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""What a running Ray cluster tells a driver of itself, as plain data."""

from dataclasses import dataclass, field
from typing import Any, Final

import ray
from ray._private.worker import global_worker
from ray.exceptions import RayError

from cluster.actors.connection import asks_for_token, connected
from cluster.actors.controller_client import CONTROLLER_NAME
from cluster.options.parsing import ServerOptions
from deployments.instance.spec import NAMESPACE

_ANSWER_TIMEOUT_S: Final = 15.0


@dataclass(frozen=True, slots=True)
class SeenCluster:
    """A cluster.

    Attributes:
        node_count: Nodes that are alive.
        node_address: Of the node that the driver runs on.
        dashboard: host:port of the dashboard; empty without one.
        asks_for_token: Whether it refuses who has none; None where that was not to be learned.
        options: Of the server that runs on it, secrets included; None without one, or where its
            controller does not answer.
    """

    node_count: int
    node_address: str
    dashboard: str
    asks_for_token: bool | None = None
    options: ServerOptions | None = field(default=None, repr=False)


def see_cluster(address: str) -> SeenCluster:
    """Join a cluster as a driver for a moment.

    Args:
        address: As for ``ray.init``; ``auto`` is the cluster that runs on this machine.

    Raises:
        UnavailableError: There is none.
    """
    with connected(address):
        alive = [node for node in ray.nodes() if node["Alive"]]
        own_id = ray.get_runtime_context().get_node_id()
        own = [node["NodeManagerAddress"] for node in alive if node["NodeID"] == own_id]
        node = global_worker.node
        dashboard = "" if node is None else str(node.address_info.get("webui_url") or "")
        gcs = ray.get_runtime_context().gcs_address
        return SeenCluster(
            len(alive),
            own[0] if own else "127.0.0.1",
            dashboard,
            asks_for_token(gcs),
            _options_of_server(),
        )


def _options_of_server() -> ServerOptions | None:
    try:
        controller: Any = ray.get_actor(CONTROLLER_NAME, namespace=NAMESPACE)
        options: ServerOptions = ray.get(
            controller.server_options.remote(), timeout=_ANSWER_TIMEOUT_S
        )
    except (ValueError, RayError):
        return None
    return options
