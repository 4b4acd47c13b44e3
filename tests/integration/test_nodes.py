# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Nodes of a real Ray that come, are drained, deleted and lost while clients send all they can.

Each test but the first leaves one node, that has all instances of the busy model, to the next.
"""

import json
import logging
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import tritonclient.http as triton_http

from tests.faults.models import BUSY, Shape, config_of_round, write_model
from tests.integration import test_autoscaling as autoscaling
from tests.support.busy_clients import LOST, BusyClients, failures
from tests.support.gates import takes_minutes
from tests.support.model_folders import write_folder
from tests.support.ray_nodes import RayNode, RayNodes
from tests.support.server import RunningServer, until

log = logging.getLogger(__name__)

CLIENTS = 4
INSTANCES = 2
DEADLINE_S = 120
# What Kubernetes gives a pod.
GRACE_S = 30
NO_INSTANCE = re.compile("has had no instance|no instance that answers|no available versions")
# A node has room for these instances of the busy model, twice for a reload, and of the one that
# scales.
ROOM = {"slot": 2.0 * INSTANCES, "seat": 3.0}
MOST = 2 * int(ROOM["seat"])
INSTANCE, SCALED = f"{BUSY}/1#", "sleeper/1#"
INGRESS = "ray::ServeReplica:manta:Ingress"

pytestmark = pytest.mark.timeout(600)


@pytest.fixture(scope="module")
def nodes() -> Iterator[RayNodes]:
    """A head; Ray takes half a minute to miss a dead node unless told to look more often."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RAY_health_check_initial_delay_ms", "500")
        patch.setenv("RAY_health_check_period_ms", "500")
        patch.setenv("RAY_health_check_failure_threshold", "3")
        started = RayNodes()
        yield started
        started.shutdown()


@pytest.fixture(scope="module")
def server(nodes: RayNodes, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    """A server with a model whose files came with the load, so that nodes fetch them."""
    repository = tmp_path_factory.mktemp("nodes")
    write_scaled(repository)
    for name in ("a", "b"):
        nodes.add(name, resources=ROOM, drain_s=DEADLINE_S)
    running = RunningServer(
        repository,
        f"--ray-address={nodes.address}",
        "--model-control-mode=explicit",
        "--load-model=sleeper",
        "--rate-limit=execution_count",
        "--exit-timeout-secs=10",
    )
    load_busy(running, repository, "pack")
    yield running
    assert running.terminate() == 0


def load_busy(server: RunningServer, folder: Path, strategy: str) -> None:
    """Load the busy model with its files; its instances on a node share what is limited there."""
    if not (folder / BUSY).exists():
        write_model(folder, BUSY)
    source = (folder / BUSY / "1/model.py").read_bytes()
    config = config_of_round(0, Shape(execution_s=0.05))
    limits = {"resources": [{"name": "share", "count": 1}]}
    config["instance_group"] = [{"kind": "KIND_CPU", "count": INSTANCES, "rate_limiter": limits}]
    placement = {"placement.strategy": strategy, "ray_resources": '{"slot": 1}'}
    assert isinstance(config["parameters"], dict)
    config["parameters"] |= {key: {"string_value": text} for key, text in placement.items()}
    with triton_http.InferenceServerClient(server.http, network_timeout=120) as client:
        client.load_model(BUSY, config=json.dumps(config), files={"file:1/model.py": source})


def write_scaled(repository: Path) -> None:
    """Write a model that has from none to as many instances as two nodes have room for."""
    rows = {
        "autoscaling.min_instances": 0,
        "autoscaling.max_instances": MOST,
        "autoscaling.target_ongoing_requests": 1.5,
        "autoscaling.upscale_delay_s": 1,
        "autoscaling.downscale_delay_s": 2,
        "autoscaling.scale_to_zero_after_s": 2,
        "ray_resources": '{\\"seat\\": 1}',
    }
    head, _, _ = autoscaling.CONFIG.partition("parameters")
    config = head + "".join(
        f'parameters {{ key: "{key}" value {{ string_value: "{value}" }} }}\n'
        for key, value in rows.items()
    )
    write_folder(repository, "sleeper", config, autoscaling.SLEEPER)


@contextmanager
def busy(server: RunningServer) -> Iterator[BusyClients]:
    clients = BusyClients(server.http, server.grpc, BUSY, concurrency=CLIENTS, patience_s=60)
    try:
        clients.wait_warm(5, 120)
        yield clients
    finally:
        clients.stop()


def node_in_use(nodes: RayNodes) -> RayNode:
    """Return the node that has all instances of the busy model."""
    (found,) = [node for node in nodes.all() if node.workers(INSTANCE)]
    assert len(found.workers(INSTANCE)) == INSTANCES
    return found


def only_node(nodes: RayNodes) -> RayNode:
    """Return the node that has all instances of the busy model, once there is no other."""
    found = node_in_use(nodes)
    others = [node for node in nodes.all() if node is not found]
    for node in others:
        nodes.drain(node, DEADLINE_S)
    until(lambda: all(node.is_gone for node in others), "the others are not empty", DEADLINE_S)
    return found


def fresh_node(nodes: RayNodes, name: str, drain_s: int = DEADLINE_S) -> RayNode:
    """Start a node, and wait until it has an ingress."""
    node = nodes.add(name, resources=ROOM, drain_s=drain_s)
    until(lambda: node.workers(INGRESS), "the new node has no ingress")
    return node


def has_served(clients: BusyClients, node: RayNode) -> bool:
    """Whether clients have had answers from all instances on a node."""
    pids = {each.pid for each in node.workers(INSTANCE)}
    return len(pids) == INSTANCES and pids <= set(clients.answered_at_s)


@pytest.mark.long
def test_instances_follow_a_tenfold_step_over_both_nodes_and_down_to_none(
    nodes: RayNodes, server: RunningServer
) -> None:
    def is_at(count: int) -> bool:
        return autoscaling.gauges(server) == (count, count)

    one = autoscaling.Clients(server.grpc, 1)
    until(lambda: is_at(1) and one.answers >= 20, "the load does not begin")
    more = autoscaling.Clients(server.grpc, 9)
    until(lambda: is_at(MOST), "instances do not follow the load")
    assert [len(node.workers(SCALED)) for node in nodes.all()] == [MOST // 2] * 2
    more.end()
    until(lambda: is_at(1), "instances do not leave with the load")
    one.end()
    until(lambda: is_at(0), "the last instance stays")
    until(lambda: not any(node.workers(SCALED) for node in nodes.all()), "processes stay")
    assert one.faults + more.faults == []

    outcomes: list[str] = []
    everybody = threading.Barrier(100)

    def ask_first(number: int) -> None:
        with autoscaling.triton_grpc.InferenceServerClient(server.grpc) as client:
            everybody.wait()
            outcomes.append(autoscaling.ask(client, number))

    threads = [threading.Thread(target=ask_first, args=(number,)) for number in range(100)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert outcomes == [""] * 100


def test_a_node_that_drains_under_load_is_empty_before_its_deadline(
    nodes: RayNodes, server: RunningServer
) -> None:
    leaving = node_in_use(nodes)
    (staying,) = [node for node in nodes.all() if node is not leaving]
    with busy(server) as clients:
        nodes.drain(leaving, DEADLINE_S)
        until(lambda: len(staying.workers(INSTANCE)) == INSTANCES, "nothing starts elsewhere")
        until(lambda: has_served(clients, staying), "what has started serves nobody")
        until(lambda: leaving.is_gone, "the node is not empty", DEADLINE_S)
        outcomes = clients.stop()
    assert not failures(outcomes)


@takes_minutes
def test_a_node_whose_pod_is_deleted_leaves_early_and_costs_nothing(
    nodes: RayNodes, server: RunningServer
) -> None:
    leaving, staying = only_node(nodes), fresh_node(nodes, "c")
    with busy(server) as clients:
        leaving.sigterm()
        until(lambda: leaving.is_gone, "the node is not empty", DEADLINE_S)
        until(lambda: has_served(clients, staying), "nothing starts elsewhere")
        outcomes = clients.stop()
    assert not failures(outcomes)
    leaving.process.wait(60)


@takes_minutes
def test_a_pod_with_half_a_minute_to_end_leaves_no_request_without_an_end(
    nodes: RayNodes, server: RunningServer
) -> None:
    before, leaving = only_node(nodes), fresh_node(nodes, "short", GRACE_S)
    nodes.drain(before, DEADLINE_S)
    until(lambda: before.is_gone, "the node is not empty", DEADLINE_S)
    assert node_in_use(nodes) is leaving
    staying = fresh_node(nodes, "e")
    with busy(server) as clients:
        leaving.sigterm()
        until(lambda: leaving.is_gone, "the node is there after its time", DEADLINE_S)
        until(lambda: has_served(clients, staying), "nothing starts elsewhere")
        outcomes = clients.stop()
    failed = failures(outcomes)
    log.warning("half a minute: %d requests, %d failed", len(outcomes), failed.total())
    # Where models take longer to load there is no instance for a while, and no answer is wrong.
    assert all(NO_INSTANCE.search(detail) for _, _, detail in failed), failed
    leaving.process.wait(60)


@takes_minutes
def test_a_killed_node_costs_each_client_one_request_at_most(
    nodes: RayNodes, server: RunningServer, tmp_path: Path
) -> None:
    lost, staying = only_node(nodes), fresh_node(nodes, "d")
    load_busy(server, tmp_path, "spread")
    until(lambda: len(lost.workers(INSTANCE)) == 1, "two instances stay on one node")
    assert len(staying.workers(INSTANCE)) == 1
    with busy(server) as clients:
        lost.kill()
        until(lambda: has_served(clients, staying), "nothing starts elsewhere")
        outcomes = clients.stop()
    assert not failures(outcomes, LOST)
    cut_off = sum(each.kind == LOST for each in outcomes)
    log.warning("killed node: %d requests, %d cut off", len(outcomes), cut_off)
    assert cut_off <= 2 * CLIENTS
