# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Lanes between two processes, without Ray: a router in one, an instance's end in the other.

    bench_lane.py compare [--rounds 3] [--seconds 2] [--tls off derived] [--bytes 128 602112]
    bench_lane.py handshake [--count 200]
    bench_lane.py serve --host 10.0.0.2 [--tls derived]        says an endpoint, ends with its input
    bench_lane.py load ENDPOINT [--concurrency 16] [--bytes 128] [--local] [--tls derived]

`compare` takes turns: a Unix socket without slabs' threshold in the way of small tensors, then TCP
over the loopback interface in each TLS mode. `serve` and `load` are its halves, for network
namespaces (`scripts/lane_namespaces.sh`). 128 bytes are add/sub of two INT32[16]; other sizes are
echoed.
"""

import argparse
import asyncio
import contextlib
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import Future
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import uvloop

from backends.api.errors import TritonError
from backends.api.request import InferenceRequest, InferenceResponse, Tensor
from backends.config.pbtxt import parse_pbtxt
from deployments.contracts.routing_table import (
    InstanceEndpoint,
    Model,
    ModelReadyState,
    ModelVersion,
    RoutingTable,
)
from deployments.lane.messages import limits_of
from deployments.lane.server import LaneServer, ServerRequest
from deployments.lane.tls import derive_lane_tls, lane_tls
from deployments.reactor.reactor import Reactor
from deployments.routing.links import Heartbeat
from deployments.routing.router import Router
from deployments.settings.lane_settings import LaneSettings
from deployments.slabs.pool import SlabPool

SECRET = b"of a measurement, known to all"
ADD_SUB_BYTES = 128
_HERE, _THERE, _INCARNATION = "here", "there", "only"
_CONFIG = parse_pbtxt('name: "m" backend: "none"', "config.pbtxt")
_STALL_S = 0.5
_LOOK_S = 0.05


class Instance:
    """Answers on the reactor's thread; implements what `LaneServer` asks of its handler."""

    def received(self, requests: list[ServerRequest]) -> None:
        """Answer all requests of one read."""
        for each in requests:
            inputs = each.request.inputs
            outputs = inputs
            if inputs[0].datatype == "INT32":
                one, two = (np.frombuffer(tensor.data, np.int32) for tensor in inputs)
                outputs = [
                    Tensor("OUTPUT0", "INT32", (16,), memoryview((one + two).tobytes())),
                    Tensor("OUTPUT1", "INT32", (16,), memoryview((one - two).tobytes())),
                ]
            each.respond(InferenceResponse("m", "1", "", outputs), final=True)

    def cancelled(self, request: ServerRequest) -> None:
        """Do nothing: it has been answered."""

    def call(self, method: str, payload: bytes) -> "bytes | Future[bytes]":
        """Answer nothing."""
        del method, payload
        return b""


class Waiting:
    """A request's sink: a future of its outcome."""

    def __init__(self) -> None:
        self.ended: asyncio.Future[InferenceResponse | TritonError | None] = (
            asyncio.get_running_loop().create_future()
        )

    def respond(self, response: InferenceResponse | None, *, final: bool) -> None:
        """Take the answer."""
        if final:
            self.ended.set_result(response)

    def fail(self, error: TritonError, *, final: bool = True) -> None:
        """Take an error."""
        if final:
            self.ended.set_result(error)


@dataclass(slots=True)
class Seen:
    """What a load has met.

    Attributes:
        rate: Requests a second.
        p50_ms: Median latency.
        p99_ms: Its 99th percentile.
        cpu_us: CPU time of a request in the router, and in the instance where that is known.
        wrong: Answers that are not the right ones.
        errors: By text.
        stalls: Seconds from the start, and length, of the times without any answer.
        without_lane: The same of the times without a lane, after the first.
    """

    rate: float = 0.0
    p50_ms: float = 0.0
    p99_ms: float = 0.0
    cpu_us: float = 0.0
    wrong: int = 0
    errors: dict[str, int] = field(default_factory=dict)
    stalls: list[tuple[float, float]] = field(default_factory=list)
    without_lane: list[tuple[float, float]] = field(default_factory=list)


def serve(host: str, lanes: LaneSettings) -> None:
    """Be an instance until the input ends."""
    reactor = Reactor()
    server = LaneServer(
        Instance(),  # type: ignore[arg-type]  # it is in no pool
        reactor=reactor,
        secret=SECRET,
        slabs=SlabPool(),
        limits=limits_of(lanes),
        incarnation=_INCARNATION,
    )
    uds = f"\0manta-bench-{time.monotonic_ns()}"
    tcp = server.start(uds, host, lanes.ports, tls=lane_tls(lanes.tls, SECRET).server)
    endpoint = InstanceEndpoint("m/1#0", _INCARNATION, _THERE, uds, tcp)
    sys.stdout.write(json.dumps(asdict(endpoint)) + "\n")
    sys.stdout.flush()
    reactor.watch(sys.stdin.fileno(), 1, lambda _: sys.exit())
    while True:
        reactor.turn()


def _request(bytes_: int) -> InferenceRequest:
    if bytes_ == ADD_SUB_BYTES:
        ones = memoryview(np.arange(16, dtype=np.int32).tobytes())
        inputs = [Tensor(f"INPUT{n}", "INT32", (16,), ones) for n in range(2)]
    else:
        inputs = [Tensor("INPUT0", "UINT8", (bytes_,), memoryview(bytes(bytes_)))]
    return InferenceRequest("m", 1, inputs=inputs)


class Load:
    """A router with one link, and requests on it.

    Args:
        endpoint: The instance.
        lanes: Settings of the lane.
        bytes_: Of a request.
    """

    def __init__(self, endpoint: InstanceEndpoint, lanes: LaneSettings, bytes_: int) -> None:
        timeout_s = lanes.heartbeat_timeout_s
        self._router = Router(
            _HERE,
            SECRET,
            SlabPool(),
            lanes,
            heartbeat=Heartbeat(timeout_s, _report) if timeout_s else None,
        )
        entry = ModelVersion(1, ModelReadyState.READY, config=_CONFIG, instances=(endpoint,))
        self._router.update(RoutingTable(1, {"m": Model("m", (entry,))}, initialised=True))
        self._model = self._router.find("m", 1)
        # Its buffers are never changed, so all requests may have them.
        self._inputs = _request(bytes_).inputs
        self._want = sum(tensor.data.nbytes for tensor in self._inputs)
        self._seen = Seen()
        self._latencies_s: list[float] = []
        self._begin_s = self._last_s = self._until_s = 0.0

    async def wait_connected(self) -> None:
        """Wait for the lane."""
        while not self._model.pool.lanes:  # noqa: ASYNC110 - of a measurement
            await asyncio.sleep(_LOOK_S)

    async def run(self, concurrency: int, seconds: float) -> Seen:
        """Keep so many requests under way for a while."""
        begin_cpu_s = time.process_time()
        self._begin_s = self._last_s = time.perf_counter()
        self._until_s = self._begin_s + seconds
        await asyncio.gather(self._watch_lane(), *(self._ask() for _ in range(concurrency)))
        await self._router.close()
        seen, latencies_s = self._seen, self._latencies_s
        if latencies_s:
            cuts = statistics.quantiles(latencies_s * 2, n=100, method="inclusive")
            seen.cpu_us = round((time.process_time() - begin_cpu_s) / len(latencies_s) * 1e6, 1)
            seen.rate = round(len(latencies_s) / (self._last_s - self._begin_s), 1)
            seen.p50_ms, seen.p99_ms = round(cuts[49] * 1e3, 3), round(cuts[98] * 1e3, 3)
        return seen

    async def _ask(self) -> None:
        seen = self._seen
        while (start_s := time.perf_counter()) < self._until_s:
            sink = Waiting()
            self._router.submit(self._model, InferenceRequest("m", 1, inputs=self._inputs), sink)
            outcome = await sink.ended
            now_s = time.perf_counter()
            if isinstance(outcome, TritonError):
                seen.errors[str(outcome)] = seen.errors.get(str(outcome), 0) + 1
                await asyncio.sleep(_LOOK_S)
                continue
            got = 0 if outcome is None else sum(t.data.nbytes for t in outcome.outputs)
            seen.wrong += got != self._want
            self._latencies_s.append(now_s - start_s)
            if now_s - self._last_s > _STALL_S:
                seen.stalls.append(self._since(self._last_s, now_s))
            self._last_s = now_s

    async def _watch_lane(self) -> None:
        lost_s = 0.0
        while (now_s := time.perf_counter()) < self._until_s:
            if not self._model.pool.lanes:
                lost_s = lost_s or now_s
            elif lost_s:
                self._seen.without_lane.append(self._since(lost_s, now_s))
                lost_s = 0.0
            await asyncio.sleep(_LOOK_S)
        if lost_s:
            self._seen.without_lane.append(self._since(lost_s, self._until_s))

    def _since(self, from_s: float, until_s: float) -> tuple[float, float]:
        return round(from_s - self._begin_s, 2), round(until_s - from_s, 2)


async def _report(*_: str) -> None:
    """Tell no controller."""


async def load(endpoint: InstanceEndpoint, lanes: LaneSettings, given: argparse.Namespace) -> Seen:
    """Keep requests under way for a while, and say when there is a lane."""
    loading = Load(endpoint, lanes, given.bytes)
    await loading.wait_connected()
    if given.command == "load":
        _say("begins")
    return await loading.run(given.concurrency, given.seconds)


@contextlib.contextmanager
def serving(host: str, tls: str) -> Iterator[dict[str, Any]]:
    """Have an instance in a process of its own."""
    command = [sys.executable, __file__, "serve", "--host", host, "--tls", tls]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        yield json.loads(process.stdout.readline()) | {"pid": process.pid}
        process.communicate()


def compare(given: argparse.Namespace) -> None:
    """Load each way in turn and print the medians."""
    with contextlib.ExitStack() as stack:
        ways: dict[str, tuple[InstanceEndpoint, str, int]] = {}
        for tls in given.tls:
            described = stack.enter_context(serving("127.0.0.1", tls))
            endpoint, pid = _endpoint(described), described["pid"]
            ways.setdefault("local", (replace(endpoint, node_id=_HERE), tls, pid))
            ways[f"tcp, tls {tls}"] = (endpoint, tls, pid)
        for bytes_ in given.bytes:
            for concurrency in given.concurrency:
                rows: dict[str, list[Seen]] = {way: [] for way in ways}
                for _ in range(given.rounds):
                    for way, (endpoint, tls, pid) in ways.items():
                        lanes = LaneSettings(tls=tls)
                        begin_s = _cpu_s(pid)
                        case = argparse.Namespace(
                            command="", bytes=bytes_, concurrency=concurrency, seconds=given.seconds
                        )
                        seen = _run(load(endpoint, lanes, case))
                        count = max(1.0, seen.rate * given.seconds)
                        seen.cpu_us += (_cpu_s(pid) - begin_s) / count * 1e6
                        if seen.errors or seen.wrong:
                            sys.exit(f"{way}: {seen}")
                        rows[way].append(seen)
                for way, all_seen in rows.items():
                    rate = statistics.median(seen.rate for seen in all_seen)
                    p99 = statistics.median(seen.p99_ms for seen in all_seen)
                    cpu_us = statistics.median(seen.cpu_us for seen in all_seen)
                    _say(
                        f"{bytes_:>9} B  c={concurrency:<3} {way:<18} {rate:>9.1f}/s "
                        f"p99 {p99} ms, CPU {cpu_us:.0f} us"
                    )


def handshakes(count: int) -> None:
    """Print what contexts and handshakes of derived TLS cost, both ends together."""
    start_s = time.perf_counter()
    tls = derive_lane_tls(SECRET)
    _say(f"two contexts: {(time.perf_counter() - start_s) * 1e3:.2f} ms, with the import")
    start_s = time.perf_counter()
    derive_lane_tls(SECRET)
    _say(f"two contexts: {(time.perf_counter() - start_s) * 1e3:.2f} ms")
    spent = sorted(_shake_hands(tls.client, tls.server) for _ in range(count))
    _say(f"handshake: median {statistics.median(spent) * 1e3:.2f} ms, p99 {spent[-1] * 1e3:.2f} ms")


def _shake_hands(client_context: Any, server_context: Any) -> float:
    import ssl  # noqa: PLC0415

    to_client, to_server = ssl.MemoryBIO(), ssl.MemoryBIO()
    start_s = time.perf_counter()
    ends = [
        client_context.wrap_bio(to_client, to_server, server_hostname="node"),
        server_context.wrap_bio(to_server, to_client, server_side=True),
    ]
    while ends:
        end = ends.pop(0)
        try:
            end.do_handshake()
        except ssl.SSLWantReadError:
            ends.append(end)
    return time.perf_counter() - start_s


def _cpu_s(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _endpoint(described: dict[str, Any]) -> InstanceEndpoint:
    return msgspec.convert(described, InstanceEndpoint)


def _run(coroutine: Any) -> Any:
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(coroutine)


def _say(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


def main() -> None:
    """Do what the arguments say."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    commands = parser.add_subparsers(dest="command", required=True)
    comparing = commands.add_parser("compare")
    comparing.add_argument("--rounds", type=int, default=3)
    comparing.add_argument("--seconds", type=float, default=2.0)
    comparing.add_argument("--tls", nargs="+", default=["off", "derived"])
    comparing.add_argument("--bytes", nargs="+", type=int, default=[ADD_SUB_BYTES, 602112, 4 << 20])
    comparing.add_argument("--concurrency", nargs="+", type=int, default=[16])
    shaking = commands.add_parser("handshake")
    shaking.add_argument("--count", type=int, default=200)
    served = commands.add_parser("serve")
    served.add_argument("--host", default="127.0.0.1")
    loaded = commands.add_parser("load")
    loaded.add_argument("endpoint")
    loaded.add_argument("--local", action="store_true")
    loaded.add_argument("--bytes", type=int, default=ADD_SUB_BYTES)
    loaded.add_argument("--concurrency", type=int, default=16)
    loaded.add_argument("--seconds", type=float, default=5.0)
    for command in (served, loaded):
        command.add_argument("--tls", default="off")
        command.add_argument("--heartbeat", type=float, default=10.0)
    given = parser.parse_args()
    if given.command == "compare":
        compare(given)
        return
    if given.command == "handshake":
        handshakes(given.count)
        return
    lanes = LaneSettings(tls=given.tls, heartbeat_timeout_s=given.heartbeat)
    if given.command == "serve":
        serve(given.host, lanes)
    text = given.endpoint
    endpoint = _endpoint(json.loads(text if text.startswith("{") else Path(text).read_text()))
    if given.local:
        endpoint = replace(endpoint, node_id=_HERE)
    _say(json.dumps(asdict(_run(load(endpoint, lanes, given)))))


if __name__ == "__main__":
    main()
