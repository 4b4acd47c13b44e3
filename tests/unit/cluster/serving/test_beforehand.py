# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""What a start finds wrong before there is a Ray."""

import os
import signal
import socket
import threading
from pathlib import Path
from typing import Any

import pytest

from cluster.options.parsing import from_mapping
from cluster.serving import beforehand
from cluster.serving.beforehand import Look, count_models, find_problems
from cluster.serving.texts import Problems

GOOD = """backend: "identity" max_batch_size: 0
input { name: "IN" data_type: TYPE_FP32 dims: [ 4 ] }
output { name: "OUT" data_type: TYPE_FP32 dims: [ 4 ] }
"""
WRONG = GOOD.replace("TYPE_FP32", "TYPE_FLOAT32", 1)


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    for name, config in (("good", GOOD), ("wrong", WRONG)):
        (tmp_path / name / "1").mkdir(parents=True)
        (tmp_path / name / "config.pbtxt").write_text(config)
    return tmp_path


def found(repository: Path, **options: Any) -> Problems:
    given = {
        "model_repository": str(repository),
        "http_address": "127.0.0.1",
        "grpc_address": "127.0.0.1",
        **{f"{name}_port": 0 for name in ("http", "grpc", "metrics")},
        **options,
    }
    return find_problems(from_mapping(given))


def test_a_model_whose_load_would_fail_is_named_with_place_and_remedy(repository: Path) -> None:
    problems = found(repository)
    assert problems.general == ()
    (line,) = problems.models["wrong"]
    assert list(problems.models) == ["wrong"]
    assert line.startswith(f"{repository}/wrong/config.pbtxt:2:")
    assert "did you mean 'TYPE_FP32'?" in line


@pytest.mark.parametrize(
    ("options", "is_told"),
    [
        ({}, True),
        ({"model_control_mode": "poll"}, True),
        ({"exit_on_error": False}, False),
        ({"model_control_mode": "explicit"}, False),
        ({"model_control_mode": "ondemand"}, False),
        ({"model_control_mode": "explicit", "load_model": "good"}, False),
        ({"model_control_mode": "explicit", "load_model": "wrong"}, True),
        ({"model_control_mode": "explicit", "load_model": "*"}, True),
        ({"model_namespacing": True}, False),
        ({"ray_address": "auto"}, False),
    ],
)
def test_models_count_where_their_failure_would_end_the_server(
    repository: Path, options: dict[str, Any], is_told: bool
) -> None:
    assert bool(found(repository, **options).models) is is_told


def test_a_model_of_two_repositories_does_not_end_a_server(repository: Path) -> None:
    (repository / "other/wrong/1").mkdir(parents=True)
    both = [str(repository), str(repository / "other")]
    assert "wrong" not in found(repository, model_repository=both).models


def test_a_model_with_agents_and_an_ensemble_of_it_are_left_to_the_load(repository: Path) -> None:
    agents = 'model_repository_agents { agents [ { name: "none" } ] }'
    (repository / "good/config.pbtxt").write_text(GOOD + agents)
    (repository / "both/1").mkdir(parents=True)
    maps = 'input_map { key: "IN" value: "IN" } output_map { key: "OUT" value: "OUT" }'
    step = f'model_name: "good" model_version: -1 {maps}'
    (repository / "both/config.pbtxt").write_text(
        GOOD.replace('backend: "identity"', 'platform: "ensemble"')
        + f"ensemble_scheduling {{ step [ {{ {step} }} ] }}"
    )
    assert list(found(repository).models) == ["wrong"]
    signed = {"require_signed_models": True, "trusted_keys": str(repository / "keys")}
    (repository / "keys").write_text("")
    assert list(found(repository, **signed).models) == ["wrong"]


def test_all_problems_are_found_at_once(repository: Path) -> None:
    policy = repository / "policy.yaml"
    policy.write_text("grant: []")
    with socket.socket() as one, socket.socket() as other:
        for taken in (one, other):
            taken.bind(("127.0.0.1", 0))
            taken.listen()
        ports = [taken.getsockname()[1] for taken in (one, other)]
        problems = found(
            repository, access_policy=str(policy), http_port=ports[0], grpc_port=ports[1]
        )
    texts = problems.general
    assert [text.partition(":")[0] for text in texts[1:]] == ["--http-port", "--grpc-port"]
    assert "unknown key 'grant'" in texts[0]
    assert list(problems.models) == ["wrong"]


def test_a_repository_that_is_not_there_is_one_problem(tmp_path: Path) -> None:
    (text,) = found(tmp_path / "none").general
    assert text == f"Internal - failed to open directory {tmp_path}/none: No such file or directory"


def test_a_repository_in_a_store_is_not_asked(tmp_path: Path) -> None:
    assert found(tmp_path, model_repository="s3://bucket/models") == Problems(
        options=("s3://bucket/models",)
    )


def test_another_process_looks_and_tells(repository: Path) -> None:
    seen = Problems(("a",), {"m": ("b", "c")}, ("/r",))
    assert Look(lambda: seen).wait() == seen
    assert Look(lambda: found(repository)).wait() == found(repository)


def test_a_look_that_fails_or_ends_keeps_nobody_from_starting() -> None:
    def fail() -> Problems:
        raise ValueError

    assert Look(fail).wait() is None
    assert Look(lambda: os._exit(1)).wait() is None


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_look_that_is_interrupted_removes_what_it_has_made(number: int, tmp_path: Path) -> None:
    folder = tmp_path / "made"
    reading, writing = os.pipe()

    def hang() -> Problems:
        folder.mkdir()
        try:
            os.write(writing, b".")
            threading.Event().wait()
        finally:
            folder.rmdir()
        return Problems()

    look = Look(hang)
    os.read(reading, 1)
    os.kill(look._pid, number)
    assert look.wait() is None
    assert not folder.exists()
    os.close(reading)
    os.close(writing)


def test_a_look_that_takes_too_long_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(beforehand, "_PATIENCE_S", 0.0)

    def hang() -> Problems:
        threading.Event().wait()
        return Problems()

    look = Look(hang)
    assert look.wait() is None
    with pytest.raises(ChildProcessError):
        os.waitpid(look._pid, 0)


def test_models_are_counted_by_their_directories(repository: Path) -> None:
    (repository / ".git").mkdir()
    (repository / "file").write_text("")
    assert count_models(str(repository)) == 2
    assert count_models(str(repository / "good")) == 1
    assert count_models(str(repository / "none")) is None
    assert count_models("s3://bucket/models") is None
