# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""A server whose model repository is in a store does what one with a local directory does."""

import hashlib
import os
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import tritonclient.http as triton_http
from tritonclient.utils import InferenceServerException

from cluster.repository.stores.contracts import Store
from tests.support.object_stores import Emulator
from tests.support.server import RunningServer
from tests.support.toxic_proxy import Toxic, always

CODE = """
import pathlib
import triton_python_backend_utils as pb_utils

class TritonPythonModel:
    def initialize(self, args):
        folder = pathlib.Path(args["model_repository"])
        self.add = float((folder / args["model_version"] / "weights.txt").read_text())

    def execute(self, requests):
        return [pb_utils.InferenceResponse(output_tensors=[pb_utils.Tensor(
            "OUT", pb_utils.get_input_tensor_by_name(r, "IN").as_numpy() + np.float32(self.add))])
            for r in requests]
""".replace("import pathlib", "import pathlib\nimport numpy as np")
CONFIG = """
backend: "python"
version_policy { all {} }
input { name: "IN" data_type: TYPE_FP32 dims: 2 }
output { name: "OUT" data_type: TYPE_FP32 dims: 2 }
"""
# Larger than what nodes leave to the store, so that it passes the registry of contents.
BALLAST = bytes(range(256)) * 1024


def put_version(store: Store, model: str, version: int, add: float) -> None:
    store.write(f"{model}/{version}/weights.txt", str(add).encode())
    store.write(f"{model}/{version}/ballast.bin", BALLAST)
    store.write(f"{model}/{version}/model.py", CODE.encode())


def put_model(store: Store, model: str, add: float) -> None:
    put_version(store, model, 1, add)
    store.write(f"{model}/config.pbtxt", CONFIG.encode())


def ask(client: triton_http.InferenceServerClient, model: str, version: str = "") -> float:
    given = triton_http.InferInput("IN", [2], "FP32")
    given.set_data_from_numpy(np.array([1, 1], np.float32))
    return float(client.infer(model, [given], model_version=version).as_numpy("OUT")[0])


@pytest.fixture
def served(
    emulator: Emulator, directory: str, store: Store, tmp_path: Path
) -> Iterator[tuple[RunningServer, triton_http.InferenceServerClient, Store, Path]]:
    put_model(store, "adds", 1)
    put_model(store, "other", 10)
    cache = tmp_path / "cache"
    server = RunningServer(
        emulator.location(directory),  # type: ignore[arg-type]
        "--model-control-mode=explicit",
        "--load-model=adds",
        f"--model-cache-directory={cache}",
        environment=dict(os.environ) | dict(emulator.environ),
    )
    client = triton_http.InferenceServerClient(server.http, network_timeout=120.0)
    yield server, client, store, cache
    client.close()
    assert server.terminate() == 0
    text = "".join(server.lines)
    assert "very-secret" not in text


def test_a_repository_in_a_store_is_served(served, emulator: Emulator) -> None:
    _, client, store, cache = served
    assert ask(client, "adds") == 2
    index = {row["name"]: row.get("state", "") for row in client.get_model_repository_index()}
    assert index == {"adds": "READY", "other": ""}
    client.load_model("other")
    assert ask(client, "other") == 11
    assert any(path.is_file() for path in cache.rglob("*"))

    put_version(store, "adds", 2, 5)
    client.load_model("adds")
    assert (ask(client, "adds"), ask(client, "adds", "1")) == (6, 2)

    client.unload_model("other")
    with pytest.raises(InferenceServerException):
        ask(client, "other")
    # What the node has is not downloaded again: listings and configs are smaller than one file.
    before = emulator.proxy.sent_bytes
    client.load_model("other")
    assert ask(client, "other") == 11
    assert emulator.proxy.sent_bytes - before < len(BALLAST)

    with pytest.raises(InferenceServerException, match="failed to poll from model repository"):
        client.load_model("missing")

    # A store that is away disturbs nothing that is served.
    emulator.proxy.choose = always(Toxic(status=503))
    assert ask(client, "adds") == 6


@pytest.mark.parametrize("emulator", ["s3"], indirect=True)
def test_a_checksum_mismatch_on_the_node_refuses_the_load(served) -> None:
    _, client, store, _ = served
    checksum = 'model_repository_agents { agents { name: "checksum" parameters %s } }'
    right = hashlib.md5(b"10", usedforsecurity=False).hexdigest()
    for digest in ("0" * 32, right):
        parameter = f'{{ key: "MD5:1/weights.txt" value: "{digest}" }}'
        store.write("other/config.pbtxt", (CONFIG + checksum % parameter).encode())
        if digest != right:
            with pytest.raises(InferenceServerException, match="Mismatched MD5 hash for file 1/w"):
                client.load_model("other")
    client.load_model("other")
    assert (ask(client, "other"), ask(client, "adds")) == (11, 2)
