# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""A whole server on two nodes in two network namespaces, with stock clients.

Needs what `scripts/lane_namespaces.py` needs, Ray, and for throughput perf_analyzer
(`scripts/perf_analyzer.sh`). All processes are in a PID namespace of their own and end with it. The
head and its ingress are in one namespace, `near`; most models have their only instance in the other
one, `far`, which has an ingress, too. Clients are in either.

- throughput: the same instance, asked through its own node's ingress and the other one's, over
  a pair of veth devices, in turn.
- loss: 20 ms each way and 1 % of the packets lost, for Ray's own connections, too.
- partition: nothing gets through for a while.

Usage: lane_servers.py [--only "throughput loss partition"] [--rounds 5] [--seconds 60] [--tls off]
"""

import argparse
import contextlib
import csv
import json
import os
import re
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import psutil
from bench_models import ADD_SUB, ADD_SUB_CONFIG, IDENTITY, IDENTITY_CONFIG
from lane_namespaces import DELAY_S, LOSS, TUN, VETH, Namespaces, Network

ROOT: Final = Path(__file__).resolve().parent.parent
LOAD: Final = str(ROOT / "scripts/lane_servers_load.py")
_ENTERED: Final = "MANTA_LANE_SERVERS"
# Ray asks for a token where the user has one.
_ENVIRONMENT: Final = {**os.environ, "RAY_AUTH_MODE": "disabled"}
_START_S: Final = 600
_STORE_BYTES: Final = 100 << 20

PARTITION_S: Final = 20.0
BEFORE_S, AFTER_S = 5.0, 20.0
LEAST_SHARE: Final = 0.7
# The heartbeat, a quarter more as it is looked at four times in that time, and a busy machine.
FAILS_WITHIN_S: Final = 15.0
MOST_CLIENTS: Final = 8
WINDOW_MS: Final = 1500
# 128 bytes each way of two INT32[16]; 602 KB each way.
SIZES: Final = {"far_add_sub": [], "far_identity": ["--shape", "INPUT0:150528"]}

SUMS: Final = """
import numpy as np
import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def initialize(self, args):
        self.sums = {}

    def execute(self, requests):
        responses = []
        for request in requests:
            key = request.correlation_id()
            value = pb_utils.get_input_tensor_by_name(request, "INPUT0").as_numpy()
            start = request.flags() & pb_utils.TRITONSERVER_REQUEST_FLAG_SEQUENCE_START
            self.sums[key] = value + (0 if start else self.sums[key])
            responses.append(pb_utils.InferenceResponse(
                [pb_utils.Tensor("OUTPUT0", self.sums[key].astype(np.int32))]))
        return responses
"""
SUMS_CONFIG: Final = """
backend: "python"
max_batch_size: 8
input [ { name: "INPUT0" data_type: TYPE_INT32 dims: [ 1 ] } ]
output [ { name: "OUTPUT0" data_type: TYPE_INT32 dims: [ 1 ] } ]
sequence_batching {
  max_sequence_idle_microseconds: 120000000
  oldest { max_candidate_sequences: 16 }
}
instance_group [ { kind: KIND_CPU count: 1 } ]
"""
# As many responses as the request says.
COUNT: Final = """
import numpy as np
import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def execute(self, requests):
        for request in requests:
            count = int(pb_utils.get_input_tensor_by_name(request, "INPUT0").as_numpy()[0])
            sender = request.get_response_sender()
            for number in range(count):
                sender.send(pb_utils.InferenceResponse(
                    [pb_utils.Tensor("OUTPUT0", np.array([number], np.int32))]))
            sender.send(flags=pb_utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL)
"""
COUNT_CONFIG: Final = """
backend: "python"
max_batch_size: 0
model_transaction_policy { decoupled: true }
input [ { name: "INPUT0" data_type: TYPE_INT32 dims: [ 1 ] } ]
output [ { name: "OUTPUT0" data_type: TYPE_INT32 dims: [ 1 ] } ]
instance_group [ { kind: KIND_CPU count: 1 } ]
"""
_SERVING: Final = ("ray::ServeReplica:manta:Ingress", "ray::far_")
MODELS: Final = {
    "far_add_sub": (ADD_SUB, ADD_SUB_CONFIG),
    "near_add_sub": (ADD_SUB, ADD_SUB_CONFIG),
    "far_identity": (IDENTITY, IDENTITY_CONFIG),
    "far_sums": (SUMS, SUMS_CONFIG),
    "far_count": (COUNT, COUNT_CONFIG),
}
PLACE: Final = r"""
parameters {{ key: "ray_resources" value: {{ string_value: "{{\"{node}\": 0.01}}" }} }}
"""


def write_models(root: Path) -> None:
    """Write models whose instances are on the node that their names begin with."""
    for name, (code, config) in MODELS.items():
        (root / name / "1").mkdir(parents=True)
        (root / name / "1" / "model.py").write_text(code)
        placed = config + PLACE.format(node=name.split("_")[0])
        (root / name / "config.pbtxt").write_text(f'name: "{name}"{placed}')


class Server:
    """Two nodes of Ray, and a server on them.

    Args:
        spaces: Where the nodes are.
        stack: Ends everything.
        way: Addresses of the two nodes.
        tls: Mode of the lanes.
        work: Folder for what they write.
    """

    def __init__(
        self,
        spaces: Namespaces,
        stack: contextlib.ExitStack,
        way: tuple[str, str],
        tls: str,
        work: Path,
    ) -> None:
        self._stack = stack
        self._work = work
        self._processes: list[subprocess.Popen[bytes]] = []
        self.there = spaces.there
        ray = [sys.executable, "-m", "ray.scripts.scripts", "start", "--block", "--num-cpus=8"]
        ray += [f"--object-store-memory={_STORE_BYTES}", f"--temp-dir={work / 'ray'}"]
        self._start(
            "head",
            *(*ray, "--head", f"--node-ip-address={way[0]}", "--port=6379"),
            *("--include-dashboard=false", '--resources={"near": 1}'),
        )
        self._start(
            "node",
            *(*spaces.there, *ray, f"--address={way[0]}:6379"),
            *(f"--node-ip-address={way[1]}", '--resources={"far": 1}'),
        )
        write_models(work / "models")
        self._start(
            "serve",
            *(sys.executable, "-m", "cluster", "serve", f"--model-repository={work / 'models'}"),
            *(f"--ray-address={way[0]}:6379", "--http-address=0.0.0.0", "--grpc-address=0.0.0.0"),
            *("--http-port=8000", "--grpc-port=8001", "--metrics-port=8002"),
            *("--allow-client-shm=true", f"--lane-tls={tls}"),
        )
        self._wait_until_up()

    def _start(self, name: str, *command: str) -> None:
        out = self._stack.enter_context((self._work / f"{name}.log").open("wb"))
        process = subprocess.Popen(command, stdout=out, stderr=out, cwd=ROOT, env=_ENVIRONMENT)
        self._processes.append(process)
        self._stack.callback(process.wait)
        self._stack.callback(process.terminate)

    def log(self, name: str = "serve") -> str:
        """Return what a process has said."""
        return (self._work / f"{name}.log").read_text(errors="replace")

    def _wait_until_up(self) -> None:
        """Wait until both ingresses answer for all models."""
        deadline_s = time.monotonic() + _START_S
        for prefix in ([], self.there):
            for name in MODELS:
                url = f"http://127.0.0.1:8000/v2/models/{name}/ready"
                while not _is_ok([*prefix, "curl", "-sf", "-o", "/dev/null", url]):
                    is_alive = all(each.poll() is None for each in self._processes)
                    assert is_alive and time.monotonic() < deadline_s, self.log()  # noqa: PT018
                    time.sleep(0.3)

    def instances(self) -> list[int]:
        """Return the ids of the instances' processes."""
        titles = "|".join(f"^ray::{name}/" for name in MODELS)
        found = subprocess.run(["pgrep", "-f", titles], capture_output=True, text=True, check=False)
        return sorted(map(int, found.stdout.split()))

    def pending(self) -> dict[str, float]:
        """Return by model how many requests an ingress knows of that have not ended."""
        found: dict[str, float] = {}
        for prefix in ([], self.there):
            found |= self._metric("nv_inference_pending_request_count", prefix)
        return found

    def cpu_s_and_requests(self, model: str) -> tuple[float, float]:
        """Return seconds of the ingresses and the model's instance, and requests it has had."""
        cpu_s = 0.0
        for process in psutil.process_iter():
            with contextlib.suppress(psutil.Error):
                if process.cmdline()[:1] and process.cmdline()[0].startswith(_SERVING):
                    cpu_s += sum(process.cpu_times()[:2])
        return cpu_s, self._metric("nv_inference_request_success", [])[model]

    def _metric(self, name: str, prefix: list[str]) -> dict[str, float]:
        """Return a metric's values by model, but for those of 0."""
        # Serve may be replacing an ingress that it could not reach for long.
        patient = ("--retry", "60", "--retry-delay", "1", "--retry-connrefused")
        command = [*prefix, "curl", "-sf", *patient, "http://127.0.0.1:8002/metrics"]
        page = subprocess.run(command, capture_output=True, text=True, check=True).stdout
        rows = re.findall(rf'^{name}{{.*model="(\w+)".*}} (\S+)$', page, re.MULTILINE)
        return {model: float(value) for model, value in rows if float(value)}

    def load(self, seconds: float, *kinds: str, prefix: list[str] | None = None) -> Any:
        """Begin a load; see `lane_servers_load.py`."""
        command = [*(prefix or []), sys.executable, LOAD, "--seconds", str(seconds), *kinds]
        return subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=ROOT)

    def perf_analyzer(self, model: str, prefix: list[str]) -> dict[str, float]:
        """Return rate and latencies of 16 clients that ask a node's ingress."""
        report = self._work / "report.csv"
        report.unlink(missing_ok=True)
        command = [
            *(*prefix, os.environ.get("PERF_ANALYZER", str(ROOT / "scripts/perf_analyzer.sh"))),
            *("-m", model, "-u", "127.0.0.1:8001", "-i", "grpc", "--concurrency-range", "16"),
            *("-p", str(WINDOW_MS), "-r", "3", "-s", "999", "-f", str(report), *SIZES[model]),
        ]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        try:
            row = next(csv.DictReader(report.open()))
        except (OSError, StopIteration):
            raise AssertionError(done.stdout + done.stderr) from None
        return {
            "rate": float(row["Inferences/Second"]),
            "p50_us": float(row["p50 latency"]),
            "p99_us": float(row["p99 latency"]),
        }


def _warm_up(server: Server, model: str) -> None:
    for prefix in ([], server.there):
        server.perf_analyzer(model, prefix)


def _is_ok(command: list[str]) -> bool:
    return subprocess.run(command, check=False).returncode == 0


def throughput(server: Server, rounds: int, model: str) -> dict[str, Any]:
    """Compare the other node's ingress with the instance's own."""
    ways = {"local": server.there, "remote": []}
    seen: dict[str, list[dict[str, float]]] = {way: [] for way in ways}
    _warm_up(server, model)
    for _ in range(rounds):
        for way, prefix in ways.items():
            before_s, before = server.cpu_s_and_requests(model)
            row = server.perf_analyzer(model, prefix)
            after_s, after = server.cpu_s_and_requests(model)
            seen[way].append(row | {"cpu_us": 1e6 * (after_s - before_s) / (after - before)})
    medians = {
        way: {key: statistics.median(row[key] for row in rows) for key in rows[0]}
        for way, rows in seen.items()
    }
    share = round(medians["remote"]["rate"] / medians["local"]["rate"], 3)
    rates = {way: [round(row["rate"]) for row in rows] for way, rows in seen.items()}
    is_ok = share >= LEAST_SHARE
    return {
        "case": f"throughput of {model}",
        **medians,
        "rates": rates,
        "share": share,
        "ok": is_ok,
    }


def _seen(process: "subprocess.Popen[str]") -> dict[str, Any]:
    out, _ = process.communicate()
    seen: dict[str, Any] = json.loads(out)
    return seen


def loss(server: Server, network: Network, seconds: float) -> dict[str, Any]:
    """Load over a network with delay and loss."""
    network.delay_s, network.loss = DELAY_S, LOSS
    seen = _seen(server.load(seconds, "small:10", "large:2", "sequence:2", "stream:2"))
    network.delay_s = network.loss = 0.0
    is_ok = all(each["ok"] and not each["failed"] for each in seen.values())
    return {"case": "20 ms, 1 % loss", **seen, "ok": is_ok}


def partition(server: Server, network: Network, seconds: float) -> dict[str, Any]:
    """Cut the network off for a while."""
    kinds = ("small:8", "large:2", "sequence:2", "stream:2", "near:2")
    before = server.instances()
    process = server.load(BEFORE_S + seconds + AFTER_S, *kinds)
    time.sleep(BEFORE_S)
    network.is_cut = True
    time.sleep(seconds)
    network.is_cut = False
    seen = _seen(process)
    after = _seen(server.load(5.0, *kinds))
    is_ok = (
        not seen["near"]["failed"]
        and all(each["longest_failure_s"] <= FAILS_WITHIN_S for each in seen.values())
        and all(each["ok"] and not each["failed"] for each in after.values())
        # What every client had under way failed once, and what it sent next.
        and all(each["failed"] <= 2 * MOST_CLIENTS for each in seen.values())
    )
    pending = server.pending()
    instances = server.instances()
    is_ok = is_ok and not pending and instances == before
    return {
        "case": f"partition of {seconds:g} s",
        **seen,
        "after": after,
        "pending": pending,
        "instances": [before, instances],
        "ok": is_ok,
    }


def main() -> None:
    """Enter namespaces and do all cases there."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--tls", default="off")
    parser.add_argument("--only", default="throughput loss partition")
    parser.add_argument("--models", default="far_add_sub far_identity")
    given = parser.parse_args()
    if _ENTERED not in os.environ:
        os.environ[_ENTERED] = "1"
        command = ["unshare", "-rnpmf", "--mount-proc", "--kill-child", sys.executable, __file__]
        os.execvp(command[0], [*command, *sys.argv[1:]])
    rows: list[dict[str, Any]] = []
    for row in _cases(given):
        rows.append(row)
        sys.stdout.write(json.dumps(row) + "\n")
        sys.stdout.flush()
    sys.exit(0 if all(row["ok"] for row in rows) else 1)


def _cases(given: argparse.Namespace) -> Iterator[dict[str, Any]]:
    names = given.only.split()
    if "throughput" in names:
        with _server(VETH, given.tls) as (server, _):
            for model in given.models.split():
                yield throughput(server, given.rounds, model)
    if {"loss", "partition"} & set(names):
        with _server(TUN, given.tls) as (server, network):
            if "loss" in names:
                yield loss(server, network, given.seconds)
            if "partition" in names:
                yield partition(server, network, PARTITION_S)


@contextlib.contextmanager
def _server(way: tuple[str, str], tls: str) -> Iterator[tuple[Server, Network]]:
    with contextlib.ExitStack() as stack:
        work = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="lanes-")))
        spaces = Namespaces(stack)
        server = Server(spaces, stack, way, tls, work)
        try:
            yield server, spaces.network
        except BaseException:
            sys.stderr.write(server.log())
            raise


if __name__ == "__main__":
    main()
