# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Repository agents in a real server: what a client and a model see of them.

The cases of Triton's L0_repoagent_checksum are here: a wrong digest keeps the model from loading,
with Triton's text in the log, and the right one serves over HTTP and gRPC.
"""

import hashlib
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import tritonclient.grpc as triton_grpc
import tritonclient.http as triton_http
from tritonclient.utils import InferenceServerException

from cluster.cli import main
from tests.integration.conftest import Guarded
from tests.support.own_agent import told
from tests.support.server import RunningServer, until
from tests.support.shared_server import brought

IDENTITY = """
name: "{name}"
backend: "identity"
input [ {{ name: "INPUT0" data_type: TYPE_INT32 dims: [ -1 ] }} ]
output [ {{ name: "OUTPUT0" data_type: TYPE_INT32 dims: [ -1 ] }} ]
instance_group [ {{ count: 1 kind: KIND_CPU }} ]
"""
SECRET = """
name: "secret"
backend: "python"
output [ { name: "WEIGHTS" data_type: TYPE_STRING dims: [ 2 ] } ]
input [ { name: "IN" data_type: TYPE_FP32 dims: [ 1 ] } ]
model_repository_agents { agents [
  { name: "decrypt" parameters [ { key: "key_env" value: "MANTA_TEST_MODEL_KEY" } ] }
] }
"""
READS_WEIGHTS = """
from pathlib import Path
import numpy as np
import triton_python_backend_utils as pb_utils

class TritonPythonModel:
    def initialize(self, args):
        version = Path(args["model_repository"]) / args["model_version"]
        weights = (version / "weights").read_bytes()
        self.weights = np.array([weights, str(version).encode()], dtype=object)

    def execute(self, requests):
        answer = pb_utils.InferenceResponse([pb_utils.Tensor("WEIGHTS", self.weights)])
        return [answer for _ in requests]
"""


def agent(name: str, **parameters: object) -> str:
    rows = ", ".join(f'{{ key: "{key}" value: "{value}" }}' for key, value in parameters.items())
    return f'model_repository_agents {{ agents [ {{ name: "{name}" parameters [ {rows} ] }} ] }}'


def write_identity(repository: Path, name: str, agents: str = "") -> Path:
    model = repository / name
    (model / "1").mkdir(parents=True, exist_ok=True)
    (model / "1" / "library").write_bytes(b"code")
    (model / "data_file").write_bytes(b"data")
    (model / "config.pbtxt").write_text(IDENTITY.format(name=name) + agents)
    return model


def infer_identity(
    library: object, client: "triton_http.InferenceServerClient | triton_grpc.InferenceServerClient"
) -> None:
    for count in (0, 7):
        values = np.arange(count, dtype=np.int32)
        tensor = library.InferInput("INPUT0", [count], "INT32")  # type: ignore[attr-defined]
        tensor.set_data_from_numpy(values)
        np.testing.assert_array_equal(client.infer("checked", [tensor]).as_numpy("OUTPUT0"), values)


def wait_until_logged(server: RunningServer, text: str) -> None:
    until(lambda: any(text in line for line in server.lines), text, 30)


def md5(content: bytes) -> str:
    return hashlib.md5(content).hexdigest()


def test_checksums_and_own_agents(surface: RunningServer, tmp_path: Path) -> None:
    repository, log = tmp_path / "models", tmp_path / "log"
    wrong = {"MD5:1/library": "invalid_checksum", "MD5:data_file": md5(b"data")}
    write_identity(repository, "checked", agent("checksum", **wrong))
    noted = agent("noting", log=log)
    write_identity(repository, "noted", noted)
    mismatch = (
        f"Mismatched MD5 hash for file 1/library, expect: invalid_checksum, got: {md5(b'code')}"
    )
    with (
        brought(surface, repository, load=()),
        triton_http.InferenceServerClient(surface.http, network_timeout=60) as http,
        triton_grpc.InferenceServerClient(surface.grpc) as grpc,
    ):
        with pytest.raises(InferenceServerException, match="failed to load 'checked', failed to"):
            http.load_model("checked")
        right = {
            "MD5:1/library": md5(b"code"),
            "SHA256:data_file": hashlib.sha256(b"data").hexdigest(),
        }
        write_identity(repository, "checked", agent("checksum", **right))
        http.load_model("checked")
        infer_identity(triton_http, http)
        infer_identity(triton_grpc, grpc)

        http.load_model("noted")
        http.load_model("noted")
        http.unload_model("noted")
        assert told(http, log, "LOAD", "LOAD_COMPLETE", "UNLOAD", "UNLOAD_COMPLETE")
        log.unlink()
        (repository / "noted" / "config.pbtxt").write_text(
            IDENTITY.format(name="noted").replace('"identity"', '"no_such_backend"') + noted
        )
        with pytest.raises(InferenceServerException):
            http.load_model("noted")
        assert told(http, log, "LOAD", "LOAD_FAIL")
    wait_until_logged(surface, f"Poll failed for model directory 'checked': {mismatch}")


def test_a_model_that_is_encrypted_and_signed_loads_and_others_do_not(
    guarded: Guarded, tmp_path: Path
) -> None:
    server, repository, source = guarded.server, guarded.server.repository, tmp_path / "source"
    model = repository / "secret"
    (source / "1").mkdir(parents=True)
    (source / "config.pbtxt").write_text(SECRET)
    (source / "1" / "model.py").write_text(READS_WEIGHTS)
    (source / "1" / "weights").write_bytes(b"forty-two")
    command = ("add", str(source), "--name", "secret", "--to", str(repository), *guarded.keys)
    assert main(["model", *command]) == 0
    write_identity(repository, "unsigned")
    with triton_http.InferenceServerClient(server.http, network_timeout=60) as client:
        load = partial(client.load_model, headers=guarded.header)
        load("secret")
        tensor = triton_http.InferInput("IN", [1], "FP32")
        tensor.set_data_from_numpy(np.zeros(1, np.float32))
        weights, place = client.infer("secret", [tensor]).as_numpy("WEIGHTS")
        assert weights == b"forty-two"
        assert Path(place.decode(), "weights").read_bytes() == weights
        guarded.left.append(Path(place.decode()))
        assert sorted(path.name for path in (model / "1").iterdir()) == [
            *("manifest.json", "manifest.sig", "model.py.enc", "weights.enc"),
        ]
        with pytest.raises(InferenceServerException, match="failed to load 'unsigned', failed to"):
            load("unsigned")
        (model / "1" / "model.py.enc").write_text(READS_WEIGHTS)
        with pytest.raises(InferenceServerException, match="failed to load 'secret', failed to"):
            load("secret")
        assert client.infer("secret", [tensor]).as_numpy("WEIGHTS")[0] == b"forty-two"
    for said in (
        "model directory 'unsigned': model 'unsigned' is not signed: there",
        "'secret': file 'model.py.enc' of version 1 of model 'secret' has",
    ):
        wait_until_logged(server, said)
