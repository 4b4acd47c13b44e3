# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""First answers of a tiny model that autoscaling has taken to zero, to a hundred requests at once.

Each round waits until the model has no instance and an idle worker is there, then sends all
requests, half of them over gRPC on one connection, half over HTTP on one each. Prints when the
first and the last was answered, and how often the model executed. Exit code 1 when that is another
number than was sent, or an answer was wrong. Run it from the root of a checkout:

    python -m scripts.bench_first_answer --rounds 10
"""

import argparse
import json
import statistics
import threading
import time
import urllib.request
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

import grpc
import numpy as np
from tritonclient.grpc import service_pb2
from tritonclient.grpc.service_pb2_grpc import GRPCInferenceServiceStub

from tests.support.server import RunningServer

MODEL: Final = "tiny"
CONFIG: Final = """
backend: "python" max_batch_size: 8
input { name: "X" data_type: TYPE_INT32 dims: [ 1 ] }
output { name: "Y" data_type: TYPE_INT32 dims: [ 1 ] }
instance_group { kind: KIND_CPU count: 1 }
parameters { key: "autoscaling.min_instances" value { string_value: "0" } }
parameters { key: "autoscaling.max_instances" value { string_value: "1" } }
parameters { key: "autoscaling.scale_to_zero_after_s" value { string_value: "2" } }
"""
CODE: Final = """
import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def execute(self, requests):
        return [
            pb_utils.InferenceResponse(
                [pb_utils.Tensor("Y", pb_utils.get_input_tensor_by_name(each, "X").as_numpy())]
            )
            for each in requests
        ]
"""
_GIVE_UP_S: Final = 120.0


def over_http(server: RunningServer) -> Callable[[int], int]:
    """Return what asks over HTTP."""

    def ask(value: int) -> int:
        tensor = {"name": "X", "datatype": "INT32", "shape": [1, 1], "data": [value]}
        answer = get(server, f"/v2/models/{MODEL}/infer", {"inputs": [tensor]})
        return int(answer["outputs"][0]["data"][0])

    return ask


def over_grpc(channel: grpc.Channel) -> Callable[[int], int]:
    """Return what asks over gRPC."""
    stub = GRPCInferenceServiceStub(channel)

    def ask(value: int) -> int:
        request = service_pb2.ModelInferRequest(model_name=MODEL)
        request.inputs.add(name="X", datatype="INT32", shape=[1, 1])
        request.raw_input_contents.append(np.array([value], np.int32).tobytes())
        answer = stub.ModelInfer(request, timeout=_GIVE_UP_S)
        return int(np.frombuffer(answer.raw_output_contents[0], np.int32)[0])

    return ask


def get(server: RunningServer, path: str, body: Any = None) -> Any:
    """Return what a path answers."""
    data = None if body is None else json.dumps(body).encode()
    with urllib.request.urlopen(f"http://{server.http}{path}", data, timeout=_GIVE_UP_S) as answer:
        return json.loads(answer.read())


def executed(server: RunningServer) -> int:
    """Return how many requests the model has executed."""
    (row,) = get(server, f"/v2/models/{MODEL}/versions/1/stats")["model_stats"]
    return int(row["inference_count"])


def wait_dormant(server: RunningServer) -> None:
    """Wait until the model has no instance, and one may start in a worker that is there."""
    until_s = time.monotonic() + _GIVE_UP_S
    while get(server, "/v2/repository/index", {})[0].get("reason") != "dormant":
        if time.monotonic() > until_s:
            raise SystemExit("".join(server.lines))
        time.sleep(0.5)
    # It may be there and still be importing.
    time.sleep(5.0)
    while not server.processes("ray::IDLE"):
        if time.monotonic() > until_s:
            print("no idle worker")
            return
        time.sleep(0.5)


def at_once(asks: list[Callable[[int], int]]) -> tuple[list[float], bool]:
    """Send a request with each; return when each was answered, in seconds, and if all rightly."""
    barrier = threading.Barrier(len(asks) + 1)
    began_s = [0.0]

    def ask(at: int) -> tuple[float, bool]:
        barrier.wait()
        is_right = asks[at](at) == at
        return time.monotonic() - began_s[0], is_right

    with ThreadPoolExecutor(len(asks)) as threads:
        calls = [threads.submit(ask, at) for at in range(len(asks))]
        began_s[0] = time.monotonic()
        barrier.wait()
        found = [call.result() for call in calls]
    return sorted(took_s for took_s, _ in found), all(is_right for _, is_right in found)


def main() -> None:
    """Run it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--requests", type=int, default=100, help="at once")
    given = parser.parse_args()
    is_right = True
    firsts: list[float] = []
    lasts: list[float] = []
    with TemporaryDirectory() as folder:
        version = Path(folder) / MODEL / "1"
        version.mkdir(parents=True)
        (version / "model.py").write_text(CODE)
        (version.parent / "config.pbtxt").write_text(CONFIG)
        server = RunningServer(Path(folder))
        channel = grpc.insecure_channel(server.grpc)
        asks = [over_grpc(channel) if at % 2 else over_http(server) for at in range(given.requests)]
        try:
            for _ in range(given.rounds):
                wait_dormant(server)
                before = executed(server)
                took, are_right = at_once(asks)
                count = executed(server) - before
                is_right &= are_right and count == given.requests
                firsts.append(took[0])
                lasts.append(took[-1])
                print(
                    f"first {took[0]:.2f} s, last {took[-1]:.2f} s, executed {count}",
                    flush=True,
                )
        finally:
            channel.close()
            server.terminate()
    for name, found in (("first", firsts), ("last", lasts)):
        median = statistics.median(found)
        print(f"{name}: median {median:.2f} s, {min(found):.2f} to {max(found):.2f} s")
    raise SystemExit(0 if is_right else 1)


if __name__ == "__main__":
    main()
