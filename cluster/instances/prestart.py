# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Asks Ray for what instances will need: nodes, and idle workers, in which they start at once.

For workers this is the raylet's call ``PrestartWorkers``, which Ray's Python API does not offer. A
task with the same runtime environment would leave a worker behind too, but one that Ray gives to
tasks only (``WorkerFitForLease`` in ``src/ray/raylet/worker_pool.cc``).
"""

import hashlib
import logging
from collections.abc import Collection, Mapping
from typing import Any, Final

import grpc
import ray
from ray._private.grpc_utils import init_grpc_channel
from ray.core.generated import common_pb2, node_manager_pb2, node_manager_pb2_grpc

from cluster.actors.placement_groups import ask_for_node, withdraw_node
from cluster.placement.node_requests import NodeRequest

_log = logging.getLogger(__name__)

# Ray's generated modules have no types.
_messages: Final[Any] = node_manager_pb2
_common: Final[Any] = common_pb2
# The raylet answers before the processes have started.
_TIMEOUT_S: Final = 5.0


def prestart_workers(counts: Mapping[str, int], keep_s: int) -> Mapping[str, int]:
    """Ask raylets for idle workers; not on an event loop.

    Args:
        counts: By node id: how many.
        keep_s: How long they are kept though the node has no CPU for them.

    Returns:
        What was asked for in fact; nodes that do not answer are left out.
    """
    # The environment that instances inherit which have none of their own.
    environment: str = ray.get_runtime_context().get_runtime_env_string()
    addresses = {
        node["NodeID"]: f"{node['NodeManagerAddress']}:{node['NodeManagerPort']}"
        for node in ray.nodes()
        if node["NodeID"] in counts and node["Alive"]
    }
    asked = {}
    for node_id, address in addresses.items():
        request = _messages.PrestartWorkersRequest(
            language=_common.PYTHON,
            keep_alive_duration_secs=keep_s,
            num_workers=counts[node_id],
        )
        request.runtime_env_info.serialized_runtime_env = environment
        try:
            _ask(address, request)
        except grpc.RpcError as error:
            _log.info("node %s starts no workers beforehand: %s", node_id, error)
            continue
        asked[node_id] = counts[node_id]
    return asked


def _ask(address: str, request: Any) -> None:
    channel: Any = init_grpc_channel(address)
    with channel:
        stub: Any = node_manager_pb2_grpc.NodeManagerServiceStub(channel)
        stub.PrestartWorkers(request, timeout=_TIMEOUT_S)


class RequestedNodes:
    """The nodes that one controller asks for.

    What an earlier controller has asked for is removed with the groups of instances that are gone.
    """

    def __init__(self) -> None:
        self._held: set[NodeRequest] = set()

    def become(self, requests: Collection[NodeRequest]) -> None:
        """Ask for these nodes and for no others; blocks.

        Raises:
            RayError: Ray cannot be reached; a second call goes on.
        """
        for request in self._held.difference(requests):
            withdraw_node(_key(request))
            self._held.discard(request)
        for request in set(requests) - self._held:
            ask_for_node(_key(request), dict(request.shape.resources), request.label_selector)
            self._held.add(request)


def _key(request: NodeRequest) -> str:
    text = f"{request.shape} {sorted(request.other_than)}"
    return hashlib.sha256(text.encode()).hexdigest()[:16]
