# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""A server serves models of the Hugging Face Hub and of MLflow, beside each other."""

import os
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import onnx
import pytest
import tritonclient.http as triton_http
import yaml

from tests.support.hub_server import HubServer
from tests.support.mlflow_server import MlflowServer
from tests.support.onnx_graphs import FLOAT, save, value
from tests.support.server import RunningServer

MLMODEL = yaml.safe_dump({"flavors": {"onnx": {"data": "model.onnx"}}}).encode()
SECRETS = ("hub-secret", "mlflow-secret")
# Larger than what nodes leave to the store, so that files come in parts and by their digests.
BALLAST = "x" * (6 << 20)


def graph(directory: Path, operator: str, ballast: str = "") -> bytes:
    path = directory / "made.onnx"
    node = onnx.helper.make_node(operator, ["IN", "IN"], ["OUT"], doc_string=ballast)
    save(str(path), [node], [value("IN", FLOAT, [2])], [value("OUT", FLOAT, [2])])
    return path.read_bytes()


def ask(client: triton_http.InferenceServerClient, model: str, version: str = "") -> float:
    given = triton_http.InferInput("IN", [2], "FP32")
    given.set_data_from_numpy(np.array([3, 3], np.float32))
    return float(client.infer(model, [given], model_version=version).as_numpy("OUT")[0])


@pytest.fixture
def services() -> Iterator[tuple[HubServer, MlflowServer]]:
    with HubServer(token=SECRETS[0]) as hub, MlflowServer(user=f"me:{SECRETS[1]}") as mlflow:
        yield hub, mlflow


def test_models_of_the_hub_and_of_mlflow_are_served(
    services: tuple[HubServer, MlflowServer], tmp_path: Path
) -> None:
    hub, mlflow = services
    hub.push("org/net", {"README.md": b"#", "model.onnx": graph(tmp_path, "Add", BALLAST)})
    add, multiply = graph(tmp_path, "Add", BALLAST), graph(tmp_path, "Mul")
    mlflow.register("registered", 1, {"MLmodel": MLMODEL, "model.onnx": add})
    server = RunningServer(
        "hf://org/net",  # type: ignore[arg-type]
        f"--model-repository=mlflow://{mlflow.address}/models/registered",
        "--model-control-mode=explicit",
        "--load-model=*",
        f"--model-cache-directory={tmp_path / 'cache'}",
        environment=dict(os.environ) | hub.environ | mlflow.environ,
    )
    client = triton_http.InferenceServerClient(server.http, network_timeout=120.0)
    try:
        assert (ask(client, "net"), ask(client, "registered")) == (6, 6)
        hub.push("org/net", {"README.md": b"##", "model.onnx": multiply})
        mlflow.register("registered", 2, {"MLmodel": MLMODEL, "model.onnx": multiply})
        client.load_model("net")
        client.load_model("registered")
        assert (ask(client, "net"), ask(client, "registered", "2")) == (9, 9)
        # What the node has is not downloaded again.
        client.unload_model("net")
        before = len(hub.requests)
        client.load_model("net")
        assert ask(client, "net") == 9
        assert not any("/resolve/" in path for path in hub.requests[before:])
        assert not hub.leaked
    finally:
        client.close()
        assert server.terminate() == 0
    text = "".join(server.lines)
    assert not any(secret in text for secret in SECRETS)
