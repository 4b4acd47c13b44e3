# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""What a shadow adds to the latency of a caller, and to the CPU time of the ingress.

A real server has models of the identity backend that are alike but for their rollouts, each in two
versions. One client asks over one connection, the next request after the answer or after a pause,
in many short rounds that take turns in an order that is drawn, so that what is compared lies a
moment apart. Two models have a rollout without a shadow: what one of them seems to cost more than
the other is how far the measurement is off. The bar is for the caller's latency; the CPU time
tells what the copies cost beside it. Run it from the root of a checkout:

    python -m scripts.bench_shadow --rounds 300
"""

import argparse
import json
import random
import socket
import statistics
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from http import HTTPStatus
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
_WARM_UP: Final = 30
# Copies that wait are sent after 50 ms; their answers need a moment.
_SETTLED_S: Final = 0.1


def shadow(percent: float) -> dict[str, Any]:
    """Return a rollout that copies so many of the requests."""
    return {"kind": "shadow", "stable": 1, "shadow": {"version": 2, "weight": percent}}


@dataclass(frozen=True)
class Mode:
    """A model that is asked.

    Attributes:
        model: Its name.
        rollout: Of the model, or None.
    """

    model: str
    rollout: dict[str, Any] | None


_STABLE: Final = {"kind": "ab", "arms": [{"name": "one", "version": 1, "weight": 100}]}
BASE: Final = "rollout, no shadow"
MODES: Final[Mapping[str, Mode]] = {
    "no rollout": Mode("bare", None),
    BASE: Mode("base", _STABLE),
    "the same once more": Mode("same", _STABLE),
    "shadow of 5 %": Mode("some", shadow(5)),
    "shadow of 100 %": Mode("each", shadow(100)),
}


@dataclass
class Seen:
    """What was measured in a mode.

    Attributes:
        p50_us: By round: median latency.
        mean_us: By round.
        all_us: Latencies of all rounds.
        cpu_s: Of the ingress, in all rounds.
        copies: That the shadow has answered in all rounds.
    """

    p50_us: list[float] = field(default_factory=list)
    mean_us: list[float] = field(default_factory=list)
    all_us: list[float] = field(default_factory=list)
    cpu_s: float = 0.0
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

    def ask(self, model: str, count: int, pause_s: float) -> list[float]:
        """Return the latencies of so many requests, in microseconds."""
        request, found = _request(model), []
        for _ in range(count):
            start_ns = time.perf_counter_ns()
            self._socket.sendall(request)
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


def _request(model: str) -> bytes:
    tensor = {"name": "X", "shape": [1, 16], "datatype": "INT32", "data": [1] * 16}
    body = json.dumps({"inputs": [tensor]}).encode()
    head = f"POST /v2/models/{model}/infer HTTP/1.1\r\nHost: x\r\nContent-Length: {len(body)}"
    return f"{head}\r\n\r\n".encode() + body


class Bench:
    """A server, and what asks it.

    Args:
        server: With the models.
        count: Requests of a round.
    """

    def __init__(self, server: RunningServer, count: int) -> None:
        self._client = Client(server.http)
        self._control = RolloutClient(server.http)
        self._ingresses = server.processes("ray::ServeReplica:manta:Ingress")
        self._count = count
        if len(self._ingresses) != 1:
            raise SystemExit(f"one ingress is expected, there are {len(self._ingresses)}")
        for mode in MODES.values():
            if mode.rollout is not None:
                self._asked("PUT", mode)

    def run(self, rounds: int, pause_s: float) -> dict[str, Seen]:
        """Measure each mode in turns."""
        seen = {name: Seen() for name in MODES}
        before = self._copies()
        drawn = random.Random(1)
        for _ in range(rounds):
            for name in drawn.sample([*MODES], len(MODES)):
                self._round(MODES[name].model, seen[name], pause_s)
        for name, copies in self._copies().items():
            seen[name].copies = copies - before[name]
        return seen

    def _round(self, model: str, seen: Seen, pause_s: float) -> None:
        self._client.ask(model, _WARM_UP, pause_s)
        before_s = self._cpu_s()
        took = self._client.ask(model, self._count, pause_s)
        time.sleep(_SETTLED_S)
        seen.cpu_s += self._cpu_s() - before_s
        seen.p50_us.append(statistics.median(took))
        seen.mean_us.append(statistics.mean(took))
        seen.all_us += took

    def _cpu_s(self) -> float:
        times: Any = self._ingresses[0].cpu_times()
        return float(times.user + times.system)

    def _copies(self) -> dict[str, int]:
        """Return how many copies were answered by mode, once the controller has heard of all."""
        last: dict[str, int] = {}
        while (now := {name: self._copies_of(mode) for name, mode in MODES.items()}) != last:
            last = now
            time.sleep(2.5)
        return now

    def _copies_of(self, mode: Mode) -> int:
        if mode.rollout is None:
            return 0
        return sum(arm["mirrored"] for arm in self._asked("GET", mode)["arms"])

    def _asked(self, method: str, mode: Mode) -> Any:
        document = mode.rollout if method == "PUT" else None
        path = f"/v2/models/{mode.model}/rollout"
        status, answer = self._control.ask(method, path, document)
        if status != HTTPStatus.OK:
            raise SystemExit(f"{mode.model}: {answer}")
        return answer


def report(seen: Mapping[str, Seen], pause_s: float) -> None:
    """Print a table, and how the bar is met."""
    named = f"{pause_s * 1000:g} ms after" if pause_s else "right behind"
    print(f"\nEach request {named} the answer before it")
    print("| | p50 us | more us | mean, more us | p99 us | CPU of the ingress us | copies |")
    print("|---|---|---|---|---|---|---|")
    base, verdicts = seen[BASE], []
    for mode, each in seen.items():
        more_us, off_us = _more(each.p50_us, base.p50_us)
        mean_us, mean_off_us = _more(each.mean_us, base.mean_us)
        cells = (
            mode,
            f"{statistics.median(each.all_us):.1f}",
            f"{more_us:+.1f} +-{off_us:.1f}",
            f"{mean_us:+.1f} +-{mean_off_us:.1f}",
            f"{statistics.quantiles(each.all_us, n=100)[98]:.0f}",
            f"{each.cpu_s / len(each.all_us) * 1e6:.1f}",
            f"{each.copies}",
        )
        print(f"| {' | '.join(cells)} |", flush=True)
        if mode.startswith("shadow"):
            verdicts.append(f"{mode}: {'yes' if more_us <= BAR_US else 'no'}")
    print(f"at most {BAR_US:g} us more: {', '.join(verdicts)}")


def _more(values: list[float], base: list[float]) -> tuple[float, float]:
    """Return by how much a round is above the base's, the middle half of rounds, and its error.

    Rounds that met something else on the machine are far off on either side.
    """
    more = sorted(one - other for one, other in zip(values, base, strict=True))
    middle = more[len(more) // 4 : -(len(more) // 4) or None]
    return statistics.mean(middle), 1.25 * statistics.pstdev(more[1:-1]) / len(more) ** 0.5


def main() -> None:
    """Run it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=300)
    parser.add_argument("--requests", type=int, default=128, help="of a round")
    parser.add_argument("--pauses-ms", type=float, nargs="+", default=[0.0, 1.0])
    given = parser.parse_args()
    form = "compiled" if compiled_form.is_compiled() else "plain"
    print(f"{form} form, {psutil.cpu_count()} cores, {given.requests} requests a round")
    with TemporaryDirectory() as name:
        folder = Path(name)
        for mode in MODES.values():
            for version in (1, 2):
                (folder / mode.model / str(version)).mkdir(parents=True)
            (folder / mode.model / "config.pbtxt").write_text(CONFIG)
        server = RunningServer(folder, "--model-control-mode=explicit", "--load-model=*")
        try:
            bench = Bench(server, given.requests)
            for pause_ms in given.pauses_ms:
                report(bench.run(given.rounds, pause_ms / 1000), pause_ms / 1000)
        finally:
            server.terminate()


if __name__ == "__main__":
    main()
