# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""The response cache in front of a real model: local here, Redis where there is a redis-server."""

import re
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import redis
import tritonclient.grpc as triton_grpc
import tritonclient.http as triton_http

from tests.support.model_folders import write_folder
from tests.support.server import RunningServer, until
from tests.support.shared_server import brought

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
CALLING = """
import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def execute(self, requests):
        return [self.call(request) for request in requests]

    def call(self, request):
        called = pb_utils.InferenceRequest(
            model_name="inner", requested_output_names=["COUNT"], inputs=request.inputs()).exec()
        return pb_utils.InferenceResponse(output_tensors=called.output_tensors())
"""
TENSORS = """
input [ { name: "X" data_type: TYPE_INT32 dims: [ -1 ] } ]
output [ { name: "COUNT" data_type: TYPE_INT32 dims: [ 1 ] } ]
"""
CACHED = "response_cache { enable: true }"
STEP = """
platform: "ensemble"
ensemble_scheduling { step [ { model_name: "%s" model_version: -1
  input_map { key: "X" value: "X" } output_map { key: "COUNT" value: "COUNT" } } ] }
"""


def _model(repository: Path, name: str, config: str, code: str = "") -> None:
    backend = ' backend: "python"' if code else ""
    write_folder(repository, name, TENSORS + config + backend, code)


def _write(repository: Path) -> Path:
    _model(repository, "counted", CACHED, COUNTING)
    return repository


def _count(address: str, values: list[int], protocol: str = "http", model: str = "counted") -> int:
    module = triton_http if protocol == "http" else triton_grpc
    with module.InferenceServerClient(address) as client:
        x = module.InferInput("X", [len(values)], "INT32")
        x.set_data_from_numpy(np.array(values, np.int32))
        return int(client.infer(model, [x]).as_numpy("COUNT")[0])


def _metrics(server: RunningServer) -> str:
    with urllib.request.urlopen(f"http://{server.metrics}/metrics") as page:
        return str(page.read().decode())


@pytest.fixture(scope="module")
def repository(tmp_path_factory: pytest.TempPathFactory) -> Path:
    repository = _write(tmp_path_factory.mktemp("cached"))
    _model(repository, "inner", CACHED, COUNTING)
    _model(repository, "plain", "", COUNTING)
    _model(repository, "caller", "", CALLING)
    _model(repository, "outside", STEP % "plain" + CACHED)
    _model(repository, "both", STEP % "inner" + CACHED)
    _model(repository, "inside", STEP % "inner")
    return repository


@pytest.fixture(scope="module")
def local(server: RunningServer, repository: Path) -> Iterator[RunningServer]:
    with brought(server, repository) as running:
        yield running


def test_a_repeated_request_is_answered_without_the_model_until_it_is_loaded_anew(
    local: RunningServer, repository: Path
) -> None:
    assert _count(local.http, [1, 2]) == 1
    assert _count(local.http, [1, 2]) == 1
    assert _count(local.grpc, [1, 2], "grpc") == 1
    assert _count(local.http, [2, 1]) == 2
    with triton_http.InferenceServerClient(local.http) as client:
        stats = client.get_inference_statistics("counted")["model_stats"][0]
        assert stats["inference_stats"]["cache_hit"]["count"] == 2
        assert stats["inference_stats"]["cache_miss"]["count"] == 2
        assert stats["inference_stats"]["success"]["count"] == 4
        assert (stats["inference_count"], stats["execution_count"]) == (2, 2)
        metrics = _metrics(local)
        assert 'nv_cache_num_hits_per_model{model="counted",version="1"} 2' in metrics
        assert re.search("nv_cache_num_entries [1-9]", metrics)
        (repository / "counted/1/model.py").write_text(COUNTING.replace("= 0", "= 100"))
        client.load_model("counted")
    assert _count(local.http, [1, 2]) == 101


def _lookups(server: RunningServer, model: str) -> tuple[int, int]:
    """Return a model's cache hits and misses."""
    with triton_http.InferenceServerClient(server.http) as client:
        stats = client.get_inference_statistics(model)["model_stats"][0]["inference_stats"]
    return stats["cache_hit"]["count"], stats["cache_miss"]["count"]


# Names of L0_response_cache's cases.
@pytest.mark.parametrize(
    ("ensemble", "composing", "own", "of_composing"),
    [
        ("outside", "plain", (1, 1), (0, 0)),
        ("both", "inner", (1, 1), (0, 1)),
        ("inside", "inner", (0, 0), (1, 1)),
    ],
    ids=["top_level_response_cache", "all_models_cache_enabled", "composing_model_cache_enabled"],
)
def test_an_ensemble_and_its_models_have_their_own_caches(
    local: RunningServer, ensemble: str, composing: str, own: object, of_composing: object
) -> None:
    before = _lookups(local, composing)
    values = [7, len(ensemble)]
    first = _count(local.http, values, model=ensemble)
    assert _count(local.http, values, model=ensemble) == first
    assert _lookups(local, ensemble) == own
    hits, misses = _lookups(local, composing)
    assert (hits - before[0], misses - before[1]) == of_composing


def test_a_model_that_calls_a_cached_model_is_answered_from_the_cache(
    local: RunningServer,
) -> None:
    before = _lookups(local, "inner")
    first = _count(local.http, [3], model="caller")
    assert _count(local.http, [3], model="caller") == first
    hits, misses = _lookups(local, "inner")
    assert (hits - before[0], misses - before[1]) == (1, 1)


def test_replicas_share_answers_in_redis_and_serve_on_without_it(
    surface: RunningServer, redis_port: int | None, tmp_path: Path
) -> None:
    if redis_port is None:
        pytest.skip("redis-server is not installed (apt-get install redis-server)")
    with brought(surface, _write(tmp_path)), redis.Redis(port=redis_port) as store:
        before = store.dbsize()
        first = _count(surface.http, [1, 2])
        # The entry is stored after the answer has left.
        until(lambda: store.dbsize() == before + 1, "no answer is stored")
        # Connections are spread over both replicas; one answer serves them all.
        assert {_count(surface.http, [1, 2]) for _ in range(20)} == {first}
        # No other model of this server has answers cached.
        store.shutdown(nosave=True)
        assert _count(surface.http, [1, 2]) == first + 1
