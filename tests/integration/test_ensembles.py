# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Ensembles on a real server with two ingress replicas, through stock clients."""

import threading
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import psutil
import pytest
import tritonclient.grpc as triton_grpc
import tritonclient.http as triton_http
from tritonclient.utils import InferenceServerException

from tests.support.ensemble_models import write_ensemble, write_ensembles
from tests.support.server import RunningServer
from tests.support.shared_server import brought


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the models of this module leave files; the repository lies in it."""
    folder = tmp_path_factory.mktemp("ensembles")
    write_ensembles(folder / "models")
    write_ensemble(folder / "models", "misfit", "add Q=X -> Y")
    return folder


@pytest.fixture(scope="module")
def running(surface: RunningServer, folder: Path) -> Iterator[RunningServer]:
    models = ("chain", "diamond", "nested", "outer", "stream", "paced", "hanging", "alone")
    with brought(surface, folder / "models", models) as server:
        yield server


@pytest.fixture
def http(running: RunningServer) -> Iterator[triton_http.InferenceServerClient]:
    with triton_http.InferenceServerClient(running.http, network_timeout=60) as client:
        yield client


def _inputs(client: object, *values: int) -> list[object]:
    tensor = client.InferInput("X", [1, len(values)], "INT32")  # type: ignore[attr-defined]
    tensor.set_data_from_numpy(np.array([values], np.int32))
    return [tensor]


def _infer(client: triton_http.InferenceServerClient, model: str, *values: int) -> list[int]:
    found = client.infer(model, _inputs(triton_http, *values), request_id="r").as_numpy("Y")
    numbers: list[int] = found[0].tolist()
    return numbers


def _error_of(client: triton_http.InferenceServerClient, model: str) -> str:
    with pytest.raises(InferenceServerException) as caught:
        _infer(client, model, 1)
    return str(caught.value.message())


def test_steps_follow_each_other(http: triton_http.InferenceServerClient) -> None:
    assert _infer(http, "chain", 1, 2) == [8, 16]


def test_independent_steps_run_at_the_same_time(http: triton_http.InferenceServerClient) -> None:
    assert _infer(http, "diamond", 5) == [12]


def test_an_ensemble_is_a_step_and_an_optional_input_may_be_left_out(
    http: triton_http.InferenceServerClient,
) -> None:
    assert _infer(http, "nested", 3) == [24]


def test_errors_name_the_ensembles_they_came_through(
    http: triton_http.InferenceServerClient,
) -> None:
    assert _error_of(http, "outer") == "in ensemble 'outer', in ensemble 'refused', no thanks"


def test_large_tensors_pass_through_steps_unchanged(
    http: triton_http.InferenceServerClient,
) -> None:
    values = np.arange(1 << 18, dtype=np.int32).reshape(1, -1)
    tensor = triton_http.InferInput("X", list(values.shape), "INT32")
    tensor.set_data_from_numpy(values)
    for _ in range(3):
        found = http.infer("chain", [tensor]).as_numpy("Y")
        np.testing.assert_array_equal(found, values * 8)


def test_a_decoupled_step_makes_the_ensemble_decoupled(running: RunningServer) -> None:
    answers: list[object] = []
    ended = threading.Event()

    def take(result: triton_grpc.InferResult | None, error: Exception | None) -> None:
        answers.append(error or result.as_numpy("Y")[0].tolist())  # type: ignore[union-attr]
        if len(answers) == 3:
            ended.set()

    with triton_grpc.InferenceServerClient(running.grpc) as client:
        config = client.get_model_config("stream", as_json=True)["config"]
        assert config["model_transaction_policy"] == {"decoupled": True}
        client.start_stream(take)
        client.async_stream_infer("stream", _inputs(triton_grpc, 10))
        assert ended.wait(30)
        client.stop_stream()
    assert answers == [[20], [22], [24]]


def test_a_decoupled_step_waits_for_the_steps_that_follow(
    folder: Path, running: RunningServer
) -> None:
    answers: list[object] = []
    ended = threading.Event()

    def take(result: triton_grpc.InferResult | None, error: Exception | None) -> None:
        answers.append(error or result.as_numpy("Y")[0, 0])  # type: ignore[union-attr]
        if len(answers) == 40:
            ended.set()

    with triton_grpc.InferenceServerClient(running.grpc) as client:
        client.start_stream(take)
        client.async_stream_infer("paced", _inputs(triton_grpc, 0))
        while not (folder / "gated").exists():  # the test's own time limit bounds it
            time.sleep(0.01)
        # Four in the step that waits, four in front of it: the model cannot have sent ten.
        assert not (folder / "sent10").exists()
        (folder / "gate").touch()
        assert ended.wait(60)
        client.stop_stream()
    assert answers == list(range(40))
    assert (folder / "sent40").exists()


def test_counters_are_those_of_all_ingress_replicas(
    running: RunningServer, http: triton_http.InferenceServerClient
) -> None:
    before = _counts(http, "chain"), _counts(http, "double")
    for _ in range(20):
        # A connection each, so that both replicas get some.
        with triton_http.InferenceServerClient(running.http) as client:
            _infer(client, "chain", 1)
    after = _counts(http, "chain"), _counts(http, "double")
    assert after[0] - before[0] == 20
    assert after[1] - before[1] == 60


def _counts(client: triton_http.InferenceServerClient, model: str) -> int:
    (row,) = client.get_inference_statistics(model)["model_stats"]
    assert row["inference_count"] == row["inference_stats"]["success"]["count"]
    count: int = row["inference_count"]
    return count


def test_a_step_that_is_killed_twice_gives_one_clear_error_and_the_ensemble_comes_back(
    folder: Path, running: RunningServer, http: triton_http.InferenceServerClient
) -> None:
    (folder / "hang").touch()
    errors: list[str] = []
    caller = threading.Thread(target=lambda: errors.append(_error_on(running, "hanging")))
    caller.start()
    # The first time the request is sent to the instance that follows.
    for is_last in (False, True):
        while not (folder / "hangs").exists():
            assert caller.is_alive()
        (folder / "hangs").unlink()
        if is_last:
            (folder / "hang").unlink()
        running.kill(_instance(running, "hang"))
    caller.join(60)
    (error,) = errors
    assert error.startswith("in ensemble 'hanging', ")
    assert "model 'hang'" in error
    assert _infer_when_back(running, http, "hanging") == [4]


def _infer_when_back(
    server: RunningServer, client: triton_http.InferenceServerClient, model: str
) -> list[int]:
    while server.process.poll() is None:
        try:
            return _infer(client, model, 1)
        except InferenceServerException as error:
            message = str(error)
        assert f"in ensemble '{model}', " in message
    raise AssertionError("the server ended")


def _error_on(server: RunningServer, model: str) -> str:
    with triton_http.InferenceServerClient(server.http, network_timeout=60) as client:
        return _error_of(client, model)


def _instance(server: RunningServer, model: str) -> psutil.Process:
    (found,) = server.processes(f"ray::{model}/1") or server.processes(f"manta: {model}/1")
    return found


def test_an_ensemble_goes_and_comes_with_its_models(
    http: triton_http.InferenceServerClient,
) -> None:
    http.unload_model("own")
    assert not http.is_model_ready("alone")
    assert _states(http, "alone", "own") == {
        "alone": ("UNAVAILABLE", "unloaded"),
        "own": ("UNAVAILABLE", "unloaded"),
    }
    http.load_model("own")
    assert _infer(http, "alone", 1) == [2]
    # It was asked for now, so it stays.
    http.unload_model("alone", unload_dependents=True)
    assert _states(http, "own") == {"own": ("READY", "")}


def _states(client: triton_http.InferenceServerClient, *names: str) -> dict[str, tuple[str, str]]:
    rows = client.get_model_repository_index()
    return {
        row["name"]: (row["state"], row.get("reason", "")) for row in rows if row["name"] in names
    }


def test_an_ensemble_that_does_not_fit_its_models_is_not_loaded(
    http: triton_http.InferenceServerClient,
) -> None:
    with pytest.raises(InferenceServerException) as caught:
        http.load_model("misfit")
    assert (
        "in ensemble misfit, ensemble tensor X is mapping to non-existing input Q in model add"
        in str(caught.value)
    )
