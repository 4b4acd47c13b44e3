# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Starting and refusing to start."""

import socket
import subprocess
import sys
from pathlib import Path

import numpy as np
from tritonclient import http

from tests.integration.conftest import ADD_SUB, write_add_sub
from tests.support.server import ROOT, RunningServer

_LOG_DIR = "--log_dir="


def _serve(*flags: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sys.executable, "-m", "cluster", "serve", *flags],
        capture_output=True,
        text=True,
        cwd=ROOT,
        timeout=120,
        check=False,
    )


def test_unknown_flag_stops_the_start_and_names_the_nearest(tmp_path: Path) -> None:
    done = _serve(f"--model-repository={tmp_path}", "--htp-port=8000")
    assert done.returncode == 2
    assert "--htp-port" in done.stderr
    assert "--http-port" in done.stderr


def _logs_of_ray(server: RunningServer) -> Path:
    arguments = [each for process in server.tree() for each in process.cmdline()]
    return Path(next(each for each in arguments if each.startswith(_LOG_DIR))[len(_LOG_DIR) :])


def test_two_servers_on_a_machine_share_no_port(
    server: RunningServer, surface: RunningServer
) -> None:
    """Each has a Ray of its own, parts of which are on fixed ports unless told otherwise."""
    texts = {
        log.name: log.read_text(errors="replace")
        for each in (server, surface)
        # The raylet's agents say there what keeps them from listening.
        for pattern in ("*.log", "raylet.*")
        for log in _logs_of_ray(each).glob(pattern)
    }
    assert {"raylet.out", "raylet.err"} <= texts.keys()
    assert [name for name, text in texts.items() if "ddress already in use" in text] == []


def test_a_file_alone_is_served_under_its_name(server: RunningServer) -> None:
    with http.InferenceServerClient(server.http) as client:
        given = http.InferInput("IN", [4], "FP32")
        given.set_data_from_numpy(np.arange(4, dtype=np.float32))
        answer = client.infer("alone", [given])
    assert answer.as_numpy("OUT").tolist() == [0, 1, 2, 3]


def test_missing_repository_stops_the_start() -> None:
    done = _serve("--http-port=0")
    assert done.returncode == 2
    assert "--model-repository must be specified" in done.stderr


def test_repository_that_is_not_there_stops_the_start(tmp_path: Path) -> None:
    done = _serve(
        f"--model-repository={tmp_path / 'none'}",
        "--model-control-mode=explicit",
        "--http-port=0",
        "--grpc-port=0",
        "--metrics-port=0",
    )
    assert done.returncode == 1
    assert f"{tmp_path / 'none'}: No such file or directory" in done.stderr


def test_port_in_use_is_named_with_its_flag(tmp_path: Path) -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = other.getsockname()[1]
        done = _serve(
            f"--model-repository={tmp_path}", "--http-address=127.0.0.1", f"--http-port={port}"
        )
    assert done.returncode == 1
    assert "--http-port" in done.stderr
    assert str(port) in done.stderr


def test_model_that_fails_to_load_stops_the_start_with_its_reason(tmp_path: Path) -> None:
    write_add_sub(tmp_path, "broken", code=f"import no_such_module\n{ADD_SUB}")
    done = _serve(
        f"--model-repository={tmp_path}", "--http-port=0", "--grpc-port=0", "--metrics-port=0"
    )
    assert done.returncode == 1
    assert "failed to load all models" in done.stderr
    assert "no_such_module" in done.stderr


def test_model_that_cannot_be_loaded_stops_the_start_before_ray_is_started(tmp_path: Path) -> None:
    write_add_sub(tmp_path, "broken", code="class Model: pass\n")
    done = _serve(
        f"--model-repository={tmp_path}", "--http-port=0", "--grpc-port=0", "--metrics-port=0"
    )
    assert done.returncode == 1
    assert "failed to load all models: 1 problem; nothing was started" in done.stderr
    assert "define class TritonPythonModel" in done.stderr
    assert "Ray started" not in done.stdout
