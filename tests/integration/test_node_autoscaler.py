# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Ray's autoscaler adds nodes for instances that wait, and removes them when they have left."""

import json
import logging
import os
import re
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import tritonclient.http as triton_http
from ray import _raylet
from ray._private.services import get_node_ip_address
from ray._private.state import GlobalState
from ray.autoscaler._private.fake_multi_node.node_provider import (
    FAKE_HEAD_NODE_ID,
    FakeMultiNodeProvider,
)

from tests.integration.conftest import write_add_sub
from tests.support.clients import Load, add_sub_inputs, check_add_sub
from tests.support.free_ports import free_ports
from tests.support.gates import takes_minutes
from tests.support.ray_nodes import STORE_BYTES, kill_tree
from tests.support.server import ROOT, RunningServer, until

# A Ray on one machine whose autoscaler adds and removes nodes, by Ray's fake node provider.
# `ray.cluster_utils.AutoscalingCluster` does the same, but begins and ends with `ray stop
# --force`, which ends every Ray of the machine.

_NOTHING_TO_DO = (
    "initialization",
    "setup",
    "head_setup",
    "worker_setup",
    "head_start_ray",
    "worker_start_ray",
)
_IDLE_S = 6.0
_ENVIRONMENT = {
    "AUTOSCALER_UPDATE_INTERVAL_S": "1",
    "RAY_FAKE_CLUSTER": "1",
    "RAY_enable_autoscaler_v2": "1",
    "RAY_CLOUD_INSTANCE_ID": FAKE_HEAD_NODE_ID,
    "RAY_OVERRIDE_NODE_ID_FOR_TESTING": FAKE_HEAD_NODE_ID,
    # Else the nodes ask for the token of the machine, if it has one.
    "RAY_AUTH_MODE": "disabled",
}


class ScaledRay:
    """A head, and nodes that come when something waits for them and go when they are idle.

    Args:
        folder: For the configuration and Ray's own files.
        labels: The head's labels.
        resources: What each further node offers.
        most: How many of these there may be.
    """

    def __init__(
        self, folder: Path, labels: dict[str, str], resources: dict[str, float], most: int
    ) -> None:
        ports = free_ports(2)
        self.address = f"{get_node_ip_address()}:{ports.first}"
        config = folder / "autoscaling.json"
        config.write_text(json.dumps(self._config(resources, most)))
        self._log = (folder / "ray.log").open("wb")
        self._process = subprocess.Popen(
            [
                *(sys.executable, "-m", "ray.scripts.scripts", "start", "--head", "--block"),
                f"--port={self.address.rpartition(':')[2]}",
                f"--autoscaling-config={config}",
                "--num-cpus=2",
                f"--object-store-memory={STORE_BYTES}",
                f"--labels={','.join(f'{key}={value}' for key, value in labels.items())}",
                "--dashboard-agent-listen-port=0",
                f"--ray-client-server-port={ports.last}",
                *("--min-worker-port=0", "--max-worker-port=0"),
                *("--include-dashboard=false", "--disable-usage-stats"),
            ],
            stdout=self._log,
            stderr=subprocess.STDOUT,
            env=os.environ | _ENVIRONMENT | {"PYTHONPATH": str(ROOT)},
        )
        self._state = GlobalState()
        gcs: Any = _raylet
        self._state._initialize_global_state(
            gcs.GcsClientOptions.create(
                self.address, None, allow_cluster_id_nil=True, fetch_cluster_id_if_nil=False
            )
        )
        until(self._has_head, "the head has not started")

    def _config(self, resources: dict[str, float], most: int) -> dict[str, Any]:
        provider = {
            # Ray's wheel lacks the defaults of the type that has a name.
            "type": "external",
            "module": f"{FakeMultiNodeProvider.__module__}.{FakeMultiNodeProvider.__qualname__}",
            # All nodes have the same address.
            "use_node_id_as_ip": True,
            "disable_node_updaters": True,
            "disable_launch_config_check": True,
            "launch_multiple": True,
            "head_node_id": FAKE_HEAD_NODE_ID,
            "gcs_address": self.address,
        }
        head = {"resources": {"CPU": 2}, "node_config": {}, "max_workers": 0}
        offers = {"CPU": 1, "object_store_memory": STORE_BYTES, **resources}
        holder = {"resources": offers, "node_config": {}, "min_workers": 0, "max_workers": most}
        return {
            "cluster_name": "fake",
            "provider": provider,
            "head_node_type": "ray.head.default",
            "available_node_types": {"ray.head.default": head, "holder": holder},
            "max_workers": most,
            "idle_timeout_minutes": _IDLE_S / 60,
            "upscaling_speed": 1.0,
            "auth": {},
            "docker": {},
            "file_mounts": {},
            "file_mounts_sync_continuously": False,
            **{key: [] for key in ("cluster_synced_files", "rsync_exclude", "rsync_filter")},
            **{f"{each}_commands": [] for each in _NOTHING_TO_DO},
        }

    def _has_head(self) -> bool:
        assert self._process.poll() is None, Path(self._log.name).read_text()
        try:
            return bool(self._state.node_table())
        except Exception:
            return False

    def added(self) -> list[str]:
        """Return the ids of the live nodes without the head."""
        rows = self._state.node_table()
        alive = [str(row["NodeID"]) for row in rows if row["Alive"]]
        return [node_id for node_id in alive if node_id != FAKE_HEAD_NODE_ID]

    def shutdown(self) -> None:
        """End all nodes."""
        kill_tree(self._process)
        self._log.close()


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
