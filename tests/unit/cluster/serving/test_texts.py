# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Golden texts of a start."""

import json
from typing import Any

import pytest

from cluster.serving.texts import (
    Problems,
    Ready,
    curl,
    example_body,
    first_line,
    phase_line,
    started_lines,
)

ADDRESSES = {"http": "0.0.0.0:8000", "grpc": "127.0.0.1:8001", "metrics": "[::]:8002"}


def row(name: str, state: str = "READY", reason: str = "", version: str = "1") -> dict[str, str]:
    return {"name": name, "version": version, "state": state, "reason": reason}


@pytest.mark.parametrize(
    ("repositories", "line"),
    [
        ([("models", 10)], "Manta 0.1.0, 10 models in models, starting"),
        ([("a", 1), ("s3://b/c", None)], "Manta 0.1.0, 1 model in a, s3://b/c, starting"),
        ([], "Manta 0.1.0, starting"),
    ],
)
def test_the_first_line_counts_the_models(repositories: Any, line: str) -> None:
    assert first_line("0.1.0", repositories) == line


def test_a_phase_has_the_seconds_since_the_start() -> None:
    assert phase_line("Ray started at 127.0.0.1:1", 1.94) == "  1.9 s  Ray started at 127.0.0.1:1"


def test_one_problem_is_one_line() -> None:
    text = "--http-port: cannot listen on 127.0.0.1:8000: Address already in use"
    assert str(Problems((text,))) == text


def test_each_of_several_problems_is_a_paragraph_and_the_end_says_how_to_go_on() -> None:
    models = {
        "b02": ("/r/b02/config.pbtxt:4:32: error: no value TYPE_FLOAT32",),
        "b03": ("/r/b03:1:1: error: a", "/r/b03:1:1: error: b"),
    }
    assert str(Problems(("--http-port: taken",), models, ("/r", "/s"))) == (
        "Internal - failed to load all models: 3 problems; nothing was started\n"
        "\n"
        "--http-port: taken\n"
        "\n"
        "b02:\n"
        "  /r/b02/config.pbtxt:4:32: error: no value TYPE_FLOAT32\n"
        "\n"
        "b03:\n"
        "  /r/b03:1:1: error: a\n"
        "  /r/b03:1:1: error: b\n"
        "\n"
        "'manta check /r /s' says the same; --exit-on-error=false starts with the models that load."
    )


def test_a_server_that_is_ready_says_where_it_is_and_how_to_stop_it() -> None:
    ready = Ready([row("a"), row("a", version="2"), row("b")], ADDRESSES, frozenset(), 5.14)
    assert ready.box() == (
        "------------------------------------------------------------------------\n"
        "2 models ready after 5.1 s\n"
        "\n"
        "  HTTP     http://localhost:8000\n"
        "  gRPC     127.0.0.1:8001\n"
        "  Metrics  http://localhost:8002/metrics\n"
        "\n"
        "Ctrl-C stops the server.\n"
        "------------------------------------------------------------------------"
    )


def test_models_that_failed_are_counted_and_each_has_its_reason() -> None:
    rows = [row("a"), row("b", "UNAVAILABLE", "no weights\n", ""), row("c", "LOADING", "waits")]
    ready = Ready(rows, {"http": "127.0.0.1:1"}, frozenset(), 2.0)
    assert ready.summary() == "1 of 3 models ready after 2.0 s"
    assert ready.failures() == ["b: no weights", "c 1: waits"]


def test_ports_with_tls_and_sockets_are_named_as_clients_reach_them() -> None:
    addresses = {
        "http": "127.0.0.1:1",
        "grpc": "unix:/run/grpc.sock",
        "metrics": "127.0.0.1:2",
        "openai": "127.0.0.1:3",
    }
    assert Ready([], addresses, frozenset({"http"}), 0.0).urls() == {
        "http": "https://127.0.0.1:1",
        "openai": "https://127.0.0.1:3/v1",
        "grpc": "unix:/run/grpc.sock",
        "metrics": "http://127.0.0.1:2/metrics",
    }


def test_scripts_find_the_lines_of_triton() -> None:
    assert started_lines({"http": "h:1", "grpc": "h:2"}) == [
        "Started GRPCInferenceService at h:2",
        "Started HTTPService at h:1",
    ]


CONFIG: dict[str, Any] = {
    "backend": "onnxruntime",
    "max_batch_size": 8,
    "input": [{"name": "X", "data_type": "TYPE_INT32", "dims": ["2"]}],
}


def test_the_body_to_try_has_zeros_for_each_input() -> None:
    assert json.loads(example_body(CONFIG) or "") == {
        "inputs": [{"name": "X", "datatype": "INT32", "shape": [1, 2], "data": [0, 0]}]
    }


@pytest.mark.parametrize(
    "change",
    [
        {"backend": "python"},
        {"sequence_batching": {"direct": {}}},
        {"ensemble_scheduling": {"step": []}},
        {"model_transaction_policy": {"decoupled": True}},
        {"input": []},
        {"input": [{"name": "X", "data_type": "TYPE_STRING", "dims": ["1"]}]},
        {"input": [{"name": "X", "data_type": "TYPE_FP32", "dims": ["-1"]}]},
        {"input": [{"name": "X", "data_type": "TYPE_FP32", "dims": ["-1", "-1"]}]},
        {"input": [{"name": "X", "data_type": "TYPE_FP32", "dims": ["65"]}]},
    ],
)
def test_what_zeros_may_not_suit_is_not_tried(change: dict[str, Any]) -> None:
    assert example_body(CONFIG | change) is None


def test_a_command_survives_the_shell() -> None:
    assert curl("h:1", "/v2", '{"a":"it\'s"}') == "curl http://h:1/v2 -d '{\"a\":\"it'\\''s\"}'"
    assert curl("unix:/run/my m", "/v2") == "curl --unix-socket '/run/my m' http://localhost/v2"


@pytest.mark.parametrize(
    ("address", "line"),
    [
        ("unix:@m", "curl --abstract-unix-socket m http://localhost/v2"),
        ("::1:8", "curl -g 'http://[::1]:8/v2'"),
        ("[::1]:8", "curl -g 'http://[::1]:8/v2'"),
        (":::8", "curl http://localhost:8/v2"),
    ],
)
def test_sockets_and_addresses_are_told_curl(address: str, line: str) -> None:
    assert curl(address, "/v2") == line
