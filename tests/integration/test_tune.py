# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""``manta tune`` beside a server under load."""

import json
import threading
import urllib.request
from pathlib import Path

import pytest

from manta_tools.tune import command
from tests.support.model_folders import write_folder
from tests.support.server import RunningServer
from tests.support.shared_server import brought

CONFIG = """
backend: "identity" max_batch_size: 8
input [{ name: "IN" data_type: TYPE_FP32 dims: [ 1 ] }]
output [{ name: "OUT" data_type: TYPE_FP32 dims: [ 1 ] }]
dynamic_batching { max_queue_delay_microseconds: 100000 }
"""
BODY = {"inputs": [{"name": "IN", "datatype": "FP32", "shape": [1, 1], "data": [1]}]}


@pytest.fixture(scope="module")
def server(surface, tmp_path_factory):
    repository = tmp_path_factory.mktemp("models")
    write_folder(repository, "m", CONFIG)
    with brought(surface, repository) as running:
        yield running


class Clients:
    """Some that each send one request after the other."""

    def __init__(self, server: RunningServer, count: int) -> None:
        self._url = f"http://{server.http}/v2/models/m/infer"
        self._is_over = threading.Event()
        self.answers = 0
        self.errors: list[Exception] = []
        self._threads = [threading.Thread(target=self._ask) for _ in range(count)]

    def __enter__(self) -> "Clients":
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_error: object) -> None:
        self._is_over.set()
        for thread in self._threads:
            thread.join()

    def _ask(self) -> None:
        while not self._is_over.is_set():
            request = urllib.request.Request(self._url, json.dumps(BODY).encode())
            try:
                with urllib.request.urlopen(request, timeout=60) as answer:
                    assert json.load(answer)["outputs"][0]["data"] == [1]
                self.answers += 1
            except Exception as error:
                self.errors.append(error)


def delay_us(server: RunningServer) -> int:
    with urllib.request.urlopen(f"http://{server.http}/v2/models/m/config") as answer:
        return int(json.load(answer)["dynamic_batching"]["max_queue_delay_microseconds"])


def tune(server: RunningServer, *arguments: str) -> int:
    urls = ("--url", server.http, "--metrics-url", f"{server.metrics}/metrics")
    return command.main(["m", *urls, *arguments])


@pytest.mark.long
@pytest.mark.parametrize("slo", ["mean:20", "p90:20"])
def test_the_delay_shrinks_under_load_without_an_error_and_comes_back(
    server, slo, tmp_path: Path, capsys
):
    journal = tmp_path / "journal"
    wishes = ("--slo", slo, "--delay-us", "0:100000", "--period", "3")
    with Clients(server, 7) as clients:
        assert tune(server, *wishes, "--periods", "1") == 0
        assert delay_us(server) == 100_000
        assert "would change; " in capsys.readouterr().out
        # Each change is judged in a period of its own.
        assert tune(server, *wishes, "--periods", "4", "--apply", "--journal", str(journal)) == 0
    assert delay_us(server) <= 50_000
    assert not clients.errors
    assert clients.answers
    rows = [json.loads(line) for line in journal.read_text().splitlines()]
    assert [row["is_applied"] for row in rows[1:]] == [True] * 4
    assert tune(server, "--revert", str(journal)) == 0
    assert delay_us(server) == 100_000


def test_what_cannot_be_tuned_is_told_and_changes_nothing(server, capsys):
    assert tune(server, "--slo", "mean:20", "--batch", "1:9") == 1
    assert "max_batch_size of model 'm', which is 8" in capsys.readouterr().err
    assert tune(server, "--slo", "mean:20") == 1
    assert "nothing may be adjusted" in capsys.readouterr().err
    assert tune(server, "--slo", "p98:20", "--delay-us", "0:9", "--period", "0.1") == 1
    assert "summary_latencies=true" in capsys.readouterr().err
