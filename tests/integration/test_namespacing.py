# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Triton's L0_model_namespacing on real servers with two repositories, through stock clients.

The repository ``add`` has models that answer with sum and difference; in ``sub`` the outputs are
the other way round. An ensemble named after its repository has one step, ``part``, which both have.
"""

import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

import numpy as np
import pytest
import tritonclient.grpc as triton_grpc
import tritonclient.http as triton_http
from prometheus_client.parser import text_string_to_metric_families
from tritonclient.utils import InferenceServerException
from urllib3 import request as http_request

from tests.integration.conftest import ADD_SUB, write_add_sub
from tests.support.clients import LEFT, RIGHT, add_sub_inputs
from tests.support.server import RunningServer, until

SWAPPED = ADD_SUB.replace("OUTPUT0", "X").replace("OUTPUT1", "OUTPUT0").replace("X", "OUTPUT1")
CODES = {"add": ADD_SUB, "sub": SWAPPED}
ANSWERS = {"add": (LEFT + RIGHT, LEFT - RIGHT), "sub": (LEFT - RIGHT, LEFT + RIGHT)}
AMBIGUOUS = "There are 2 identifiers of model '{}' in global map, model namespace must be provided"
MAPS = "\n".join(
    f'{side}_map {{ key: "{side.upper()}{n}" value: "{side.upper()}{n}" }}'
    for side in ("input", "output")
    for n in range(2)
)
TENSORS = "\n".join(
    f'{side} {{ name: "{side.upper()}{n}" data_type: TYPE_INT32 dims: [16] }}'
    for side in ("input", "output")
    for n in range(2)
)


def write_model(root: Path, name: str, instances: int = 2) -> None:
    """Write a model that answers as its repository's do; its instances share a queue."""
    write_add_sub(root, name, instances=instances, code=CODES[root.name])


def write_ensemble(root: Path, name: str, part: str) -> None:
    (root / name / "1").mkdir(parents=True)
    (root / name / "config.pbtxt").write_text(
        f'platform: "ensemble" max_batch_size: 8 {TENSORS} ensemble_scheduling {{ step {{ '
        f'model_name: "{part}" model_version: -1 {MAPS} }} }}'
    )


@dataclass(frozen=True)
class Server:
    """A server, its repositories and a client."""

    running: RunningServer
    folder: Path
    http: triton_http.InferenceServerClient

    def answers(self, model: str) -> str:
        """Return which repository's models a model answers as."""
        result = self.http.infer(model, add_sub_inputs(triton_http))
        outputs = [result.as_numpy(f"OUTPUT{n}") for n in range(2)]
        (name,) = (name for name, wanted in ANSWERS.items() if np.array_equal(outputs, wanted))
        return name

    def refusal(self, model: str) -> str:
        with pytest.raises(InferenceServerException) as caught:
            self.http.infer(model, add_sub_inputs(triton_http))
        assert caught.value.status() == "400"
        return str(caught.value.message())

    def states(self, model: str) -> list[str]:
        index = self.http.get_model_repository_index()
        return [row["state"] for row in index if row["name"] == model]

    def step_namespace(self, ensemble: str) -> str:
        config = self.http.get_model_config(ensemble)
        (step,) = config["ensemble_scheduling"]["step"]
        return Path(step["model_namespace"]).name


@pytest.fixture(scope="module")
def duplicated(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("duplicated")
    for name in ("add", "sub"):
        write_model(folder / name, "part")
        write_ensemble(folder / name, name, "part")
        write_model(folder / name, f"only_{name}", 1)
    return folder


@pytest.fixture(scope="module")
def polling(duplicated: Path) -> Iterator[Server]:
    running = RunningServer(
        duplicated / "add",
        f"--model-repository={duplicated / 'sub'}",
        "--model-namespacing=true",
        "--model-control-mode=poll",
        "--repository-poll-secs=1",
    )
    with triton_http.InferenceServerClient(running.http, network_timeout=60) as client:
        yield Server(running, duplicated, client)
    assert running.terminate() == 0


def test_models_without_a_namesake_are_found_by_name(polling: Server) -> None:
    assert polling.http.is_server_ready()
    assert (polling.answers("only_add"), polling.answers("only_sub")) == ("add", "sub")


def test_an_ensemble_uses_the_model_of_its_own_repository(polling: Server) -> None:
    for name in ("add", "sub"):
        assert polling.answers(name) == name
        assert polling.step_namespace(name) == name


def test_an_ambiguous_name_is_refused_by_both_protocols(polling: Server) -> None:
    assert polling.refusal("part").startswith(AMBIGUOUS.format("part"))
    with triton_grpc.InferenceServerClient(polling.running.grpc) as client:
        for call in (client.get_model_metadata, client.get_model_config, client.is_model_ready):
            with pytest.raises(InferenceServerException, match="ambiguity") as caught:
                call("part")
            assert caught.value.status() == "StatusCode.INVALID_ARGUMENT"


def test_a_request_may_name_the_repository(polling: Server) -> None:
    for name in ("add", "sub"):
        path = f"{polling.folder / name}/part"
        url = f"http://{polling.running.http}/v2/models/{quote(path, safe='')}"
        assert http_request("GET", url).json()["name"] == "part"
        with triton_grpc.InferenceServerClient(polling.running.grpc) as client:
            result = client.infer(path, add_sub_inputs(triton_grpc))
            assert result.get_response().model_name == "part"
            assert np.array_equal(result.as_numpy("OUTPUT0"), ANSWERS[name][0])
            (row,) = client.get_inference_statistics(path).model_stats
            assert row.name == "part"


def test_index_statistics_and_metrics_have_a_row_for_each(polling: Server) -> None:
    assert polling.states("part") == ["READY"] * 2
    polling.answers("add")
    rows = polling.http.get_inference_statistics()["model_stats"]
    counts = [row["inference_count"] for row in rows if row["name"] == "part"]
    assert len(counts) == 2
    assert all(counts)
    page = http_request("GET", f"http://{polling.running.metrics}/metrics").data.decode()
    samples = [
        sample.labels["namespace"]
        for family in text_string_to_metric_families(page)
        for sample in family.samples
        if family.name == "nv_inference_count" and sample.labels["model"] == "part"
    ]
    assert sorted(Path(namespace).name for namespace in samples) == ["add", "sub"]


def test_an_ensemble_follows_its_part_to_the_other_repository_and_back(polling: Server) -> None:
    here, away = polling.folder / "add/part", polling.folder / "part"
    shutil.move(here, away)
    until(lambda: polling.step_namespace("add") == "sub")
    until(lambda: polling.http.is_model_ready("part"))
    assert polling.states("part") == ["READY"]
    assert [polling.answers(name) for name in ("add", "sub", "part")] == ["sub"] * 3
    shutil.move(away, here)
    until(lambda: polling.step_namespace("add") == "add")
    assert [polling.answers(name) for name in ("add", "sub")] == ["add", "sub"]
    assert polling.refusal("part").startswith(AMBIGUOUS.format("part"))


@pytest.fixture(scope="module")
def explicit(namespaced: RunningServer) -> Iterator[Server]:
    with triton_http.InferenceServerClient(namespaced.http, network_timeout=60) as client:
        yield Server(namespaced, namespaced.repository.parent, client)


def test_loads_and_unloads_mean_every_model_of_the_name(explicit: Server) -> None:
    assert explicit.refusal("both") == "Request for unknown model: 'both' is not found"
    explicit.http.load_model("both")
    assert explicit.refusal("both").startswith(AMBIGUOUS.format("both"))
    assert [explicit.answers(f"part_{name}") for name in ("add", "sub")] == ["add", "sub"]
    explicit.http.unload_model("both", unload_dependents=True)
    index = explicit.http.get_model_repository_index()
    assert {row["reason"] for row in index} == {"unloaded"}
    assert len(index) == 4
