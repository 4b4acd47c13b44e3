# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""The whole command against a tiny server; how fast it is is not looked at."""

import asyncio
import csv
import subprocess
import sys
import threading

import pytest

from manta_tools.analyze import command
from manta_tools.analyze.checkpoints import Checkpoint
from tests.support.loadable_server import LoadableServer

CONFIG = """
perf_analyzer_flags: {request-count: 4}
client_protocol: http
client_max_retries: 0
run_config_search_mode: brute
profile_models:
  echo:
    parameters: {concurrency: [1, 2]}
    model_config_parameters:
      instance_group: [[{kind: KIND_CPU, count: [1, 2, 3]}]]
"""


class Served:
    """A server on a thread of its own, as the command has a loop of its own."""

    def __init__(self):
        self.server = LoadableServer()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever)

    def __enter__(self):
        self._thread.start()
        port = asyncio.run_coroutine_threadsafe(self.server.__aenter__(), self._loop).result(30)
        self.address = f"127.0.0.1:{port}"
        return self

    def __exit__(self, *ignored):
        asyncio.run_coroutine_threadsafe(self.server.__aexit__(), self._loop).result(30)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(30)
        self._loop.close()


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "analysis.yaml").write_text(CONFIG)
    model = tmp_path / "models" / "echo" / "1"
    model.mkdir(parents=True)
    (model / "model.py").write_text("# never run")
    (model.parent / "config.pbtxt").write_text('backend: "python"')
    return tmp_path


def profile(served, *arguments, has_reports=False):
    skipped = [] if has_reports else ["--skip-summary-reports", "--skip-detailed-reports"]
    return command.main(
        [
            "profile",
            "-f=analysis.yaml",
            "--triton-launch-mode=remote",
            f"--triton-http-endpoint={served.address}",
            f"--triton-metrics-url=http://{served.address}/metrics",
            "--model-repository=models",
            "--override-output-model-repository",
            "--duration-seconds=0",
            *skipped,
            *arguments,
        ]
    )


def rows(folder, name="metrics-model-inference.csv"):
    with (folder / "results" / name).open() as file:
        return list(csv.DictReader(file))


@pytest.mark.slow
def test_an_analysis_ends_with_results_reports_and_models(folder, capsys):
    with Served() as served:
        assert profile(served, "--num-configs-per-model=1", has_reports=True) == 0
    found = rows(folder)
    assert {row["Model Config Path"] for row in found} == {
        "echo_config_default",
        "echo_config_0",
        "echo_config_1",
        "echo_config_2",
    }
    assert {row["Instance Group"] for row in found} == {"1:CPU", "2:CPU", "3:CPU"}
    assert len(found) == 8
    best = found[0]["Model Config Path"]
    written = folder / "output_model_repository" / best
    assert f'name: "{best}"' in (written / "config.pbtxt").read_text()
    assert (written / "1" / "model.py").read_text() == "# never run"
    summary = folder / "reports" / "summaries" / "echo"
    assert best in (summary / "result_summary.html").read_text()
    assert (summary / "result_summary.pdf").read_bytes().startswith(b"%PDF")
    assert (folder / "reports" / "detailed" / best / "detailed_report.pdf").exists()
    printed = capsys.readouterr().out
    assert "Models (Inference):" in printed
    assert "manta analyze report --report-model-configs" in printed


@pytest.mark.slow
def test_the_best_of_all_models_have_a_summary_of_their_own(folder):
    wanted = ("--num-top-model-configs=2", "--latency-budget=100000")
    with Served() as served:
        assert profile(served, *wanted, has_reports=True) == 0
    best = list(dict.fromkeys(row["Model Config Path"] for row in rows(folder)))
    summaries = folder / "reports" / "summaries"
    page = (summaries / "Best Configs Across All Models" / "result_summary.html").read_text()
    assert f"Of 4 configurations of 1 models, {best[0]} (" in page
    assert best[1] in page
    assert best[3] not in page


@pytest.mark.slow
def test_what_a_checkpoint_holds_is_not_measured_again(folder, capsys):
    with Served() as served:
        assert profile(served, "--perf-output", "--perf-output-path=said") == 0
        assert (folder / "said" / "echo.txt").read_text().count("Throughput: ") == 8
        first, requests = rows(folder), served.server.counters.served
        assert profile(served) == 0
        assert served.server.counters.served == requests
    assert rows(folder) == first
    assert "8 measurements are known from" in capsys.readouterr().out


def test_a_variant_that_does_not_load_is_reported_and_passed_over(folder):
    with Served() as served:
        served.server.refused_instances = 3
        assert profile(served) == 0
    assert "3:CPU" not in {row["Instance Group"] for row in rows(folder)}
    failed = [row for row in rows(folder, "metrics-all.csv") if row["error"]]
    assert {row["model_config_path"] for row in failed} == {"echo_config_2"}
    assert "too many instances" in failed[0]["error"]


def test_the_winner_is_loaded_into_a_server_that_runs(folder):
    with Served() as served:
        assert profile(served, "--apply") == 0
        best = rows(folder)[0]["Instance Group"]
        action, config = served.server.calls[-1]
    assert action == "load"
    count = config["instance_group"][0]["count"] if config else 1
    assert best == f"{count}:CPU"


def test_reports_are_made_of_a_checkpoint_without_a_server(folder, capsys):
    with Served() as served:
        assert profile(served) == 0
    assert command.main(["report", "--report-model-configs=echo_config_1"]) == 0
    page = folder / "reports" / "detailed" / "echo_config_1" / "detailed_report.html"
    assert "echo_config_1" in page.read_text()
    assert command.main(["report", "--report-model-configs=echo_config_9"]) == 1
    assert "'echo_config_9' was not measured, expected one of" in capsys.readouterr().err


def test_a_folder_with_models_is_not_written_over(folder, capsys):
    (folder / "output_model_repository" / "mine").mkdir(parents=True)
    assert command.main(["echo", "--model-repository=models"]) == 1
    assert "is not empty" in capsys.readouterr().err


def test_a_server_that_is_not_there_is_an_error(folder, capsys):
    with Served() as served:
        pass
    assert profile(served) == 1
    assert "cannot connect" in capsys.readouterr().err
    assert not (folder / "checkpoints").exists()


def test_an_interrupted_analysis_reports_what_it_has_and_goes_on_later(folder, capsys):
    with Served() as served:
        served.server.on_request = lambda count: count == 6 and served.server.interrupt()
        assert profile(served) == 130
        assert 0 < len(rows(folder)) < 8
        served.server.on_request = None
        assert profile(served) == 0
    assert len(rows(folder)) == 8
    with Checkpoint.newest(folder / "checkpoints") as kept:
        assert len(kept.measured) == 8
        assert kept.path.name == "0.ckpt"
    assert "Stopping after the current measurement" in capsys.readouterr().out


def test_without_nodes_the_process_has_no_ray():
    program = "import sys, manta_tools.analyze.command; sys.exit('ray' in sys.modules)"
    subprocess.run([sys.executable, "-c", program], check=True)
