# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Rollouts on a real server: one of each kind, and what dies meanwhile."""

import http.client
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import grpc
import pytest

from cluster.commands.rollout import main as rollout_command
from deployments.grpc.codec import rollouts as codec
from tests.support.rollout_models import (
    BROKEN,
    Load,
    RolloutClient,
    count_versions,
    write_rollout_models,
)
from tests.support.server import RunningServer, until
from tests.support.shared_server import brought


def _split(first: int, second: int, weight: int, **more: Any) -> dict[str, Any]:
    arms = [
        {"name": "one", "version": first, "weight": 100 - weight},
        {"name": "two", "version": second, "weight": weight},
    ]
    return {"kind": "ab", "arms": arms, **more}


def _canary(candidate: int, *metrics: dict[str, Any]) -> dict[str, Any]:
    steps = [{"weight": weight, "hold_s": 2, "min_samples": 50} for weight in (30, 50)]
    analysis = {"period_s": 1, "metrics": list(metrics)}
    return {
        "kind": "canary",
        "stable": 1,
        "candidate": candidate,
        "steps": steps,
        "analysis": analysis,
    }


_ERRORS = {"kind": "errors", "tolerance": 0.05}
_DOUBTS = {"kind": "custom", "family": "voter_doubts_total", "tolerance": 0.05}


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("models")
    write_rollout_models(folder)
    return folder


@pytest.fixture(scope="module")
def server(surface: RunningServer, models: Path) -> Iterator[RunningServer]:
    with brought(surface, models) as running:
        yield running


@pytest.fixture
def client(server: RunningServer) -> Iterator[RolloutClient]:
    with RolloutClient(server.http) as found:
        yield found


def _kill(server: RunningServer, title: str) -> None:
    processes = server.processes(title)
    assert processes
    for process in processes:
        server.kill(process)


def _wait_for_end(client: RolloutClient) -> dict[str, Any]:
    def is_over() -> bool:
        return client.rollout()["phase"] in {"promoted", "rolled_back"}

    until(is_over, "the rollout does not end")
    return dict(client.rollout())


def test_ten_thousand_requests_are_split_by_the_weights(
    server: RunningServer, client: RolloutClient
) -> None:
    assert client.version() == 5
    client.rollout("PUT", document=_split(1, 2, 30))
    counts = count_versions(server.http, 10_000)
    assert counts[1] + counts[2] == 10_000
    assert abs(counts[2] - 3000) <= 100
    until(
        lambda: sum(arm["requests"] for arm in client.rollout()["arms"]) == 10_000,
        "not all requests are counted",
    )


def test_an_ensemble_and_a_caller_get_one_version_for_a_request(client: RolloutClient) -> None:
    client.rollout("PUT", document=_split(1, 2, 50))
    seen = set()
    for number in range(40):
        outputs = client.outputs("pair", number)
        assert outputs["FIRST"] == outputs["SECOND"]
        first, second = client.outputs("caller", number)["VERSIONS"]
        assert first == second
        seen.add(first)
    assert seen == {1, 2}


def test_rules_look_at_headers_and_parameters(client: RolloutClient) -> None:
    rules = [
        {"arm": "two", "conditions": [{"source": "header", "name": "X-Group", "values": ["b"]}]},
        {"arm": "two", "conditions": [{"source": "parameter", "name": "beta", "how": "present"}]},
    ]
    client.rollout("PUT", document=_split(1, 2, 0, rules=rules))
    assert client.version() == 1
    assert client.version(headers={"x-group": "b"}) == 2
    assert client.version(parameters={"beta": True}) == 2


def test_a_version_that_is_named_or_not_loaded_and_a_bad_document(client: RolloutClient) -> None:
    client.rollout("PUT", document=_split(1, 2, 0))
    status, answer = client.ask("PUT", "/v2/models/voter/rollout", {**_canary(9, _ERRORS)})
    assert status == 400
    assert "version_policy" in answer["error"]
    assert client.ask("PUT", "/v2/models/voter/rollout", {"kind": "no"})[0] == 400
    assert client.ask("GET", "/v2/models/pair/rollout")[0] == 404
    assert client.outputs("voter/versions/4", 1)["VERSION"] == [4]


def test_grpc_and_the_command_do_as_http_does(
    server: RunningServer, client: RolloutClient, capsys: pytest.CaptureFixture[str]
) -> None:
    client.rollout("PUT", document=_split(1, 2, 10))
    request = codec.message("RolloutRequest")(model_name="voter")
    with grpc.insecure_channel(server.grpc) as channel:
        answer = channel.unary_unary("/manta.v1.Rollouts/GetRollout")(request.SerializeToString())
    told = codec.message("RolloutResponse").FromString(answer)
    assert told.rollout["model"] == "voter"
    assert told.rollout["phase"] == "progressing"
    assert rollout_command(["voter", "get", "--url", server.http]) == 0
    assert json.loads(capsys.readouterr().out)["phase"] == "progressing"
    assert rollout_command(["nobody", "get", "--url", server.http]) == 1


def test_sticky_keys_keep_their_version_when_the_ingress_is_replaced(
    server: RunningServer, client: RolloutClient
) -> None:
    sticky = {"source": "header", "name": "x-user"}
    client.rollout("PUT", document=_split(1, 2, 50, sticky=sticky))

    def versions() -> dict[int, int]:
        with RolloutClient(server.http) as here:
            return {user: here.version(headers={"x-user": f"u{user}"}) for user in range(60)}

    before = versions()
    assert set(before.values()) == {1, 2}
    assert versions() == before
    _kill(server, "ray::ServeReplica:manta:Ingress")
    until(lambda: _is_ready(server), "no ingress comes back")
    assert versions() == before


def _is_ready(server: RunningServer) -> bool:
    try:
        with RolloutClient(server.http) as client:
            return client.version(headers={"x-user": "u0"}) != 0
    except (OSError, http.client.HTTPException):
        return False


def test_a_good_canary_is_promoted_though_the_controller_dies(
    server: RunningServer, client: RolloutClient
) -> None:
    client.rollout("PUT", document=_canary(2, _ERRORS, _DOUBTS))
    with Load(server.http) as load:
        until(lambda: load.answers > 100, "no answers")
        _kill(server, "ray::ModelController")
        told = _wait_for_end(client)
    assert told["phase"] == "promoted", told
    assert load.failures == 0
    assert client.version() == 2
    actions = [each["action"] for each in told["history"]]
    assert actions == ["start", "step", "promote", "promoted"]


@pytest.mark.parametrize(
    ("candidate", "metric"),
    [
        (3, _ERRORS),
        pytest.param(5, {"kind": "p95", "tolerance": 0.5}, marks=pytest.mark.long),
        pytest.param(4, _DOUBTS, marks=pytest.mark.long),
    ],
)
def test_a_canary_that_fails_or_is_slow_or_doubtful_is_rolled_back(
    server: RunningServer, client: RolloutClient, candidate: int, metric: dict[str, Any]
) -> None:
    client.rollout("PUT", document=_canary(candidate, metric))
    with Load(server.http):
        told = _wait_for_end(client)
    assert told["phase"] == "rolled_back", told
    assert f"{metric.get('family', metric['kind'])}: worse" in told["reason"]
    assert {client.version() for _ in range(10)} == {1}


def test_blue_green_switches_all_requests_at_once_and_back_on_a_rollback(
    server: RunningServer, client: RolloutClient
) -> None:
    client.rollout("PUT", document=_split(1, 2, 0))
    document = {"kind": "blue_green", "stable": 1, "candidate": 2, "warm_s": 2}
    with Load(server.http) as load:
        client.rollout("PUT", document=document)
        until(lambda: client.rollout()["phase"] == "promoting", "it does not switch")
        until(lambda: all(turns[-1:] == [2] for turns in load.turns), "not all switch")
        assert {client.version() for _ in range(10)} == {2}
        client.rollout("POST", "rollback")
        assert {client.version() for _ in range(10)} == {1}
        until(lambda: all(turns[-1] == 1 for turns in load.turns), "not all switch back")
        told = _wait_for_end(client)
    assert load.failures == 0
    # Nobody has met the two versions in turns.
    assert [turns.count(2) for turns in load.turns] == [1] * 4
    assert told["phase"] == "rolled_back"
    weights = [each["weights"]["green"] for each in told["history"]]
    assert weights == [100, 0, 0]


def test_a_ramp_rises_by_the_clock_and_stands_while_it_is_paused(
    server: RunningServer, client: RolloutClient
) -> None:
    def weight() -> float:
        (arm,) = [arm for arm in client.rollout()["arms"] if arm["name"] == "ramp"]
        return float(arm["weight"])

    points = [{"at_s": 2, "weight": 20}, {"at_s": 10, "weight": 60}, {"at_s": 11, "weight": 100}]
    client.rollout("PUT", document={"kind": "ramp", "stable": 1, "candidate": 2, "points": points})
    until(lambda: weight() >= 20, "the weight does not rise")
    client.rollout("POST", "pause")
    held = weight()
    assert abs(count_versions(server.http, 1000)[2] - 10 * held) <= 20
    assert weight() == held
    client.rollout("POST", "resume")
    told = _wait_for_end(client)
    assert told["phase"] == "promoted"
    weights = [each["weights"]["ramp"] for each in told["history"]]
    assert weights == sorted(weights)
    assert held in weights
    assert (weights[0], weights[-1]) == (0, 100)
    assert {client.version() for _ in range(10)} == {2}


def test_a_shadow_is_compared_and_its_death_is_no_concern_of_clients(
    server: RunningServer, client: RolloutClient, mismatches: Path
) -> None:
    def shadow() -> dict[str, Any]:
        return next(arm for arm in client.rollout()["arms"] if arm["name"] == "shadow")

    client.rollout("PUT", document={"kind": "shadow", "stable": 1, "shadow": {"version": 4}})
    assert {client.version() for _ in range(20)} == {1}
    until(lambda: shadow()["mirrored"] == 20, "not all requests are mirrored")
    assert shadow()["mismatches"] == 20
    lines = [
        json.loads(line) for path in mismatches.iterdir() for line in path.read_text().splitlines()
    ]
    assert lines[0]["shadow_version"] == 4
    assert lines[0]["output"] in {"VERSION", "Y"}
    with Load(server.http) as load:
        _kill(server, "ray::voter/4")
        until(lambda: load.answers > 200, "no answers")
    assert load.failures == 0


def test_metrics_tell_of_the_rollout_and_ending_it_brings_the_newest_back(
    server: RunningServer, client: RolloutClient
) -> None:
    client.rollout("PUT", document=_split(1, 2, 25))
    with RolloutClient(server.metrics) as metrics:
        page = metrics.text("/metrics")
    assert 'manta_rollout_weight{model="voter",version="2",arm="two"} 0.25' in page
    client.rollout("DELETE")
    assert client.version() == 5


@pytest.mark.long
def test_a_green_version_that_dies_for_good_after_the_switch_gives_its_requests_back(
    server: RunningServer, client: RolloutClient, models: Path
) -> None:
    client.rollout("PUT", document=_split(1, 2, 0))
    document = {"kind": "blue_green", "stable": 1, "candidate": 2, "warm_s": 1}
    with Load(server.http) as load:
        client.rollout("PUT", document=document)
        until(lambda: all(turns[-1:] == [2] for turns in load.turns), "not all switch")
        (models / "voter" / "2" / BROKEN).touch()
        _kill(server, "ray::voter/2")
        told = _wait_for_end(client)
        until(lambda: all(turns[-1] == 1 for turns in load.turns), "not all switch back")
    assert told["phase"] == "rolled_back"
    assert told["reason"] == "version 2 cannot serve"
    # None but what the instance had begun: at most one of each thread.
    assert load.failures <= 4
    assert {client.version() for _ in range(10)} == {1}
