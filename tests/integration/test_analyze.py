# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""An analysis of a demo model: interrupted, and gone on with."""

import csv
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.server import ROOT

CONFIG = """
client_protocol: http
run_config_search_mode: brute
num_configs_per_model: 1
perf_analyzer_flags: {request-count: 20}
profile_models:
  simple:
    parameters: {concurrency: [2]}
    model_config_parameters:
      instance_group: [[{kind: KIND_CPU, count: [1, 3]}]]
"""


def analyze(repository: Path, folder: Path) -> "subprocess.Popen[str]":
    return subprocess.Popen(
        [
            sys.executable,
            "-m",
            "cluster",
            "analyze",
            "profile",
            f"-f={folder / 'analysis.yaml'}",
            f"--model-repository={repository}",
            f"--checkpoint-directory={folder / 'checkpoints'}",
            f"--export-path={folder}",
            f"--output-model-repository-path={folder / 'best'}",
            "--override-output-model-repository",
        ],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        cwd=ROOT,
        env={**os.environ, "PYTHONUNBUFFERED": "1"},
    )


def finish(process: "subprocess.Popen[str]", code: int, before: str = "") -> str:
    assert process.stdout is not None
    output = before + process.stdout.read()
    process.stdout.close()
    assert process.wait(60) == code, output
    return output


@pytest.fixture(scope="module")
def analysed(demo_repository: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    folder = tmp_path_factory.mktemp("analysed")
    (folder / "analysis.yaml").write_text(CONFIG)
    first = analyze(demo_repository, folder)
    assert first.stdout is not None
    lines = []
    for line in first.stdout:
        lines.append(line)
        if line.startswith("[1] "):
            first.send_signal(signal.SIGINT)
            break
    finish(first, 130, "".join(lines))
    return folder, finish(analyze(demo_repository, folder), 0)


def test_an_interrupted_analysis_goes_on_and_ends_with_a_report(analysed: tuple[Path, str]) -> None:
    folder, output = analysed
    assert "measurements are known from" in output
    with (folder / "results" / "metrics-all.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert [row["error"] for row in rows] == [""] * 3
    assert sorted(row["instance_group"] for row in rows) == ["1:CPU", "2:CPU", "3:CPU"]
    # A process of an instance takes tens of megabytes, and some CPU time for each request; of so
    # short a trial that may be less than the kernel counts.
    assert all(float(row["cpu_used_ram"]) > 10 for row in rows)
    assert any(float(row["cpu_per_inference"]) > 0 for row in rows)
    summary = folder / "reports" / "summaries" / "simple" / "result_summary.html"
    assert rows[0]["model_config_path"] in summary.read_text()
