# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Ray's autoscaler adds nodes for instances that wait, and removes them when they have left."""

import logging
import re
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import tritonclient.http as triton_http
from ray.autoscaler._private.fake_multi_node.node_provider import FAKE_HEAD_NODE_ID

from tests.integration.conftest import write_add_sub
from tests.support.clients import Load, add_sub_inputs, check_add_sub
from tests.support.gates import takes_minutes
from tests.support.scaled_ray import ScaledRay
from tests.support.server import RunningServer, until

log = logging.getLogger(__name__)

pytestmark = [
    pytest.mark.timeout(600),
    takes_minutes,
]


@pytest.fixture
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ScaledRay]:
    folder = tmp_path_factory.mktemp("scaled")
    started = ScaledRay(folder, {"ingress": "true"}, {"slot": 2}, most=2)
    yield started
    started.shutdown()


@contextmanager
def served(cluster: ScaledRay, repository: Path, *flags: str) -> Iterator[RunningServer]:
    """Run a server whose only ingress is on the head."""
    server = RunningServer(
        repository,
        f"--ray-address={cluster.address}",
        "--model-control-mode=explicit",
        '--ingress-label-selector={"ingress": "true"}',
        *flags,
    )
    yield server
    assert server.terminate() == 0


def write_slotted(repository: Path, name: str, *, instances: int = 1, **placement: str) -> None:
    """Write a model whose instances need a slot each, which the head has none of."""
    write_add_sub(repository, name, instances=instances)
    rows = {"ray_resources": r"{\"slot\": 1}"}
    rows |= {f"placement.{key}": text for key, text in placement.items()}
    with (repository / name / "config.pbtxt").open("a") as config:
        for key, text in rows.items():
            config.write(f'parameters {{ key: "{key}" value {{ string_value: "{text}" }} }}\n')


def load(client: triton_http.InferenceServerClient, name: str) -> None:
    """Load a model that a node has to come for, and wait for it."""
    try:
        client.load_model(name)
    except triton_http.InferenceServerException as error:
        # The node took longer than a load waits for one.
        if "pending" not in str(error):
            raise
    until(lambda: client.is_model_ready(name), "no node has come")


def test_a_node_comes_for_instances_that_wait_and_goes_when_they_have_left(
    cluster: ScaledRay, tmp_path: Path
) -> None:
    write_slotted(tmp_path, "add_sub", instances=2)
    with served(cluster, tmp_path) as server:
        assert cluster.added() == []
        with triton_http.InferenceServerClient(server.http, network_timeout=120) as client:
            load(client, "add_sub")
            (added,) = cluster.added()
            # From the head's ingress over TCP.
            for _ in range(20):
                check_add_sub(client.infer("add_sub", add_sub_inputs(triton_http)))
            with urllib.request.urlopen(f"http://{server.metrics}/metrics", timeout=30) as answer:
                page = answer.read().decode()
            labels = re.escape(f'{{model="add_sub",node="{added}",version="1"}}')
            row = rf"^nv_inference_request_success{labels} (\d+)$"
            assert re.findall(row, page, re.MULTILINE) == ["20"]
            client.unload_model("add_sub")
        until(lambda: not cluster.added(), "the idle node stays")


def test_a_node_comes_for_an_instance_that_waits_in_the_controller(
    cluster: ScaledRay, tmp_path: Path
) -> None:
    # Ray's fake provider counts its nodes.
    coming = f"{FAKE_HEAD_NODE_ID[:-1]}1"
    write_slotted(tmp_path, "add_sub", nodes=coming)
    with (
        served(cluster, tmp_path) as server,
        triton_http.InferenceServerClient(server.http, network_timeout=120) as client,
    ):
        load(client, "add_sub")
        assert cluster.added() == [coming]
        check_add_sub(client.infer("add_sub", add_sub_inputs(triton_http)))
        client.unload_model("add_sub")
        until(lambda: not cluster.added(), "the idle node stays, or another has come")


def test_an_under_used_node_is_emptied_under_load_and_goes(
    cluster: ScaledRay, tmp_path: Path
) -> None:
    for name in ("first", "filler", "busy"):
        write_slotted(tmp_path, name)
    consolidation = ("--consolidate-nodes=true", "--consolidate-after-secs=5")
    with (
        served(cluster, tmp_path, *consolidation) as server,
        triton_http.InferenceServerClient(server.http, network_timeout=120) as client,
    ):
        load(client, "first")
        client.load_model("filler")
        load(client, "busy")
        assert len(cluster.added()) == 2
        loads = [
            Load(server.http, "first", concurrency=2),
            Load(server.grpc, "busy", concurrency=2, protocol="grpc"),
        ]
        client.unload_model("filler")
        until(lambda: len(cluster.added()) == 1, "no node is emptied, or it stays")
        for each in loads:
            each.wait_for(20)
        outcomes = sum((each.stop() for each in loads[1:]), loads[0].stop())
        assert set(outcomes) == {"ok"}
        log.warning("consolidation: %d answers, no errors", outcomes["ok"])
