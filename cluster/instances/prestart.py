# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Asks raylets to start idle workers, in which instances start at once.

This is the raylet's call ``PrestartWorkers``, which Ray's Python API does not offer. A task with
the same runtime environment would leave a worker behind too, but one that Ray gives to tasks only
(``WorkerFitForLease`` in ``src/ray/raylet/worker_pool.cc``).
"""

import logging
from collections.abc import Mapping
from typing import Any, Final

import grpc
import ray
from ray._private.grpc_utils import init_grpc_channel
from ray.core.generated import common_pb2, node_manager_pb2, node_manager_pb2_grpc

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
