# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Index, load and unload as stock clients do them, and what they leave behind."""

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
