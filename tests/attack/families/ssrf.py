# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Loads whose config or files would have the server ask somebody for something (OWASP API7)."""

import base64
import json
import socket
from collections.abc import Iterator
from typing import Any

from tests.attack.scene import Scene
from tests.attack.tally import Tally
from tests.attack.wire import Connection, post_json

_PYTHON = b"class TritonPythonModel:\n    def execute(self, requests):\n        return []\n"


def forge_requests(scene: Scene, tally: Tally) -> None:
    """Load with configs that name a listener of ours; nobody may call there."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.settimeout(0)
        host = f"127.0.0.1:{listener.getsockname()[1]}"
        with Connection(scene.server.http) as connection:
            for what, name, body in _loads(host, 1 if scene.options.corpus_every > 1 else 3):
                path = f"/v2/repository/models/{name}/load"
                answer = connection.ask(post_json(path, body, (scene.credential,)))
                tally.check_answer(answer.status, answer.body, what)
                tally.expect(answer.status != 200, f"{what}: loads")
        try:
            peer, _ = listener.accept()
        except BlockingIOError:
            return
        with peer:
            tally.findings.append("the server has called a place that a load named")


def _loads(host: str, count: int) -> Iterator[tuple[str, str, dict[str, Any]]]:
    urls = (f"http://{host}/x.zip", f"https://{host}/x.zip", f"s3://{host}/b/x.zip")
    for url in urls[:count]:
        for environment in (
            {"working_dir": url},
            {"py_modules": [url]},
            {"pip": [url]},
            {"uv": {"packages": ["x"], "uv_pip_install_options": ["--index-url", url]}},
            {"image_uri": url},
        ):
            text = json.dumps(environment)
            yield f"runtime_env {text}", "add_sub", _override(_parameter("runtime_env", text))
            yield f"runtime_env {text}, with files", "forged", _with_files("runtime_env", text)
        yield (
            f"EXECUTION_ENV_PATH {url}",
            "add_sub",
            _override(_parameter("EXECUTION_ENV_PATH", url)),
        )
        yield f"file {url}", "add_sub", _override({"default_model_filename": url})
        yield f"a model called {url}", url.replace("/", "%2F"), {}
        agents = {"model_repository_agents": {"agents": [{"name": "unpack", "parameters": {
            "files": url}}]}}  # fmt: skip
        yield f"agent {url}", "add_sub", _override(agents)
        warmup = [{"name": "w", "batch_size": 1, "inputs": {"INPUT0": {
            "data_type": "TYPE_INT32", "dims": [16], "input_data_file": url}}}]  # fmt: skip
        yield f"warmup {url}", "add_sub", _override({"model_warmup": warmup})


def _parameter(key: str, text: str) -> dict[str, Any]:
    return {"parameters": {key: {"string_value": text}}}


def _config(extra: dict[str, Any]) -> str:
    inputs = [{"name": f"INPUT{n}", "data_type": "TYPE_INT32", "dims": [16]} for n in range(2)]
    outputs = [{"name": f"OUTPUT{n}", "data_type": "TYPE_INT32", "dims": [16]} for n in range(2)]
    shared = {"backend": "python", "max_batch_size": 8, "input": inputs, "output": outputs}
    return json.dumps(shared | extra)


def _override(extra: dict[str, Any]) -> dict[str, Any]:
    return {"parameters": {"config": _config(extra)}}


def _with_files(key: str, text: str) -> dict[str, Any]:
    model = base64.b64encode(_PYTHON).decode()
    config = _config(_parameter(key, text))
    return {"parameters": {"config": config, "file:1/model.py": model}}
