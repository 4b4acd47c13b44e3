# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""What the command says, and where."""

import json
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any

import pytest

from cluster.options.parsing import from_mapping
from cluster.serving import command
from cluster.serving.command import Speaker

CONFIGS: dict[str, Any] = {
    "/v2/models/a/config": {"backend": "python"},
    "/v2/models/b/config": {
        "backend": "identity",
        "input": [{"name": "X", "data_type": "TYPE_FP32", "dims": ["1"]}],
    },
}
CONFIGS["/v2/models/my%20model/config"] = CONFIGS["/v2/models/b/config"]
ROWS = [{"name": name, "version": "1", "state": "READY", "reason": ""} for name in ("a", "b")]


class Configs(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        body = json.dumps(CONFIGS[self.path]).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the base's name
        pass


@pytest.fixture
def address() -> Iterator[str]:
    server = HTTPServer(("127.0.0.1", 0), Configs)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"127.0.0.1:{server.server_port}"
    server.shutdown()
    thread.join()
    server.server_close()


def asked(address: str, rows: Any = ROWS, **options: Any) -> str:
    given = from_mapping({"model_repository": "/m", **options})
    return command._command(given, rows, {"http": address} if address else {})


def test_the_command_to_try_is_an_inference_where_a_model_allows_it(address: str) -> None:
    assert asked(address) == (
        f"curl http://{address}/v2/models/b/infer"
        ' -d \'{"inputs":[{"name":"X","datatype":"FP32","shape":[1],"data":[0]}]}\''
    )


def test_else_it_asks_for_a_model_or_the_server(address: str) -> None:
    assert asked(address, ROWS[:1]) == f"curl http://{address}/v2/models/a"
    assert asked(address, []) == f"curl http://{address}/v2"
    # Nobody answers: so it is another one that says so.
    assert asked("127.0.0.1:1") == "curl http://127.0.0.1:1/v2/models/a"


def test_a_dormant_model_is_not_asked_for(address: str) -> None:
    dormant = [{**row, "reason": "dormant"} for row in ROWS]
    assert asked(address, dormant) == f"curl http://{address}/v2"


def test_a_models_name_is_quoted_in_its_url(address: str) -> None:
    assert asked(address, [{**ROWS[1], "name": "my model"}]) == (
        f"curl http://{address}/v2/models/my%20model/infer"
        ' -d \'{"inputs":[{"name":"X","datatype":"FP32","shape":[1],"data":[0]}]}\''
    )


def test_no_proxy_is_asked(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:1")
    for name in ("no_proxy", "NO_PROXY"):
        monkeypatch.delenv(name, raising=False)
    assert "/v2/models/b/infer" in asked(address)


def test_what_takes_too_long_is_left_out(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(command, "_EXAMPLE_S", 0.0)
    assert asked(address) == f"curl http://{address}/v2/models/a"


@pytest.mark.parametrize("config", [[], {"backend": "identity", "input": 7}])
def test_an_odd_answer_ends_no_start(
    address: str, config: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(CONFIGS, "/v2/models/a/config", config)
    assert asked(address) == ""


@pytest.mark.parametrize("is_terminal", [True, False])
def test_lines_for_programs_come_after_the_box_and_before_anybody_is_asked(
    is_terminal: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    lines: list[str] = []

    def example(address: str, rows: object) -> str:
        lines.append("asked")
        return "curl"

    monkeypatch.setattr(command, "_example", example)
    monkeypatch.setattr(sys.stdout, "isatty", lambda: is_terminal)
    speaker = Speaker(lambda text, *_: lines.append(text), is_json=False, started_s=0.0)
    options = from_mapping({"model_repository": "/m"})
    command._say_ready(options, ROWS, {"http": "h:1"}, speaker, lines.append)
    assert lines[0].startswith("-----")
    assert lines[1] == "Started HTTPService at h:1"
    assert lines[2].startswith('MANTA_READY {"http": "h:1"')
    assert lines[3:] == ["asked", "Try: curl"]


def test_a_socket_is_asked_as_such() -> None:
    assert asked("unix:/run/m.sock") == "curl --unix-socket /run/m.sock http://localhost/v2"


@pytest.mark.parametrize(
    "options",
    [
        {"allow_http": False},
        {"http_restricted_api": "health:key=value"},
        {"access_policy": "/p.yaml"},
    ],
)
def test_without_credentials_there_is_nothing_to_try(options: dict[str, Any]) -> None:
    address = "" if "allow_http" in options else "127.0.0.1:1"
    assert asked(address, **options) == ""


def spoken(*, is_json: bool) -> list[tuple[Any, str]]:
    said: list[tuple[Any, str]] = []

    def say(text: str, stream: Any = None) -> None:
        said.append((json.loads(text) if is_json else text, "err" if stream is sys.stderr else ""))

    speaker = Speaker(say, is_json=is_json, started_s=float("-inf"))
    speaker.tell("good")
    speaker.warn("odd")
    speaker.fail("bad")
    return said


def test_what_goes_wrong_goes_where_errors_go() -> None:
    assert spoken(is_json=False) == [("good", ""), ("odd", "err"), ("bad", "err")]


def test_as_json_each_has_its_level() -> None:
    rows = [row for row, _ in spoken(is_json=True)]
    assert [(row["level"], row["message"]) for row in rows] == [
        ("info", "good"),
        ("warning", "odd"),
        ("error", "bad"),
    ]
