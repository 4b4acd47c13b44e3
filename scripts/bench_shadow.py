# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""What a shadow adds to the latency of a caller, and to the CPU time of the ingress.

A real server has a model of the identity backend in two versions. One client asks over one
connection, the next request after the answer or after a pause, in rounds that take turns: without
a rollout, with one that has no shadow, and with shadows of some shares, in an order that is drawn.
The bar is for the caller's latency; the CPU time tells what the copies cost beside it. Run it from
the root of a checkout:

    python -m scripts.bench_shadow --rounds 30
"""

import argparse
import json
import random
import socket
import statistics
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

import psutil

from backends import compiled_form
from tests.support.rollout_models import RolloutClient
from tests.support.server import RunningServer

BAR_US: Final = 5.0
CONFIG: Final = """
backend: "identity" max_batch_size: 8
input { name: "X" data_type: TYPE_INT32 dims: [ 16 ] }
output { name: "Y" data_type: TYPE_INT32 dims: [ 16 ] }
version_policy { all { } }
instance_group { kind: KIND_CPU count: 1 }
"""
_ROLLOUT: Final = "/v2/models/echo/rollout"
_STABLE: Final = {"kind": "ab", "arms": [{"name": "one", "version": 1, "weight": 100}]}
_WARM_UP: Final = 100
_SETTLED_S: Final = 0.1


def shadow(percent: float) -> dict[str, Any]:
    """Return a rollout that copies so many of the requests."""
    return {"kind": "shadow", "stable": 1, "shadow": {"version": 2, "weight": percent}}


NO_SHADOW: Final = "rollout, no shadow"
MODES: Final[Mapping[str, dict[str, Any] | None]] = {
    "no rollout": None,
    NO_SHADOW: _STABLE,
    "shadow of 5 %": shadow(5),
    "shadow of 100 %": shadow(100),
}


@dataclass
class Seen:
    """What was measured in a mode.

    Attributes:
        p50_us: By round: median latency.
        p99_us: By round.
        cpu_s: Of the ingress, in all rounds.
        requests: In all rounds.
        copies: That the shadow has answered in the last round.
    """

    p50_us: list[float] = field(default_factory=list)
    p99_us: list[float] = field(default_factory=list)
    cpu_s: float = 0.0
    requests: int = 0
    copies: int = 0


class Client:
    """One connection whose requests follow each other.

    Args:
        address: ``host:port`` of HTTP.
    """

    def __init__(self, address: str) -> None:
        host, _, port = address.rpartition(":")
        self._socket = socket.create_connection((host, int(port)))
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        tensor = {"name": "X", "shape": [1, 16], "datatype": "INT32", "data": [1] * 16}
        body = json.dumps({"inputs": [tensor]}).encode()
        head = f"POST /v2/models/echo/infer HTTP/1.1\r\nHost: x\r\nContent-Length: {len(body)}\r\n"
        self._request = f"{head}\r\n".encode() + body

    def ask(self, count: int, pause_s: float) -> list[float]:
        """Return the latencies of so many requests, in microseconds."""
        found = []
        for _ in range(count):
            start_ns = time.perf_counter_ns()
            self._socket.sendall(self._request)
            self._take()
            found.append((time.perf_counter_ns() - start_ns) / 1000)
            if pause_s:
                time.sleep(pause_s)
        return found

    def _take(self) -> None:
        answer = self._socket.recv(65536)
        while (end := answer.find(b"\r\n\r\n")) < 0:
            answer += self._socket.recv(65536)
        if not answer.startswith(b"HTTP/1.1 200"):
            raise SystemExit(f"a request failed: {answer!r}")
        _, _, behind = answer[:end].lower().partition(b"content-length:")
        missing = end + 4 + int(behind.partition(b"\r\n")[0]) - len(answer)
        while missing > 0:
            missing -= len(self._socket.recv(missing))


class Bench:
    """A server, and what asks it.

    Args:
        server: With the model.
        count: Requests of a round.
    """

    def __init__(self, server: RunningServer, count: int) -> None:
        self._client = Client(server.http)
        self._control = RolloutClient(server.http)
        self._ingresses = server.processes("ray::ServeReplica:manta:Ingress")
        self._count = count
        if len(self._ingresses) != 1:
            raise SystemExit(f"one ingress is expected, there are {len(self._ingresses)}")

    def run(self, rounds: int, pause_s: float) -> dict[str, Seen]:
        """Measure each mode in turns."""
        seen = {mode: Seen() for mode in MODES}
        drawn = random.Random(1)
        for number in range(rounds):
            for mode in drawn.sample([*MODES], len(MODES)):
                self._round(mode, seen[mode], pause_s)
                if mode.startswith("shadow") and number == rounds - 1:
                    seen[mode].copies = self._copies()
        return seen

    def _round(self, mode: str, seen: Seen, pause_s: float) -> None:
        document = MODES[mode]
        method = "DELETE" if document is None else "PUT"
        status, answer = self._control.ask(method, _ROLLOUT, document)
        # 404: there is none to end.
        if status not in {200, 404}:
            raise SystemExit(f"{mode}: {answer}")
        self._client.ask(_WARM_UP, pause_s)
        time.sleep(_SETTLED_S)
        before_s = self._cpu_s()
        took = sorted(self._client.ask(self._count, pause_s))
        # Copies go on for a moment.
        time.sleep(_SETTLED_S)
        seen.cpu_s += self._cpu_s() - before_s
        seen.requests += self._count
        seen.p50_us.append(statistics.median(took))
        seen.p99_us.append(took[int(0.99 * len(took))])

    def _cpu_s(self) -> float:
        times: Any = self._ingresses[0].cpu_times()
        return float(times.user + times.system)

    def _copies(self) -> int:
        """Return how many copies were answered, once the controller has heard of all."""
        last, now = -1, 0
        while now != last:
            time.sleep(2.5)
            last, arms = now, self._control.ask("GET", _ROLLOUT)[1]["arms"]
            now = sum(arm["mirrored"] for arm in arms)
        return now


def report(seen: Mapping[str, Seen], pause_s: float) -> None:
    """Print a table, and how the bar is met."""
    named = f"{pause_s * 1000:g} ms after" if pause_s else "right behind"
    print(f"\nEach request {named} the answer before it")
    print("| | p50 us | p99 us | p50, to no shadow | CPU of the ingress us | copies in a round |")
    print("|---|---|---|---|---|---|")
    base, verdicts = seen[NO_SHADOW], []
    for mode, each in seen.items():
        more = [one - other for one, other in zip(each.p50_us, base.p50_us, strict=True)]
        more_us = statistics.median(more)
        low, _, high = statistics.quantiles(more, n=4)
        cells = (
            mode,
            f"{statistics.median(each.p50_us):.1f}",
            f"{statistics.median(each.p99_us):.0f}",
            f"{more_us:+.1f} ({low:+.1f} to {high:+.1f})",
            f"{each.cpu_s / each.requests * 1e6:.1f}",
            f"{each.copies}",
        )
        print(f"| {' | '.join(cells)} |", flush=True)
        if mode.startswith("shadow"):
            verdicts.append(f"{mode}: {'yes' if more_us <= BAR_US else 'no'}")
    print(f"at most {BAR_US:g} us more: {', '.join(verdicts)}")


def main() -> None:
    """Run it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=30)
    parser.add_argument("--requests", type=int, default=400, help="of a round")
    parser.add_argument("--pauses-ms", type=float, nargs="+", default=[0.0, 1.0])
    given = parser.parse_args()
    form = "compiled" if compiled_form.is_compiled() else "plain"
    print(f"{form} form, {psutil.cpu_count()} cores, {given.requests} requests a round")
    with TemporaryDirectory() as name:
        folder = Path(name)
        for version in (1, 2):
            (folder / "echo" / str(version)).mkdir(parents=True)
        (folder / "echo" / "config.pbtxt").write_text(CONFIG)
        server = RunningServer(folder, "--model-control-mode=explicit", "--load-model=*")
        try:
            bench = Bench(server, given.requests)
            for pause_ms in given.pauses_ms:
                report(bench.run(given.rounds, pause_ms / 1000), pause_ms / 1000)
        finally:
            server.terminate()


if __name__ == "__main__":
    main()
