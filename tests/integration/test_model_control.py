# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Loads with files and configs, dependents and the index, as stock clients do them."""

import json
from types import ModuleType
from typing import Any

import numpy as np
import pytest
import tritonclient.grpc as triton_grpc
import tritonclient.http as triton_http
from tritonclient.utils import InferenceServerException

from tests.integration.conftest import client_of
from tests.support.server import RunningServer

pytestmark = pytest.mark.parametrize("module", [triton_http, triton_grpc], ids=["http", "grpc"])

SCALED = """
import triton_python_backend_utils as pb_utils
from factor import FACTOR


class TritonPythonModel:
    def execute(self, requests):
        return [pb_utils.InferenceResponse([pb_utils.Tensor(
            "OUT", pb_utils.get_input_tensor_by_name(r, "IN").as_numpy() * FACTOR)])
            for r in requests]
"""
TENSOR = {"data_type": "TYPE_INT32", "dims": [4]}
CONFIG: dict[str, Any] = {
    "backend": "python",
    "instance_group": [{"kind": "KIND_CPU"}],
    "input": [{"name": "IN", **TENSOR}],
    "output": [{"name": "OUT", **TENSOR}],
}


def files(factor: int, version: int = 1) -> dict[str, bytes]:
    return {
        f"file:{version}/model.py": SCALED.encode(),
        f"file:{version}/factor.py": f"FACTOR = {factor}\n".encode(),
    }


def scaled(client: Any, module: ModuleType, name: str, **how: Any) -> list[int]:
    given = module.InferInput("IN", [4], "INT32")
    given.set_data_from_numpy(np.arange(4, dtype=np.int32))
    return client.infer(name, [given], **how).as_numpy("OUT").tolist()  # type: ignore[no-any-return]


def index_of(client: Any, module: ModuleType) -> dict[str, list[Any]]:
    if module is triton_http:
        rows = client.get_model_repository_index()
    else:
        rows = client.get_model_repository_index(as_json=True).get("models", [])
    found: dict[str, list[Any]] = {}
    for row in rows:
        found.setdefault(row["name"], []).append(row)
    return found


def test_a_model_made_of_files_given_with_the_load(
    surface: RunningServer, module: ModuleType
) -> None:
    name = f"given_{module.__name__.rpartition('.')[2]}"
    with client_of(surface, module) as client:
        both = {**files(3), **files(5, version=2)}
        policy = {"version_policy": {"all": {}}}
        client.load_model(name, config=json.dumps({**CONFIG, **policy}), files=both)
        assert scaled(client, module, name, model_version="1") == [0, 3, 6, 9]
        assert scaled(client, module, name) == [0, 5, 10, 15]
        # Other files replace these; what is not given is gone.
        client.load_model(name, config=json.dumps(CONFIG), files=files(7))
        assert scaled(client, module, name) == [0, 7, 14, 21]
        with pytest.raises(InferenceServerException, match="version 2"):
            scaled(client, module, name, model_version="2")
        client.unload_model(name)
        with pytest.raises(InferenceServerException, match="has no available versions"):
            scaled(client, module, name)


@pytest.mark.parametrize(
    ("config", "given", "text"),
    [
        (None, files(1), "failed to load 'refused', failed to poll from model repository"),
        (CONFIG, {"file:../../escaped": b"x"}, "failed to poll from model repository"),
        (CONFIG, {"file:1/model.py": b"syntax error("}, "load failed for model 'refused'"),
        ({**CONFIG, "no_such_field": 1}, files(1), "failed to load 'refused'"),
    ],
)
def test_files_that_make_no_model_are_refused_and_leave_the_server_ready(
    surface: RunningServer, module: ModuleType, config: Any, given: dict[str, bytes], text: str
) -> None:
    with client_of(surface, module) as client:
        with pytest.raises(InferenceServerException, match=text):
            client.load_model(
                "refused", config=None if config is None else json.dumps(config), files=given
            )
        assert client.is_server_live()
        assert not client.is_model_ready("refused")


def test_a_failed_reload_keeps_what_served(surface: RunningServer, module: ModuleType) -> None:
    name = f"kept_{module.__name__.rpartition('.')[2]}"
    with client_of(surface, module) as client:
        client.load_model(name, config=json.dumps(CONFIG), files=files(2))
        broken = {**files(2), "file:1/factor.py": b"raise RuntimeError('no factor')"}
        with pytest.raises(InferenceServerException, match="no factor"):
            client.load_model(name, config=json.dumps(CONFIG), files=broken)
        assert scaled(client, module, name) == [0, 2, 4, 6]
        client.unload_model(name)


def test_parts_of_an_ensemble_come_and_go_with_it(
    surface: RunningServer, module: ModuleType
) -> None:
    with client_of(surface, module) as client:
        for name in ("pipeline", "piece"):
            client.unload_model(name)
        client.load_model("pipeline")
        assert client.is_model_ready("piece")
        client.unload_model("pipeline")
        assert client.is_model_ready("piece")
        client.load_model("pipeline")
        client.unload_model("pipeline", unload_dependents=True)
        assert not client.is_model_ready("piece")
        # Asked for by name, it stays.
        client.load_model("piece")
        client.load_model("pipeline")
        client.unload_model("pipeline", unload_dependents=True)
        assert client.is_model_ready("piece")
        client.load_model("pipeline")
        client.unload_model("piece")
        assert not client.is_model_ready("pipeline")
        client.load_model("pipeline")


def test_index_has_states_versions_and_a_ready_filter(
    surface: RunningServer, module: ModuleType
) -> None:
    with client_of(surface, module) as client:
        client.unload_model("labelled")
        rows = index_of(client, module)
        assert rows["labelled"] == [
            {"name": "labelled", "version": "1", "state": "UNAVAILABLE", "reason": "unloaded"}
        ]
        assert rows["add_sub"] == [{"name": "add_sub", "version": "1", "state": "READY"}]
        assert "labelled" not in ready_names(surface, module)
        client.load_model("labelled")
        assert "labelled" in ready_names(surface, module)


def ready_names(surface: RunningServer, module: ModuleType) -> set[str]:
    # The stock clients have no argument for the filter, so the message is sent as it is.
    with client_of(surface, module) as client:
        if module is triton_grpc:
            request = triton_grpc.service_pb2.RepositoryIndexRequest(ready=True)
            return {row.name for row in client._client_stub.RepositoryIndex(request).models}
        answer = client._post("v2/repository/index", b'{"ready": true}', None, None)
        return {row["name"] for row in json.loads(answer.read())}
