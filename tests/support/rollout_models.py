# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Models that tell which version of them has answered, and a client that asks them over HTTP."""

import json
import threading
from collections import Counter
from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from tests.support.model_folders import write_folder
from tests.support.unix_sockets import connection_to

# A version with this file in its folder does not start.
BROKEN = "broken"
# Version 3 fails every fifth request, version 4 gives other answers and doubts every fourth of
# them, version 5 is slow.
VOTER = """
import pathlib
import time
import numpy as np
import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def initialize(self, args):
        if (pathlib.Path(__file__).parent / "broken").exists():
            raise RuntimeError("broken")
        self.version = int(args["model_version"])
        self.count = 0
        self.family = pb_utils.MetricFamily(
            name="voter_doubts_total", description="Doubtful answers",
            kind=pb_utils.MetricFamily.COUNTER)
        self.doubts = self.family.Metric(labels={})

    def execute(self, requests):
        return [self.one(request) for request in requests]

    def one(self, request):
        x = pb_utils.get_input_tensor_by_name(request, "X").as_numpy()
        self.count += 1
        if self.version == 3 and self.count % 5 == 0:
            return pb_utils.InferenceResponse([], error=pb_utils.TritonError("a fault"))
        if self.version == 5:
            time.sleep(0.1)
        if self.version == 4:
            x = x + 1
            if self.count % 4 == 0:
                self.doubts.increment(1)
        version = np.full_like(x, self.version)
        tensors = [pb_utils.Tensor("VERSION", version), pb_utils.Tensor("Y", x)]
        return pb_utils.InferenceResponse(tensors)
"""
VOTER_CONFIG = """
backend: "python" max_batch_size: 64
input { name: "X" data_type: TYPE_INT32 dims: [ 1 ] }
output [
  { name: "VERSION" data_type: TYPE_INT32 dims: [ 1 ] },
  { name: "Y" data_type: TYPE_INT32 dims: [ 1 ] }
]
version_policy { specific { versions: [ %s ] } }
"""
# Asks the voter twice and tells what both said.
CALLER = """
import numpy as np
import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def execute(self, requests):
        responses = []
        for request in requests:
            x = pb_utils.get_input_tensor_by_name(request, "X")
            said = [self.ask(x, request.request_id()) for _ in range(2)]
            tensor = pb_utils.Tensor("VERSIONS", np.array([said], np.int32))
            responses.append(pb_utils.InferenceResponse([tensor]))
        return responses

    def ask(self, x, request_id):
        call = pb_utils.InferenceRequest(
            model_name="voter", requested_output_names=["VERSION"], inputs=[x],
            request_id=request_id)
        return int(call.exec().output_tensors()[0].as_numpy()[0, 0])
"""
CALLER_CONFIG = """
backend: "python" max_batch_size: 64
input { name: "X" data_type: TYPE_INT32 dims: [ 1 ] }
output { name: "VERSIONS" data_type: TYPE_INT32 dims: [ 2 ] }
"""
PAIR_CONFIG = """
platform: "ensemble" max_batch_size: 64
input { name: "X" data_type: TYPE_INT32 dims: [ 1 ] }
output [
  { name: "FIRST" data_type: TYPE_INT32 dims: [ 1 ] },
  { name: "SECOND" data_type: TYPE_INT32 dims: [ 1 ] }
]
ensemble_scheduling { step [
  { model_name: "voter" model_version: -1
    input_map { key: "X" value: "X" }
    output_map { key: "VERSION" value: "FIRST" } },
  { model_name: "voter" model_version: -1
    input_map { key: "X" value: "FIRST" }
    output_map { key: "VERSION" value: "SECOND" } }
] }
"""


def write_rollout_models(
    folder: Path,
    versions: Iterable[int] = (1, 2, 3, 4, 5),
    names: Iterable[str] = ("voter", "caller", "pair"),
) -> None:
    """Write the models ``voter``, ``caller`` and ``pair``, or some of them, into a repository."""
    numbers, wanted = list(versions), set(names)
    for name, config, source, shown in (
        ("voter", VOTER_CONFIG % ", ".join(map(str, numbers)), VOTER, numbers),
        ("caller", CALLER_CONFIG, CALLER, [1]),
        ("pair", PAIR_CONFIG, "", [1]),
    ):
        if name in wanted:
            write_folder(folder, name, config, source, shown)


class RolloutClient:
    """Asks a server over HTTP.

    Args:
        address: ``host:port``, or ``unix:/path``.
    """

    def __init__(self, address: str) -> None:
        self.address = address
        self._connection = connection_to(address, 60)

    def ask(
        self,
        method: str,
        path: str,
        document: Any = None,
        headers: Mapping[str, str] | None = None,
    ) -> tuple[int, Any]:
        """Send a request; return the status and the JSON of the answer."""
        body = None if document is None else json.dumps(document).encode()
        self._connection.request(method, path, body, dict(headers or {}))
        answer = self._connection.getresponse()
        text = answer.read()
        return answer.status, json.loads(text) if text else None

    def text(self, path: str) -> str:
        """Return what is at a path."""
        self._connection.request("GET", path)
        return self._connection.getresponse().read().decode()

    def __enter__(self) -> "RolloutClient":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()

    def rollout(self, method: str = "GET", action: str = "", document: Any = None) -> Any:
        """Ask about the rollout of the voter; what is refused is an AssertionError."""
        behind = f"/{action}" if action else ""
        status, answer = self.ask(method, f"/v2/models/voter/rollout{behind}", document)
        assert status == 200, answer
        return answer

    def outputs(
        self,
        model: str = "voter",
        value: int = 1,
        headers: Mapping[str, str] | None = None,
        parameters: Mapping[str, Any] | None = None,
    ) -> dict[str, list[int]]:
        """Return what a model answers, by output; nothing when it fails."""
        document: dict[str, Any] = {
            "inputs": [{"name": "X", "datatype": "INT32", "shape": [1, 1], "data": [value]}],
            **({"parameters": dict(parameters)} if parameters else {}),
        }
        status, answer = self.ask("POST", f"/v2/models/{model}/infer", document, headers)
        return {x["name"]: x["data"] for x in answer["outputs"]} if status == 200 else {}

    def version(self, **more: Any) -> int:
        """Return which version of the voter answers; 0 when it fails."""
        outputs = self.outputs(**more)
        return outputs["VERSION"][0] if outputs else 0


class Load:
    """Asks the voter all the time, from some threads, until it is left.

    Attributes:
        failures: Requests that failed.
        answers: Those that did not.
        turns: Of each thread: the versions that have answered it, as one took over from another.
    """

    def __init__(self, address: str) -> None:
        self._address = address
        self._is_over = threading.Event()
        self.turns: list[list[int]] = [[] for _ in range(4)]
        self._threads = [threading.Thread(target=self._run, args=(turns,)) for turns in self.turns]
        self.failures = 0
        self.answers = 0

    def __enter__(self) -> "Load":
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._is_over.set()
        for thread in self._threads:
            thread.join()

    def _run(self, turns: list[int]) -> None:
        with RolloutClient(self._address) as client:
            while not self._is_over.is_set():
                version = client.version()
                if not version:
                    self.failures += 1
                    continue
                self.answers += 1
                if turns[-1:] != [version]:
                    turns.append(version)


def count_versions(address: str, count: int, threads: int = 4) -> Counter[int]:
    """Return how often each version of the voter has answered, of so many requests."""

    def run(share: int) -> Counter[int]:
        with RolloutClient(address) as client:
            return Counter(client.version() for _ in range(share))

    with ThreadPoolExecutor(threads) as pool:
        return sum(pool.map(run, [count // threads] * threads), Counter())
