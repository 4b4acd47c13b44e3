# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Ray's autoscaler adds nodes for instances that wait, and removes them when they have left."""

import os
import re
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest
import tritonclient.http as triton_http

from tests.integration.conftest import write_add_sub
from tests.support.clients import add_sub_inputs, check_add_sub
from tests.support.ray_nodes import until
from tests.support.scaled_ray import ScaledRay
from tests.support.server import RunningServer

pytestmark = [
    pytest.mark.timeout(600),
    pytest.mark.skipif(os.environ.get("MANTA_NODES") != "all", reason="takes minutes"),
]


@pytest.fixture
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ScaledRay]:
    folder = tmp_path_factory.mktemp("scaled")
    started = ScaledRay(folder, {"ingress": "true"}, {"slot": 2}, most=2)
    yield started
    started.shutdown()


def test_a_node_comes_for_instances_that_wait_and_goes_when_they_have_left(
    cluster: ScaledRay, tmp_path: Path
) -> None:
    write_add_sub(tmp_path, "add_sub", instances=2)
    with (tmp_path / "add_sub/config.pbtxt").open("a") as config:
        config.write('parameters { key: "ray_resources" value { string_value: "')
        config.write(r'{\"slot\": 1}" } }')
    server = RunningServer(
        tmp_path,
        f"--ray-address={cluster.address}",
        "--model-control-mode=explicit",
        '--ingress-label-selector={"ingress": "true"}',
    )
    assert cluster.added() == []
    with triton_http.InferenceServerClient(server.http, network_timeout=120) as client:
        with pytest.raises(triton_http.InferenceServerException, match="pending"):
            client.load_model("add_sub")
        until(lambda: client.is_model_ready("add_sub"), "no node has come")
        (added,) = cluster.added()
        # From the head's ingress over TCP.
        for _ in range(20):
            check_add_sub(client.infer("add_sub", add_sub_inputs(triton_http)))
        with urllib.request.urlopen(f"http://{server.metrics}/metrics", timeout=30) as answer:
            page = answer.read().decode()
        labels = re.escape(f'{{model="add_sub",node="{added}",version="1"}}')
        (count,) = re.findall(rf"^nv_inference_request_success{labels} (\d+)$", page, re.MULTILINE)
        assert count == "20"
        client.unload_model("add_sub")
    until(lambda: not cluster.added(), "the idle node stays")
    assert server.terminate() == 0
