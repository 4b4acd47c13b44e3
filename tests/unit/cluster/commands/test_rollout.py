# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""``manta rollout``."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from cluster.commands.rollout import document_of, main
from tests.support.stub_server import Stub

DONE = (200, b'{"phase": "progressing"}')
PATH = "/v2/models/m/rollout"


@pytest.fixture
def server() -> Iterator[Stub]:
    with Stub() as stub:
        yield stub


@pytest.mark.parametrize(
    ("action", "method", "path"),
    [
        ("get", "GET", "rollout"),
        ("end", "DELETE", "rollout"),
        ("promote", "POST", "rollout/promote"),
        ("pause", "POST", "rollout/pause"),
        ("resume", "POST", "rollout/resume"),
        ("rollback", "POST", "rollout/rollback"),
    ],
)
def test_each_action_is_a_request(
    server: Stub, action: str, method: str, path: str, capsys: pytest.CaptureFixture[str]
) -> None:
    server.answers[method, f"/v2/models/a%20b/{path}"] = DONE
    assert main(["a b", action, "--url", server.url]) == 0
    assert json.loads(capsys.readouterr().out) == {"phase": "progressing"}


def test_a_file_is_yaml_or_json_and_headers_go_along(server: Stub, tmp_path: Path) -> None:
    file = tmp_path / "canary.yaml"
    file.write_text("kind: canary\nstable: 3\n")
    server.answers["PUT", PATH] = DONE
    given = ["m", "set", str(file), "--url", server.url, "--header", "Authorization: Bearer x"]
    assert main(given) == 0
    ((_, _, headers, body),) = server.asked
    assert headers["authorization"] == "Bearer x"
    assert json.loads(body) == {"kind": "canary", "stable": 3}
    assert document_of('{"kind": "ab"}', "x") == {"kind": "ab"}


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (["m", "set"], 2, "set expects the file of a rollout"),
        (["m", "get", "file"], 2, "get takes no file"),
        (["m", "get", "--header", "nonsense"], 2, "--header expects NAME:VALUE"),
        (["m", "set", "/does/not/exist"], 1, "/does/not/exist"),
    ],
)
def test_what_is_wrong_is_said(
    server: Stub,
    arguments: list[str],
    code: int,
    said: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main([*arguments, "--url", server.url]) == code
    assert said in capsys.readouterr().err
    assert server.asked == []


def test_a_refusal_of_the_server_is_told(server: Stub, capsys: pytest.CaptureFixture[str]) -> None:
    server.answers["POST", f"{PATH}/promote"] = (400, b'{"error": "version 9 takes no requests"}')
    assert main(["m", "promote", "--url", server.url]) == 1
    assert capsys.readouterr().err == "error: version 9 takes no requests\n"


@pytest.mark.parametrize("text", ["- a list", "{", "text"])
def test_a_file_that_describes_nothing_is_refused(
    server: Stub, text: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "file"
    file.write_text(text)
    assert main(["m", "set", str(file), "--url", server.url]) == 1
    assert "file" in capsys.readouterr().err
    assert server.asked == []
