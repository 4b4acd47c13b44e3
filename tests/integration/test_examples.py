# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""The examples: what a README says to run prints what the README shows."""

import contextlib
import io
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import pytest

from tests.support.ray_nodes import RayNodes
from tests.support.server import ROOT, RunningServer
from tests.support.shared_server import brought

EXAMPLES = ROOT / "examples"
# `sh` is to be run, `text` is what it prints. There `...` stands for anything, and percentages for
# others: what is trained differs a little from machine to machine.
BLOCK = re.compile(r"^```(sh|text)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
# Those that the shared server serves from a folder.
SERVED = sorted(
    each.name for each in EXAMPLES.iterdir() if each.name not in {"notebook", "two-nodes"}
)


def blocks(name: str) -> tuple[list[str], str]:
    """Return the commands of an example, and what they print together."""
    found = BLOCK.findall((EXAMPLES / name / "README.md").read_text())
    assert [language for language, _ in found] == ["sh", "text"]
    return found[0][1].splitlines(), found[1][1]


def at(server: RunningServer, text: str) -> str:
    """Return a text that names the ports of `manta serve`, with those of a server."""
    ports = {"localhost:8000": server.http, "localhost:8001": server.grpc}
    for usual, port in (ports | {"localhost:8002": server.metrics}).items():
        text = text.replace(usual, port)
    return text


def run(server: RunningServer, folder: Path, command: str) -> str:
    environment = os.environ | {
        "MANTA_URL": server.http,
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
    }
    done = subprocess.run(
        ["bash", "-o", "pipefail", "-c", at(server, command)],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, f"{command}:\n{done.stdout}{done.stderr}"
    return done.stdout


def check_printed(printed: str, shown: str) -> None:
    pattern = re.sub(r"([*?[])", r"[\1]", shown).replace("...", "*")
    pattern = re.sub(r"[\d.]+%", "*%", pattern)
    assert fnmatchcase(printed, pattern), f"printed:\n{printed}\nREADME.md shows:\n{shown}"


@pytest.fixture
def folder(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """A copy of the example that the parameter names."""
    return Path(shutil.copytree(EXAMPLES / request.param, tmp_path / request.param))


@pytest.mark.parametrize("folder", SERVED, indirect=True)
def test_what_an_example_prints_is_what_its_readme_shows(
    surface: RunningServer, folder: Path
) -> None:
    commands, shown = blocks(folder.name)
    printed = ""
    with contextlib.ExitStack() as served:
        for command in commands:
            if command.startswith("manta serve "):
                served.enter_context(brought(surface, folder / "models"))
            else:
                printed += run(surface, folder, command)
        check_printed(printed, shown)


def test_the_cells_of_the_notebook_print_what_it_shows(surface: RunningServer) -> None:
    book = json.loads((EXAMPLES / "notebook/model.ipynb").read_text())
    names: dict[str, Any] = {}
    for cell in (each for each in book["cells"] if each["cell_type"] == "code"):
        with contextlib.redirect_stdout(io.StringIO()) as printed:
            exec(at(surface, "".join(cell["source"])), names)
        shown = [line for output in cell["outputs"] for line in output["text"]]
        check_printed(printed.getvalue(), "".join(shown))
    names["client"].close()


@pytest.fixture
def two_nodes(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[RunningServer]:
    """A server on a Ray of two nodes with a CPU each."""
    # A busy machine may take longer than the 10 s Ray gives a node.
    monkeypatch.setenv("RAY_raylet_start_wait_time_s", "120")
    nodes = RayNodes(head_cpus=1)
    try:
        nodes.add("second")
        server = RunningServer(folder / "models", f"--ray-address={nodes.address}")
        yield server
        assert server.terminate() == 0
    finally:
        nodes.shutdown()


@pytest.mark.long
@pytest.mark.parametrize("folder", ["two-nodes"], indirect=True)
def test_both_nodes_answer(two_nodes: RunningServer, folder: Path) -> None:
    commands, shown = blocks("two-nodes")
    own = [each for each in commands if not each.startswith(("ray ", "manta serve "))]
    check_printed("".join(run(two_nodes, folder, each) for each in own), shown)
