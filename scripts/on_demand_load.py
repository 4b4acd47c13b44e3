# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""A thousand tiny models on a server that keeps fifty: Zipf-distributed requests of some clients.

Each instance answers with a number that it drew when it started. So a client knows whether it met
an instance of which somebody had an answer already, which is a hit, or waited for one to start; and
how many starts there were, which is compared with the server's metrics.

Prints what was lost, the share of hits, latencies, what the controller cost, and what a change of
the routing table costs with 10, 100 and 1,000 models. Exit code 1 when anything was lost, or when
the server has counted other starts than the clients saw.

Usage: on_demand_load.py [--models 1000] [--cap 50] [--requests 10000] [--clients 8]
    [--seconds 0] [--flag=--some-flag=of-the-server]...
"""

import argparse
import http.client
import itertools
import json
import random
import re
import sys
import tempfile
import threading
import time
import urllib.request
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import grpc
import numpy as np
import psutil
from process_costs import private_mb
from tritonclient.grpc import service_pb2
from tritonclient.grpc.service_pb2_grpc import GRPCInferenceServiceStub

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from tests.support import scale_of_routing
from tests.support.large_cluster import Size, prepared
from tests.support.server import RunningServer

CONFIG: Final = """
backend: "python" max_batch_size: 8
input { name: "X" data_type: TYPE_INT64 dims: [ 1 ] }
output [ { name: "Y" data_type: TYPE_INT64 dims: [ 1 ] },
         { name: "BORN" data_type: TYPE_INT64 dims: [ 1 ] } ]
instance_group { kind: KIND_CPU count: 1 }
"""
MODEL: Final = """
import secrets

import numpy as np
import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def initialize(self, args):
        self.born = secrets.randbits(62)

    def execute(self, requests):
        responses = []
        for request in requests:
            x = pb_utils.get_input_tensor_by_name(request, "X").as_numpy()
            y = pb_utils.Tensor("Y", x)
            born = pb_utils.Tensor("BORN", np.full_like(x, self.born))
            responses.append(pb_utils.InferenceResponse([y, born]))
        return responses
"""
_TIMEOUT_S: Final = 300.0
_MS: Final = 1e3
_COLD_START: Final = re.compile(r'manta_cold_starts_total\{.*?model="([^"]+)".*?\} (\d+)')

# Sends a number to a model; returns what came back, and the number of the instance.
Infer = Callable[[str, int], tuple[int, int]]


@dataclass(frozen=True, slots=True)
class Answer:
    """What one request got: when it was sent and answered, and by which instance."""

    model: str
    born: int
    sent_s: float
    answered_s: float


@dataclass(slots=True)
class Record:
    """What all clients saw."""

    answers: list[Answer] = field(default_factory=list)
    lost: Counter[str] = field(default_factory=Counter)


def main() -> None:
    arguments = _arguments()
    with tempfile.TemporaryDirectory(prefix="manta-on-demand-") as directory:
        repository = Path(directory)
        names = _write(repository, arguments.models)
        began_s = time.monotonic()
        server = RunningServer(
            repository,
            "--model-control-mode=ondemand",
            f"--ondemand-max-models={arguments.cap}",
            *arguments.flag,
        )
        print(f"ready with {len(names)} models after {time.monotonic() - began_s:.2f} s")
        try:
            is_right = _run(server, names, arguments)
        finally:
            server.terminate(_TIMEOUT_S)
    _changes()
    raise SystemExit(0 if is_right else 1)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--models", type=int, default=1000)
    parser.add_argument("--cap", type=int, default=50)
    parser.add_argument("--requests", type=int, default=10_000)
    parser.add_argument("--clients", type=int, default=8)
    parser.add_argument("--seconds", type=float, default=0.0, help="no new requests after that")
    parser.add_argument("--seed", type=int, default=14)
    parser.add_argument("--flag", action="append", default=[])
    return parser.parse_args()


def _write(repository: Path, count: int) -> list[str]:
    names = [f"m{at:04}" for at in range(count)]
    for name in names:
        (repository / name / "1").mkdir(parents=True)
        (repository / name / "config.pbtxt").write_text(CONFIG)
        (repository / name / "1" / "model.py").write_text(MODEL)
    return names


def _run(server: RunningServer, names: Sequence[str], arguments: argparse.Namespace) -> bool:
    controller = server.processes("ray::ModelController")[0]
    print(f"controller before the first request: {private_mb(controller.pid):.1f} MB")
    weights = [1 / rank for rank in range(1, len(names) + 1)]
    trace = random.Random(arguments.seed).choices(names, weights, k=arguments.requests)
    until_s = time.monotonic() + arguments.seconds if arguments.seconds else float("inf")
    cpu_s, began_s = _cpu_s(controller), time.monotonic()
    record = _send(server, trace, arguments.clients, until_s)
    took_s, cpu_s = time.monotonic() - began_s, _cpu_s(controller) - cpu_s
    print(
        f"{len(record.answers)} answers in {took_s:.0f} s, {arguments.clients} clients;"
        f" lost {sum(record.lost.values())} {dict(record.lost) or ''}"
    )
    print(
        f"controller: {cpu_s:.1f} s of CPU, {100 * cpu_s / took_s:.1f} % of a core,"
        f" {private_mb(controller.pid):.1f} MB"
    )
    starts = _latencies(record)
    return _same_starts(server, starts) and not record.lost


def _send(server: RunningServer, trace: Sequence[str], clients: int, until_s: float) -> Record:
    """Send the trace, each client the next one when it has an answer; every second over gRPC."""
    record, numbers, lock = Record(), itertools.count(), threading.Lock()

    def client(at: int) -> None:
        infer = over_grpc(server.grpc) if at % 2 else over_http(server.http)
        while time.monotonic() < until_s and (number := next(numbers)) < len(trace):
            sent_s = time.monotonic()
            try:
                echo, born = infer(trace[number], number)
            except Exception as error:
                with lock:
                    record.lost[f"{type(error).__name__}: {error}"[:200]] += 1
                continue
            with lock:
                record.answers.append(Answer(trace[number], born, sent_s, time.monotonic()))
                record.lost["wrong answer"] += echo != number
        record.lost = +record.lost

    with ThreadPoolExecutor(clients) as threads:
        list(threads.map(client, range(clients)))
    return record


def over_http(address: str) -> Infer:
    """Return a client with a connection of its own."""
    connection = http.client.HTTPConnection(address, timeout=_TIMEOUT_S)

    def infer(name: str, number: int) -> tuple[int, int]:
        tensor = {"name": "X", "datatype": "INT64", "shape": [1, 1], "data": [number]}
        body = json.dumps({"inputs": [tensor]})
        connection.request("POST", f"/v2/models/{name}/infer", body)
        response = connection.getresponse()
        text = response.read()
        if response.status != http.HTTPStatus.OK:
            raise RuntimeError(f"{response.status} {text.decode()}")
        outputs = {each["name"]: each["data"][0] for each in json.loads(text)["outputs"]}
        return outputs["Y"], outputs["BORN"]

    return infer


def over_grpc(address: str) -> Infer:
    """Return a client with a channel of its own."""
    channel = grpc.insecure_channel(address, options=[("grpc.use_local_subchannel_pool", 1)])
    stub = GRPCInferenceServiceStub(channel)

    def infer(name: str, number: int) -> tuple[int, int]:
        request = service_pb2.ModelInferRequest(model_name=name)
        request.inputs.add(name="X", datatype="INT64", shape=[1, 1])
        request.raw_input_contents.append(np.array([number], np.int64).tobytes())
        answer = stub.ModelInfer(request, timeout=_TIMEOUT_S)
        raw = zip(answer.outputs, answer.raw_output_contents, strict=True)
        outputs = {tensor.name: int(np.frombuffer(data, np.int64)[0]) for tensor, data in raw}
        return outputs["Y"], outputs["BORN"]

    return infer


def _latencies(record: Record) -> Counter[str]:
    """Print latencies of hits and of what waited for a start; return the starts of each model."""
    first_s: dict[tuple[str, int], float] = {}
    for each in record.answers:
        key = (each.model, each.born)
        first_s[key] = min(each.answered_s, first_s.get(key, each.answered_s))
    took_ms: dict[str, list[float]] = defaultdict(list)
    for each in record.answers:
        is_cold = each.sent_s < first_s[each.model, each.born]
        took_ms["cold" if is_cold else "warm"].append((each.answered_s - each.sent_s) * _MS)
    for kind, found in sorted(took_ms.items()):
        found.sort()
        p50, p90, p99 = (found[len(found) * part // 100] for part in (50, 90, 99))
        print(
            f"{kind}: {len(found)}, {100 * len(found) / len(record.answers):.1f} %;"
            f" p50 {p50:.1f} ms, p90 {p90:.1f} ms, p99 {p99:.1f} ms, most {found[-1]:.1f} ms"
        )
    return Counter(model for model, _ in first_s)


def _same_starts(server: RunningServer, seen: Counter[str]) -> bool:
    with urllib.request.urlopen(f"http://{server.metrics}/metrics", timeout=60) as answer:
        found = _COLD_START.findall(answer.read().decode())
    counted = Counter({model: int(count) for model, count in found})
    print(f"starts: {seen.total()} seen by clients, {counted.total()} counted by the server")
    differing = {m: (seen[m], counted[m]) for m in seen | counted if seen[m] != counted[m]}
    if differing:
        print(f"(seen, counted) differ for {differing}")
    return not differing


def _cpu_s(process: psutil.Process) -> float:
    times = process.cpu_times()
    return float(times.user + times.system)


def _changes() -> None:
    """Print what a change of one model costs the controller and a router, by models known."""
    for count in (10, 100, 1000):
        size = Size(count, models_per_node=1, instances=1)
        row = []
        for prepare in (scale_of_routing.change, scale_of_routing.take_change):
            with prepared(prepare, size) as event:
                times_us = []
                for _ in range(min(count, 10)):
                    began_s = time.process_time()
                    size_bytes = event()
                    times_us.append((time.process_time() - began_s) * 1e6)
                row.append((size_bytes, min(times_us)))
        (size_bytes, controller_us), (_, router_us) = row
        print(
            f"a change with {count} models: {size_bytes} bytes, {controller_us:.0f} us of the"
            f" controller, {router_us:.0f} us of each router"
        )


if __name__ == "__main__":
    main()
