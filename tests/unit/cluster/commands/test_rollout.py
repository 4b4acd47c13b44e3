# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""``manta rollout``."""

import json
from collections.abc import Mapping
from pathlib import Path

import pytest

from backends.api.errors import UnknownError
from cluster.commands.rollout import document_of, main

Asked = list[tuple[str, str, dict[str, str], bytes | None]]


class Server:
    """Answers with an empty object, or with an error."""

    def __init__(self) -> None:
        self.asked: Asked = []
        self.error: UnknownError | None = None

    def __call__(
        self, method: str, url: str, headers: Mapping[str, str], body: bytes | None
    ) -> str:
        self.asked.append((method, url, dict(headers), body))
        if self.error is not None:
            raise self.error
        return '{"phase": "progressing"}'


@pytest.fixture
def server() -> Server:
    return Server()


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
def test_each_action_is_a_request(server: Server, action: str, method: str, path: str) -> None:
    assert main(["a b", action, "--url", "host:1"], server) == 0
    assert server.asked[0][:2] == (method, f"http://host:1/v2/models/a%20b/{path}")


def test_a_file_is_yaml_or_json_and_headers_go_along(
    server: Server, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "canary.yaml"
    file.write_text("kind: canary\nstable: 3\n")
    given = ["m", "set", str(file), "--url", "https://host", "--header", "Authorization: Bearer x"]
    assert main(given, server) == 0
    ((method, url, headers, body),) = server.asked
    assert (method, url) == ("PUT", "https://host/v2/models/m/rollout")
    assert headers["Authorization"] == "Bearer x"
    assert json.loads(body or b"") == {"kind": "canary", "stable": 3}
    assert json.loads(capsys.readouterr().out) == {"phase": "progressing"}
    assert document_of('{"kind": "ab"}', "x") == {"kind": "ab"}


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["m", "set"], "set expects the file of a rollout"),
        (["m", "get", "file"], "get takes no file"),
        (["m", "get", "--header", "nonsense"], "--header expects NAME:VALUE"),
        (["m", "set", "/does/not/exist"], "/does/not/exist"),
    ],
)
def test_what_is_wrong_is_said(
    server: Server, arguments: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(arguments, server) == 1
    assert said in capsys.readouterr().err
    assert server.asked == []


def test_a_refusal_of_the_server_is_told(
    server: Server, capsys: pytest.CaptureFixture[str]
) -> None:
    server.error = UnknownError("PUT answers 400: version 9 takes no requests")
    assert main(["m", "promote"], server) == 1
    assert "version 9 takes no requests" in capsys.readouterr().err


@pytest.mark.parametrize("text", ["- a list", "{", "text"])
def test_a_file_that_describes_nothing_is_refused(
    server: Server, text: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "file"
    file.write_text(text)
    assert main(["m", "set", str(file)], server) == 1
    assert "file" in capsys.readouterr().err
