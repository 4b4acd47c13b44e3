# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Analyses of a server that runs, and what becomes of what they find: it is loaded, and serves."""

import copy
import csv
import json
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tritonclient.http as triton_http

from tests.support.model_folders import write_folder
from tests.support.server import ROOT, RunningServer
from tests.support.shared_server import brought

# Multiplies and adds; slow models are so by sleeping, so that two instances do twice as much on
# any machine.
ARITHMETIC = """
import time
import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def execute(self, requests):
        time.sleep({seconds} * len(requests))
        return [pb_utils.InferenceResponse([pb_utils.Tensor(
            "Y", pb_utils.get_input_tensor_by_name(r, "X").as_numpy() * {factor} + {summand})])
            for r in requests]
"""
CALLER = """
import triton_python_backend_utils as pb_utils


def called(model, x):
    request = pb_utils.InferenceRequest(model_name=model, requested_output_names=["Y"], inputs=[x])
    response = request.exec()
    if response.has_error():
        raise pb_utils.TritonModelException(response.error().message())
    return response.output_tensors()[0].as_numpy()


class TritonPythonModel:
    def execute(self, requests):
        return [self.one(request) for request in requests]

    def one(self, request):
        x = pb_utils.get_input_tensor_by_name(request, "X")
        between = pb_utils.Tensor("X", called("first", x))
        return pb_utils.InferenceResponse([pb_utils.Tensor("Y", called("second", between))])
"""
TENSORS = """
input { name: "X" data_type: TYPE_INT32 dims: [ 4 ] }
output { name: "Y" data_type: TYPE_INT32 dims: [ 4 ] }
"""
CONFIG = TENSORS + 'backend: "python" instance_group { kind: KIND_CPU count: 1 }'
PIPELINE = (
    TENSORS
    + """
platform: "ensemble" ensemble_scheduling { step [
  { model_name: "first" model_version: -1
    input_map { key: "X" value: "X" } output_map { key: "Y" value: "BETWEEN" } },
  { model_name: "second" model_version: -1
    input_map { key: "X" value: "BETWEEN" } output_map { key: "Y" value: "Y" } } ] }
"""
)
MODELS = {
    "slow": (ARITHMETIC.format(seconds=0.02, factor=2, summand=0), CONFIG),
    "first": (ARITHMETIC.format(seconds=0, factor=1, summand=1), CONFIG),
    "second": (ARITHMETIC.format(seconds=0, factor=3, summand=0), CONFIG),
    "caller": (CALLER, CONFIG),
    "pipeline": ("", PIPELINE),
}
REMOTE = """
triton_launch_mode: remote
triton_http_endpoint: {http}
triton_grpc_endpoint: {grpc}
triton_metrics_url: http://{metrics}/metrics
client_protocol: http
run_config_search_mode: brute
num_configs_per_model: 1
duration_seconds: 0
skip_summary_reports: true
skip_detailed_reports: true
perf_analyzer_flags: {{request-count: 40}}
"""
ANALYSES = {
    "slow": """
profile_models:
  slow:
    parameters: {concurrency: [4]}
    model_config_parameters: {instance_group: [[{kind: KIND_CPU, count: [1, 2]}]]}
""",
    "pipeline": """
ensemble_composing_models:
  first: {model_config_parameters: {instance_group: [[{kind: KIND_CPU, count: [1, 2]}]]}}
  second: {model_config_parameters: {instance_group: [[{kind: KIND_CPU, count: [1]}]]}}
profile_models:
  pipeline:
    parameters: {concurrency: [2]}
""",
    "caller": """
bls_composing_models:
  first: {model_config_parameters: {instance_group: [[{kind: KIND_CPU, count: [2]}]]}}
  second: {model_config_parameters: {instance_group: [[{kind: KIND_CPU, count: [1]}]]}}
profile_models:
  caller:
    parameters: {concurrency: [1]}
    model_config_parameters: {instance_group: [[{kind: KIND_CPU, count: [1]}]]}
""",
}


@dataclass(frozen=True)
class Analysed:
    """A server that runs, and the folders of the analyses of its models."""

    server: RunningServer
    repository: Path
    folder: Path
    before: dict[str, Any]

    def client(self) -> Any:
        return triton_http.InferenceServerClient(self.server.http)

    def analyze(self, name: str, *arguments: str) -> str:
        """Run the analysis of that name, or go on with it, and return what it printed."""
        folder = self.folder / name
        folder.mkdir(exist_ok=True)
        remote = REMOTE.format(**{key: getattr(self.server, key) for key in ADDRESSES})
        (folder / "analysis.yaml").write_text(remote + ANALYSES[name])
        return manta(
            "analyze",
            "profile",
            f"-f={folder / 'analysis.yaml'}",
            f"--model-repository={self.repository}",
            f"--checkpoint-directory={folder / 'checkpoints'}",
            f"--export-path={folder}",
            f"--output-model-repository-path={folder / 'best'}",
            "--override-output-model-repository",
            *arguments,
        )

    def rows(self, name: str) -> list[dict[str, str]]:
        """Return the measurements of an analysis, the best first."""
        with (self.folder / name / "results" / "metrics-all.csv").open() as file:
            return list(csv.DictReader(file))


ADDRESSES = ("http", "grpc", "metrics")


def manta(*arguments: str) -> str:
    command = [sys.executable, "-m", "cluster", *arguments]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def served_by(client: Any) -> dict[str, Any]:
    """Return the configs of the models that are ready."""
    rows = client.get_model_repository_index()
    ready = sorted({row["name"] for row in rows if row.get("state") == "READY"})
    return {name: client.get_model_config(name) for name in ready}


def answer_of(client: Any, model: str) -> list[int]:
    given = triton_http.InferInput("X", [4], "INT32")
    given.set_data_from_numpy(np.arange(4, dtype=np.int32))
    found: list[int] = client.infer(model, [given]).as_numpy("Y").tolist()
    return found


@pytest.fixture(scope="module")
def analysed(
    namespaced: RunningServer, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Analysed]:
    repository = tmp_path_factory.mktemp("models")
    for name, (code, config) in MODELS.items():
        write_folder(repository, name, config, code)
    with brought(namespaced, repository, ("slow",)):
        before = served_by(triton_http.InferenceServerClient(namespaced.http))
        found = Analysed(namespaced, repository, tmp_path_factory.mktemp("analysed"), before)
        for name in ANALYSES:
            found.analyze(name)
        yield found


@pytest.mark.long
def test_what_a_running_server_had_loaded_is_restored(analysed: Analysed) -> None:
    assert list(analysed.before) == ["slow"]
    assert served_by(analysed.client()) == analysed.before


def test_every_configuration_of_a_running_server_is_measured(analysed: Analysed) -> None:
    for name, count in (("slow", 3), ("pipeline", 3), ("caller", 2)):
        assert [row["error"] for row in analysed.rows(name)] == [""] * count
    assert analysed.rows("slow")[0]["instance_group"] == "2:CPU"


def test_the_winner_is_applied_to_a_running_server(analysed: Analysed) -> None:
    printed = analysed.analyze("slow", "--apply")
    assert f"is loaded into {analysed.server.http}" in printed
    (group,) = analysed.client().get_model_config("slow")["instance_group"]
    assert group["count"] == 2
    assert answer_of(analysed.client(), "slow") == [0, 2, 4, 6]


@pytest.mark.long
def test_what_is_written_serves(analysed: Analysed) -> None:
    best = {name: analysed.folder / name / "best" for name in ANALYSES}
    (called,) = best["caller"].glob("caller_*/repository")
    server = RunningServer(
        best["slow"], f"--model-repository={best['pipeline']}", f"--model-repository={called}"
    )
    client = triton_http.InferenceServerClient(server.http)
    served = served_by(client)

    (slow,) = (each.name for each in best["slow"].iterdir())
    assert served[slow]["instance_group"][0]["count"] == 2
    assert answer_of(client, slow) == [0, 2, 4, 6]

    (pipeline,) = (each.name for each in best["pipeline"].glob("pipeline_*"))
    steps = [step["model_name"] for step in served[pipeline]["ensemble_scheduling"]["step"]]
    assert {pipeline, *steps} == {each.name for each in best["pipeline"].iterdir()}
    assert answer_of(client, pipeline) == [3, 6, 9, 12]

    assert {each.name for each in called.iterdir()} == {"caller", "first", "second"}
    variant = next(best["caller"].glob("first_*"))
    count = re.search(r"count: (\d+)", (variant / "config.pbtxt").read_text())
    assert count is not None
    assert served["first"]["instance_group"][0]["count"] == int(count[1])
    assert answer_of(client, "caller") == [3, 6, 9, 12]
    assert server.terminate() == 0


def test_a_plan_carries_the_load_that_it_is_made_for(analysed: Analysed, tmp_path: Path) -> None:
    (one,) = (row for row in analysed.rows("slow") if row["model_config_path"] == "slow_config_0")
    assert one["instance_group"] == "1:CPU"
    rate = round(0.6 * float(one["perf_throughput"]), 1)
    checkpoints = analysed.folder / "slow" / "checkpoints"
    plan = manta(
        "analyze", "plan", "slow", f"--rate={rate}", f"--checkpoint-directory={checkpoints}"
    )
    count = re.search(r"slow: (\d+) instances", plan)
    assert count is not None, plan
    config = copy.deepcopy(analysed.before["slow"])
    config["instance_group"][0]["count"] = int(count[1])
    analysed.client().load_model("slow", config=json.dumps(config))
    printed = manta(
        "perf",
        "--model-name=slow",
        f"--url={analysed.server.http}",
        "--protocol=http",
        f"--request-rate-range={rate}:{rate}:1",
        "--request-count=120",
        "-f",
        str(tmp_path / "perf.csv"),
    )
    assert "Failed request count" not in printed
    with (tmp_path / "perf.csv").open() as file:
        (row,) = csv.DictReader(file)
    assert float(row["Inferences/Second"]) >= 0.97 * rate
