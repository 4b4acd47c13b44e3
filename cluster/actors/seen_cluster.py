# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""What a running Ray cluster tells a driver of itself, as plain data."""

from dataclasses import dataclass
from typing import Final

import grpc
import ray
from ray._private.worker import global_worker

from cluster.actors.connection import connected

_ASKED: Final = "/ray.rpc.NodeInfoGcsService/GetAllNodeInfo"
_ASK_TIMEOUT_S: Final = 5.0


@dataclass(frozen=True, slots=True)
class SeenCluster:
    """A cluster.

    Attributes:
        node_count: Nodes that are alive.
        node_address: Of the node that the driver runs on.
        dashboard: host:port of the dashboard; empty without one.
        asks_for_token: Whether it refuses who has none; None where that was not to be learned.
    """

    node_count: int
    node_address: str
    dashboard: str
    asks_for_token: bool | None = None


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
            len(alive), own[0] if own else "127.0.0.1", dashboard, asks_for_token(gcs)
        )


def asks_for_token(gcs_address: str) -> bool | None:
    """Ask a GCS without a token; whether it refuses, or None if it does not understand.

    Variables of this process do not tell: they may be others than those that Ray was started with.
    """
    with grpc.insecure_channel(gcs_address) as channel:
        try:
            channel.unary_unary(_ASKED)(b"", timeout=_ASK_TIMEOUT_S)
        except grpc.RpcError as error:
            # Under Ray's TLS nobody answers clear text.
            is_refused = isinstance(error, grpc.Call) and (
                error.code() is grpc.StatusCode.UNAUTHENTICATED
            )
            return True if is_refused else None
    return False
