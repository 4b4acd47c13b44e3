# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""The response cache in front of a real model: local here, Redis where there is a redis-server."""

import shutil
import socket
import subprocess
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import redis
import tritonclient.grpc as triton_grpc
import tritonclient.http as triton_http

from tests.support.server import RunningServer

COUNTING = """
import numpy as np
import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def initialize(self, args):
        self.count = 0

    def execute(self, requests):
        responses = []
        for request in requests:
            self.count += 1
            responses.append(pb_utils.InferenceResponse(output_tensors=[
                pb_utils.Tensor("COUNT", np.array([self.count], np.int32))]))
        return responses
"""
CONFIG = """
backend: "python"
input [ { name: "X" data_type: TYPE_INT32 dims: [ -1 ] } ]
output [ { name: "COUNT" data_type: TYPE_INT32 dims: [ 1 ] } ]
response_cache { enable: true }
"""


def _write(repository: Path) -> Path:
    version = repository / "counting" / "1"
    version.mkdir(parents=True)
    (version / "model.py").write_text(COUNTING)
    (repository / "counting" / "config.pbtxt").write_text(CONFIG)
    return repository


def _count(address: str, values: list[int], protocol: str = "http") -> int:
    module = triton_http if protocol == "http" else triton_grpc
    with module.InferenceServerClient(address) as client:
        x = module.InferInput("X", [len(values)], "INT32")
        x.set_data_from_numpy(np.array(values, np.int32))
        return int(client.infer("counting", [x]).as_numpy("COUNT")[0])


def _metrics(server: RunningServer) -> str:
    with urllib.request.urlopen(f"http://{server.metrics}/metrics") as page:
        return str(page.read().decode())


@pytest.fixture(scope="module")
def redis_port() -> Iterator[int]:
    program = shutil.which("redis-server")
    if program is None:
        pytest.skip("redis-server is not installed (apt-get install redis-server)")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port: int = free.getsockname()[1]
    command = [
        program,
        "--port",
        str(port),
        "--bind",
        "127.0.0.1",
        "--save",
        "",
        "--daemonize",
        "no",
    ]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert any("Ready to accept connections" in line for line in process.stdout)
        yield port
        process.terminate()


def test_a_repeated_request_is_answered_without_the_model_until_it_is_loaded_anew(
    tmp_path: Path,
) -> None:
    server = RunningServer(
        _write(tmp_path),
        "--model-control-mode=explicit",
        "--load-model=*",
        "--cache-config=local,size=1048576",
    )
    try:
        assert _count(server.http, [1, 2]) == 1
        assert _count(server.http, [1, 2]) == 1
        assert _count(server.grpc, [1, 2], "grpc") == 1
        assert _count(server.http, [2, 1]) == 2
        with triton_http.InferenceServerClient(server.http) as client:
            stats = client.get_inference_statistics("counting")["model_stats"][0]
            assert stats["inference_stats"]["cache_hit"]["count"] == 2
            assert stats["inference_stats"]["cache_miss"]["count"] == 2
            assert stats["inference_stats"]["success"]["count"] == 4
            assert (stats["inference_count"], stats["execution_count"]) == (2, 2)
            metrics = _metrics(server)
            assert 'nv_cache_num_hits_per_model{model="counting",version="1"} 2' in metrics
            assert "nv_cache_num_entries 2" in metrics
            (tmp_path / "counting/1/model.py").write_text(COUNTING.replace("= 0", "= 100"))
            client.load_model("counting")
        assert _count(server.http, [1, 2]) == 101
    finally:
        assert server.terminate() == 0


def test_replicas_share_answers_in_redis_and_serve_on_without_it(
    tmp_path: Path, redis_port: int
) -> None:
    server = RunningServer(
        _write(tmp_path),
        "--ingress-per-node=2",
        "--cache-config=redis,host=127.0.0.1",
        f"--cache-config=redis,port={redis_port}",
    )
    try:
        first = _count(server.http, [1, 2])
        store = redis.Redis(port=redis_port)
        # The entry is stored after the answer has left.
        assert any(store.dbsize() == 1 for _ in range(10_000))
        # Connections are spread over both replicas; one answer serves them all.
        assert {_count(server.http, [1, 2]) for _ in range(20)} == {first}
        store.shutdown(nosave=True)
        store.close()
        assert _count(server.http, [1, 2]) == first + 1
    finally:
        assert server.terminate() == 0
