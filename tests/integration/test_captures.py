# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Requests are kept by a server, and sent again to another version."""

import json
import urllib.request
from pathlib import Path

import numpy as np
import pytest
import tritonclient.grpc as triton_grpc

from cluster.commands.replay import command
from deployments.captures import provenance
from deployments.captures.records import from_line
from tests.support.server import RunningServer
from tests.support.shared_server import brought

CONFIG = """
backend: "python" max_batch_size: 8
version_policy { all { } }
input [{ name: "X" data_type: TYPE_FP32 dims: [ 2 ] },
       { name: "PIN" data_type: TYPE_STRING dims: [ 1 ] }]
output [{ name: "Y" data_type: TYPE_FP32 dims: [ 2 ] }]
"""
# Version 1 doubles, version 2 too but for a large number.
MODEL = """
import numpy as np
import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def initialize(self, args):
        self.most = {most}

    def execute(self, requests):
        found = []
        for request in requests:
            x = pb_utils.get_input_tensor_by_name(request, "X").as_numpy()
            y = np.minimum(x * 2, self.most).astype(np.float32)
            found.append(pb_utils.InferenceResponse([pb_utils.Tensor("Y", y)]))
        return found
"""


@pytest.fixture(scope="module")
def captured(surface, captures, tmp_path_factory):
    """The server, and the folder of its captures."""
    repository = tmp_path_factory.mktemp("captured")
    for version, most in ((1, 1e9), (2, 100)):
        folder = repository / "captured" / str(version)
        folder.mkdir(parents=True)
        (folder / "model.py").write_text(MODEL.replace("{most}", str(most)))
    (repository / "captured" / "config.pbtxt").write_text(CONFIG)
    with brought(surface, repository) as server:
        yield server, captures


def _infer(server: RunningServer, value: float, version: str = "1", **parameters: object):
    x = triton_grpc.InferInput("X", [1, 2], "FP32")
    x.set_data_from_numpy(np.full((1, 2), value, np.float32))
    pin = triton_grpc.InferInput("PIN", [1, 1], "BYTES")
    pin.set_data_from_numpy(np.array([[b"1234"]], dtype=object))
    with triton_grpc.InferenceServerClient(server.grpc) as client:
        return client.infer("captured", [x, pin], version, parameters=parameters or None)


def _lines(folder: Path) -> list[bytes]:
    return [line for file in sorted(folder.iterdir()) for line in file.read_bytes().splitlines()]


def test_answers_name_version_and_digest_when_asked_over_both_protocols(captured) -> None:
    server, _ = captured
    told = _infer(server, 1.0, manta_provenance=True).get_response().parameters
    assert told[provenance.VERSION].string_param == "1"
    digest = told[provenance.DIGEST].string_param
    assert digest
    body = {
        "inputs": [
            {"name": "X", "datatype": "FP32", "shape": [1, 2], "data": [1, 2]},
            {"name": "PIN", "datatype": "BYTES", "shape": [1, 1], "data": ["1234"]},
        ],
        "parameters": {"manta_provenance": True},
    }
    url = f"http://{server.http}/v2/models/captured/versions/1/infer"
    request = urllib.request.Request(url, json.dumps(body).encode())
    with urllib.request.urlopen(request) as answer:
        assert json.load(answer)["parameters"][provenance.DIGEST] == digest
    assert provenance.DIGEST not in _infer(server, 1.0).get_response().parameters


def test_captured_requests_are_the_same_again_and_differ_where_a_version_does(
    captured, tmp_path, capsys
) -> None:
    server, folder = captured
    for value in (1.0, 2.0, 70.0):
        _infer(server, value, user="somebody")
    # The last record is written, at the latest, when the server has ended; a replay reads lines.
    file = tmp_path / "some.jsonl"
    wanted = 0
    while wanted < 3:
        lines = [line for line in _lines(folder) if line.endswith(b"}") and b'"user"' in line]
        wanted = len(lines)
    assert b"somebody" not in b"".join(lines)
    assert [from_line(line).outcome for line in lines] == ["ok"] * 3
    file.write_bytes(b"\n".join(lines))
    given = [str(file), "-u", server.grpc, "--json", "--model-version"]
    assert command.main([*given, "1"]) == 0
    assert json.loads(capsys.readouterr().out)["counts"]["same"] == 3
    assert command.main([*given, "2"]) == 1
    found = json.loads(capsys.readouterr().out)
    assert (found["counts"]["same"], found["counts"]["different"]) == (2, 1)
    assert "expected 140, got 100" in found["reasons"][0]["reason"]
