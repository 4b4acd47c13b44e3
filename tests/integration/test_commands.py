# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""The commands that ask a server, on a model that ``manta init`` has written."""

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from cluster.cli import main
from tests.support.server import RunningServer
from tests.support.shared_server import brought

Output = pytest.CaptureFixture[str]


@pytest.fixture(scope="module")
def repository(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("written")
    assert main(["init", str(folder / "doubled")]) == 0
    assert main(["init", str(folder / "added"), "--backend=onnx"]) == 0
    return folder


@pytest.fixture(scope="module")
def server(surface: RunningServer, repository: Path) -> Iterator[RunningServer]:
    with brought(surface, repository) as running:
        yield running


@pytest.fixture(autouse=True)
def asked(server: RunningServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MANTA_URL", server.http)


def told(capsys: Output, *arguments: str) -> Any:
    """Run a command that succeeds and return the JSON that it prints."""
    assert main([*arguments, "--json"]) == 0
    return json.loads(capsys.readouterr().out)


@pytest.mark.parametrize("model", ["doubled", "added"])
def test_a_model_that_init_has_written_is_served_and_answers(model: str, capsys: Output) -> None:
    assert main(["infer", model, "1,2,3,4"]) == 0
    assert capsys.readouterr().out == "Y FP32[1,4]: 2 4 6 8\n"
    (row,) = told(capsys, "ls", model)
    assert (row["state"], row["instances"]) == ("READY", "1")


def test_ps_names_the_process_of_an_instance(capsys: Output) -> None:
    (row,) = told(capsys, "ps", "doubled")
    assert (row["name"], row["state"], row["restarts"]) == ("doubled/1#0", "live", 0)
    assert "doubled/1#0" in psutil.Process(row["pid"]).name() + " ".join(
        psutil.Process(row["pid"]).cmdline()
    )
    assert row["node"]


def test_the_call_that_show_prints_works(capsys: Output) -> None:
    line = told(capsys, "show", "doubled")["curl"]
    done = subprocess.run(line, shell=True, check=True, capture_output=True)
    (output,) = json.loads(done.stdout)["outputs"]
    assert (output["name"], output["data"]) == ("Y", [0.0] * 4)


def test_a_model_is_unloaded_and_loaded(capsys: Output) -> None:
    assert main(["unload", "doubled"]) == 0
    assert main(["infer", "doubled", "1,2,3,4"]) == 1
    assert "model 'doubled' is not served: unloaded" in capsys.readouterr().err
    assert main(["load", "doubled"]) == 0
    assert "loaded doubled version 1 in" in capsys.readouterr().out


def test_what_is_served_is_what_the_repository_says(repository: Path, capsys: Output) -> None:
    assert main(["config", "diff", "doubled", str(repository / "doubled")]) == 0
    capsys.readouterr()
    assert told(capsys, "status")["instances"]
    (row,) = [each for each in told(capsys, "top", "-n1") if each["model"] == "doubled"]
    assert row["failed_per_second"] == 0
