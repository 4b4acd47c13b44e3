# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Index, load and unload as stock clients do them, and what they leave behind."""

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

import numpy as np
import psutil
import pytest
import tritonclient.grpc as triton_grpc
import tritonclient.http as triton_http
from tritonclient.utils import InferenceServerException

from tests.support.clients import add_sub_inputs, check_add_sub
from tests.support.server import RunningServer


def test_unload_ends_the_processes_and_load_brings_the_model_back(server: RunningServer) -> None:
    with triton_http.InferenceServerClient(server.http) as client:
        processes = server.processes("ray::add_sub/1")
        assert processes
        client.unload_model("add_sub")
        _, alive = psutil.wait_procs(processes, timeout=10)
        assert not alive
        assert not client.is_model_ready("add_sub")
        with pytest.raises(InferenceServerException, match="has no available versions"):
            client.infer("add_sub", add_sub_inputs(triton_http))
        index = {row["name"]: row for row in client.get_model_repository_index()}
        assert index["add_sub"]["state"] == "UNAVAILABLE"
        assert index["add_sub"]["reason"] == "unloaded"
        client.load_model("add_sub")
        check_add_sub(client.infer("add_sub", add_sub_inputs(triton_http)))


def test_reload_over_grpc_with_a_config_override(server: RunningServer) -> None:
    override = """{"backend":"python","max_batch_size":4,
        "input":[{"name":"INPUT0","data_type":"TYPE_INT32","dims":[16]},
                 {"name":"INPUT1","data_type":"TYPE_INT32","dims":[16]}],
        "output":[{"name":"OUTPUT0","data_type":"TYPE_INT32","dims":[16]},
                  {"name":"OUTPUT1","data_type":"TYPE_INT32","dims":[16]}]}"""
    with triton_grpc.InferenceServerClient(server.grpc) as client:
        client.load_model("add_sub", config=override)
        assert client.get_model_config("add_sub").config.max_batch_size == 4
        check_add_sub(client.infer("add_sub", add_sub_inputs(triton_grpc)))
        # As in Triton, an override stays until the files change or the model is unloaded.
        client.load_model("add_sub")
        assert client.get_model_config("add_sub").config.max_batch_size == 4
        client.unload_model("add_sub")
        client.load_model("add_sub")
        assert client.get_model_config("add_sub").config.max_batch_size == 8


def test_loading_an_unknown_model_is_an_internal_error(server: RunningServer) -> None:
    with (
        triton_http.InferenceServerClient(server.http) as client,
        pytest.raises(InferenceServerException, match="failed to load 'nowhere', failed to poll"),
    ):
        client.load_model("nowhere")


@pytest.mark.parametrize("name", ["", " ", "\t\n"])
def test_loading_a_model_without_a_name_is_an_invalid_argument(
    server: RunningServer, name: str
) -> None:
    with triton_grpc.InferenceServerClient(server.grpc) as client:
        with pytest.raises(InferenceServerException) as caught:
            client.load_model(name)
        assert caught.value.message() == (
            "Model name cannot be empty. Please enter a valid name to deploy."
        )
        assert caught.value.status() == "StatusCode.INVALID_ARGUMENT"
        assert all(model.name.strip() for model in client.get_model_repository_index().models)


def test_statistics_count_inferences_over_the_cluster(server: RunningServer) -> None:
    with triton_http.InferenceServerClient(server.http) as client:
        before = client.get_inference_statistics("simple")["model_stats"][0]
        for _ in range(5):
            client.infer("simple", add_sub_inputs(triton_http))
        after = client.get_inference_statistics("simple")["model_stats"][0]
    assert after["inference_count"] - before["inference_count"] == 5
    counts = [
        after["inference_stats"][part]["count"] for part in ("compute_input", "compute_infer")
    ]
    assert counts == [after["inference_stats"]["success"]["count"]] * 2


def test_metrics_have_tritons_names(server: RunningServer) -> None:
    from urllib.request import urlopen

    with urlopen(f"http://{server.metrics}/metrics") as answer:
        text = answer.read().decode()
    assert "# TYPE nv_inference_request_success counter" in text
    assert 'nv_inference_request_success{model="digits",version="1"}' in text


@dataclass
class _Load:
    """What clients saw that asked `counting` all the time.

    Attributes:
        counts: By process: what it had counted, in the order of the answers to each client.
        errors: What failed.
    """

    counts: list[dict[int, list[int]]] = field(default_factory=list)
    errors: list[BaseException] = field(default_factory=list)

    @property
    def answered(self) -> int:
        return sum(len(counts) for client in self.counts for counts in client.values())


def _ask(client: triton_http.InferenceServerClient) -> tuple[int, int]:
    tensor = triton_http.InferInput("IN", [1, 1], "INT32")
    tensor.set_data_from_numpy(np.zeros((1, 1), np.int32))
    pid, count = client.infer("counting", [tensor]).as_numpy("PID_AND_COUNT")[0]
    return int(pid), int(count)


@contextmanager
def _clients_at_work(server: RunningServer, count: int) -> Iterator[_Load]:
    load, is_over = _Load(), threading.Event()

    def work(seen: dict[int, list[int]]) -> None:
        try:
            with triton_http.InferenceServerClient(server.http) as client:
                while not is_over.is_set():
                    pid, number = _ask(client)
                    seen.setdefault(pid, []).append(number)
        except BaseException as error:
            load.errors.append(error)

    load.counts = [{} for _ in range(count)]
    threads = [threading.Thread(target=work, args=(seen,)) for seen in load.counts]
    for thread in threads:
        thread.start()
    try:
        yield load
    finally:
        is_over.set()
        for thread in threads:
            thread.join()


def test_groups_and_policy_change_under_load_and_what_stays_is_not_touched(
    server: RunningServer,
) -> None:
    with triton_http.InferenceServerClient(server.http) as client:
        config = client.get_model_config("counting")

        def load(count: int, policy: dict[str, object]) -> None:
            config["instance_group"][0]["count"] = count
            config["version_policy"] = policy
            client.load_model("counting", config=json.dumps(config))

        def versions() -> dict[str, str]:
            rows = client.get_model_repository_index()
            return {row["version"]: row["state"] for row in rows if row["name"] == "counting"}

        newest = {"latest": {"num_versions": 1}}
        first, _ = _ask(client)
        with _clients_at_work(server, 3) as seen:
            load(3, newest)
            grown = server.processes("ray::counting/3")
            load(3, {"specific": {"versions": [1, 3]}})
            assert {v: versions()[v] for v in "13"} == {"1": "READY", "3": "READY"}
            load(1, {"specific": {"versions": [2, 3]}})
            left = [process for process in grown if process.pid != first]
            _, alive = psutil.wait_procs(left, timeout=30)
            last, _ = _ask(client)
        assert not seen.errors
        assert len(grown) == 3
        assert not alive
        assert (first in {process.pid for process in grown}, last) == (True, first)
        # No process was started anew, so none counted from the beginning again.
        for counts in (counts for of_client in seen.counts for counts in of_client.values()):
            assert counts == sorted(counts)
        # Nothing changes; the answer comes when every ingress knows what has left.
        load(1, {"specific": {"versions": [2, 3]}})
        statistics = client.get_inference_statistics("counting", "3")["model_stats"][0]
        assert statistics["inference_count"] == seen.answered + 2
        assert (
            client.get_model_config("counting", "3")["version_policy"] == config["version_policy"]
        )
        client.unload_model("counting")
        client.load_model("counting")
        assert client.get_model_config("counting")["instance_group"][0]["count"] == 1
