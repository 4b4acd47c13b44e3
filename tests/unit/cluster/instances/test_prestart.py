# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""What raylets are asked for, over Ray's own messages; one that does not answer is left out."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace
from typing import Any

import grpc
import pytest
import ray
from ray.core.generated import node_manager_pb2, node_manager_pb2_grpc

from cluster.instances.prestart import prestart_workers

messages: Any = node_manager_pb2
services: Any = node_manager_pb2_grpc


class Raylet(services.NodeManagerServiceServicer):  # type: ignore[misc]  # Ray's has no types
    def __init__(self) -> None:
        self.requests: list[Any] = []

    def PrestartWorkers(self, request: Any, _: Any) -> Any:  # noqa: N802 - Ray's name
        self.requests.append(request)
        return messages.PrestartWorkersReply()


@pytest.fixture
def raylet(monkeypatch: pytest.MonkeyPatch) -> Iterator[Raylet]:
    monkeypatch.setenv("RAY_AUTH_MODE", "disabled")
    served = Raylet()
    server = grpc.server(ThreadPoolExecutor(1))
    services.add_NodeManagerServiceServicer_to_server(served, server)
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()

    def node(name: str, port: int, *, alive: bool = True) -> dict[str, Any]:
        at = {"NodeManagerAddress": "127.0.0.1", "NodeManagerPort": port}
        return {"NodeID": name, "Alive": alive, **at}

    # Nothing listens on port 1.
    nodes = [node("a", port), node("mute", 1), node("dead", port, alive=False), node("b", port)]
    monkeypatch.setattr(ray, "nodes", lambda: nodes)
    context = SimpleNamespace(get_runtime_env_string=lambda: '{"env_vars": {"A": "1"}}')
    monkeypatch.setattr(ray, "get_runtime_context", lambda: context)
    yield served
    server.stop(0).wait()


def test_a_raylet_is_asked_for_workers_of_the_controllers_environment(raylet: Raylet) -> None:
    assert prestart_workers({"a": 3}, 600) == {"a": 3}
    (request,) = raylet.requests
    assert request.num_workers == 3
    assert request.keep_alive_duration_secs == 600
    assert request.runtime_env_info.serialized_runtime_env == '{"env_vars": {"A": "1"}}'


def test_nodes_that_do_not_answer_or_are_gone_are_left_out(raylet: Raylet) -> None:
    assert prestart_workers({"a": 1, "mute": 1, "dead": 1, "unknown": 1}, 600) == {"a": 1}
    assert len(raylet.requests) == 1
