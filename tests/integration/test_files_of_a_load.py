# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Files that come with a load, for an instance that does not share the controller's disk."""

import json
import shutil
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import psutil
import pytest
import tritonclient.http as triton_http
from ray.cluster_utils import Cluster
from tritonclient.utils import InferenceServerException

from tests.support.ray_nodes import STORE_BYTES, started_head
from tests.support.server import RunningServer

MODEL = b"""
import numpy as np
import triton_python_backend_utils as pb_utils

class TritonPythonModel:
    def initialize(self, args):
        self.where = np.array([args["model_repository"].encode()], dtype=object)

    def execute(self, requests):
        answer = pb_utils.InferenceResponse([pb_utils.Tensor("WHERE", self.where)])
        return [answer for _ in requests]
"""
# Larger than what nodes do not ask each other for.
WEIGHTS = bytes(range(256)) * 1024
CONFIG = {
    "backend": "python",
    "input": [{"name": "IN", "data_type": "TYPE_FP32", "dims": [1]}],
    "output": [{"name": "WHERE", "data_type": "TYPE_STRING", "dims": [1]}],
}


NODES = ("n1", "n2")


@pytest.fixture
def folders() -> Iterator[dict[str, Path]]:
    """Each node's folder for temporary files; its path is short, for sockets lie in it."""
    with ExitStack() as stack:
        yield {
            node: Path(stack.enter_context(TemporaryDirectory(prefix=f"{node}-"))) for node in NODES
        }


@pytest.fixture
def cluster(folders: dict[str, Path]) -> Iterator[Cluster]:
    first, second = (
        {
            "num_cpus": 1,
            "object_store_memory": STORE_BYTES,
            "resources": {node: 1},
            "env_vars": {"TMPDIR": str(folders[node])},
        }
        for node in NODES
    )
    started = started_head(**first)
    started.add_node(**second)
    yield started
    started.shutdown()


def load(client: triton_http.InferenceServerClient, model: str, on_node: str = "") -> None:
    config: dict[str, object] = dict(CONFIG)
    if on_node:
        needs = {"string_value": json.dumps({on_node: 0.01})}
        config["parameters"] = {"ray_resources": needs}
    files = {"file:1/model.py": MODEL, "file:1/weights": WEIGHTS}
    client.load_model(model, config=json.dumps(config), files=files)


def where(client: triton_http.InferenceServerClient, model: str = "given") -> Path:
    """Return where the model's instance has found its files."""
    tensor = triton_http.InferInput("IN", [1], "FP32")
    tensor.set_data_from_numpy(np.zeros(1, np.float32))
    return Path(client.infer(model, [tensor]).as_numpy("WHERE")[0].decode())


def instance() -> psutil.Process:
    nodes = [each for each in psutil.Process().children() if each.name() == "raylet"]
    workers = [worker for node in nodes for worker in node.children(recursive=True)]
    (found,) = [w for w in workers if " ".join(w.cmdline()).startswith("ray::given/1")]
    return found


@pytest.mark.long
def test_an_instance_on_another_node_fetches_the_files_from_the_controllers(
    cluster: Cluster, folders: dict[str, Path], tmp_path: Path
) -> None:
    server = RunningServer(
        tmp_path, f"--ray-address={cluster.address}", "--model-control-mode=explicit"
    )
    with triton_http.InferenceServerClient(server.http, network_timeout=60) as client:
        load(client, "probe")
        (own,) = (n for n in NODES if where(client, "probe").is_relative_to(folders[n]))
        (other,) = set(NODES) - {own}
        load(client, "given", other)
        controllers = where(client)
        # The nodes of this machine see each other's disks; those of a cluster do not.
        shutil.rmtree(controllers)
        victim = instance()
        server.kill(victim)
        # The process that fetches the files starts meanwhile, and no request waits for it.
        for _ in range(500_000):
            try:
                fetched = where(client)
            except InferenceServerException:
                continue
            break
        else:
            raise AssertionError("the instance never came back")
        assert fetched.is_relative_to(folders[other])
        assert (fetched / "1" / "model.py").read_bytes() == MODEL
        assert (fetched / "1" / "weights").read_bytes() == WEIGHTS
        client.unload_model("given")
    assert server.terminate() == 0
