# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Files that come with a load, for an instance that does not share the controller's disk."""

import json
import shutil
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import psutil
import pytest
import tritonclient.http as triton_http
from ray.cluster_utils import Cluster
from tritonclient.utils import InferenceServerException

from tests.support.server import RunningServer

STORE_BYTES = 100 * 2**20
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
CONFIG = {
    "backend": "python",
    "input": [{"name": "IN", "data_type": "TYPE_FP32", "dims": [1]}],
    "output": [{"name": "WHERE", "data_type": "TYPE_STRING", "dims": [1]}],
}


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    node = {"num_cpus": 1, "object_store_memory": STORE_BYTES}
    started = Cluster(initialize_head=True, head_node_args=node)
    started.add_node(**node)
    yield started
    started.shutdown()


def where(client: triton_http.InferenceServerClient) -> Path:
    """Return where the model's instance has found its files."""
    tensor = triton_http.InferInput("IN", [1], "FP32")
    tensor.set_data_from_numpy(np.zeros(1, np.float32))
    return Path(client.infer("given", [tensor]).as_numpy("WHERE")[0].decode())


def instance() -> psutil.Process:
    nodes = [each for each in psutil.Process().children() if each.name() == "raylet"]
    workers = [worker for node in nodes for worker in node.children(recursive=True)]
    (found,) = [w for w in workers if " ".join(w.cmdline()).startswith("ray::given/1")]
    return found


def test_an_instance_without_the_controllers_files_fetches_them(
    cluster: Cluster, tmp_path: Path
) -> None:
    cache = tmp_path / ".cache"
    server = RunningServer(
        tmp_path,
        f"--ray-address={cluster.address}",
        "--model-control-mode=explicit",
        f"--model-cache-directory={cache}",
    )
    with triton_http.InferenceServerClient(server.http, network_timeout=60) as client:
        client.load_model("given", config=json.dumps(CONFIG), files={"file:1/model.py": MODEL})
        controllers = where(client)
        # As it is on another node.
        shutil.rmtree(controllers)
        victim = instance()
        server.kill(victim)
        for _ in range(10_000):
            try:
                fetched = where(client)
            except InferenceServerException:
                continue
            break
        else:
            raise AssertionError("the instance never came back")
        assert fetched != controllers
        assert fetched.is_relative_to(cache)
        assert (fetched / "1" / "model.py").read_bytes() == MODEL
        client.unload_model("given")
    assert server.terminate() == 0
