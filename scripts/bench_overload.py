# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Goodput, latency, memory and recovery of a server under five times the load that it can carry.

The model sleeps, so that its capacity is known and the CPU is left to server and client: 20 ms for
a batch of up to 8, 400 requests a second. The client is open: it sends when its clock says so,
whatever is unanswered. Run it from the root of a checkout:

    python -m scripts.bench_overload --seconds 20
"""

import argparse
import asyncio
import json
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

import psutil

from tests.support.server import RunningServer

BATCH_SIZE: Final = 8
EXECUTION_S: Final = 0.02
CAPACITY_PER_S: Final = BATCH_SIZE / EXECUTION_S
CONNECTIONS: Final = 96
MODEL: Final = f"""
import time
import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def execute(self, requests):
        time.sleep({EXECUTION_S})
        return [
            pb_utils.InferenceResponse(
                [pb_utils.Tensor("Y", pb_utils.get_input_tensor_by_name(each, "X").as_numpy())]
            )
            for each in requests
        ]
"""
CONFIG: Final = f"""
backend: "python"
max_batch_size: {BATCH_SIZE}
dynamic_batching {{ }}
input {{ name: "X" data_type: TYPE_INT32 dims: [ 1 ] }}
output {{ name: "Y" data_type: TYPE_INT32 dims: [ 1 ] }}
instance_group {{ kind: KIND_CPU count: 1 }}
"""
_BODY: Final = json.dumps(
    {"inputs": [{"name": "X", "shape": [1, 1], "datatype": "INT32", "data": [1]}]}
).encode()
_TICK_S: Final = 0.002
_OK: Final = 200
_REFUSED: Final = 503


@dataclass
class Seen:
    """What the client has seen: times of the loop's clock, and latencies in seconds.

    Attributes:
        sent_count: Requests sent.
        answered: When each request with status 200 was sent, and what it took.
        refused_s: When each request with status 503 was sent.
        other_count: Answers with another status, and connections that broke.
        retry_after_count: Answers that say when to try again.
    """

    sent_count: int = 0
    answered: list[tuple[float, float]] = field(default_factory=list)
    refused_s: list[float] = field(default_factory=list)
    other_count: int = 0
    retry_after_count: int = 0

    def p99_ms(self, part: float = 0.99) -> float:
        """Return a quantile of the latencies, in milliseconds."""
        took = sorted(took_s for _, took_s in self.answered)
        return 1000 * took[min(len(took) - 1, int(part * len(took)))] if took else 0.0


class Wire(asyncio.Protocol):
    """One connection; requests may be pipelined, answers come in their order."""

    def __init__(self, clock_s: Callable[[], float], request: bytes) -> None:
        self.seen = Seen()
        self.transport: asyncio.Transport | None = None
        self.unanswered: deque[tuple[float, Seen]] = deque()
        self.on_answer: Callable[[Wire], None] | None = None
        self._clock_s = clock_s
        self._request = request
        self._rest = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begin."""
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport

    def ask(self) -> None:
        """Send a request."""
        assert self.transport is not None
        self.seen.sent_count += 1
        self.unanswered.append((self._clock_s(), self.seen))
        self.transport.write(self._request)

    def data_received(self, data: bytes) -> None:
        """Take answers."""
        data = self._rest + data
        while (end := data.find(b"\r\n\r\n")) >= 0:
            head = data[:end].lower()
            size = int(head.partition(b"content-length:")[2].partition(b"\r\n")[0])
            if len(data) < end + 4 + size:
                break
            self._answer(int(head[9:12]), b"\r\nretry-after:" in head)
            data = data[end + 4 + size :]
        self._rest = data

    def _answer(self, status: int, says_when: bool) -> None:
        sent_s, seen = self.unanswered.popleft()
        seen.retry_after_count += says_when
        if status == _OK:
            seen.answered.append((sent_s, self._clock_s() - sent_s))
        elif status == _REFUSED:
            seen.refused_s.append(sent_s)
        else:
            seen.other_count += 1
        if self.on_answer is not None:
            self.on_answer(self)

    def connection_lost(self, exc: Exception | None) -> None:
        """End."""
        for _, seen in self.unanswered:
            seen.other_count += 1
        self.unanswered.clear()


class Client:
    """An open client with some connections.

    Args:
        address: host:port of HTTP.
        model: The model that is asked.
    """

    def __init__(self, address: str, model: str = "sleeper") -> None:
        self._host, _, port = address.rpartition(":")
        self._port = int(port)
        self._request = (
            f"POST /v2/models/{model}/infer HTTP/1.1\r\nHost: x\r\n"
            f"Content-Length: {len(_BODY)}\r\n\r\n"
        ).encode() + _BODY
        self._wires: list[Wire] = []

    async def connect(self, count: int = CONNECTIONS) -> None:
        """Open the connections."""
        loop = asyncio.get_running_loop()
        for _ in range(count):
            _, wire = await loop.create_connection(
                lambda: Wire(loop.time, self._request), self._host, self._port
            )
            self._wires.append(wire)

    async def open_load(self, rate_per_s: float, seconds: float) -> Seen:
        """Send so many requests a second, evenly, and wait for the last answer."""
        loop = asyncio.get_running_loop()
        seen = self._begin()
        start_s, sent = loop.time(), 0
        while (elapsed_s := loop.time() - start_s) < seconds:
            for _ in range(int(elapsed_s * rate_per_s) - sent):
                self._wires[sent % len(self._wires)].ask()
                sent += 1
            await asyncio.sleep(_TICK_S)
        await self._quiet()
        return seen

    async def closed_load(self, count: int, seconds: float) -> Seen:
        """Keep so many requests under way."""
        seen = self._begin()
        for wire in self._wires[:count]:
            wire.on_answer = Wire.ask
            wire.ask()
        await asyncio.sleep(seconds)
        for wire in self._wires:
            wire.on_answer = None
        await self._quiet()
        return seen

    def _begin(self) -> Seen:
        seen = Seen()
        for wire in self._wires:
            wire.seen = seen
        return seen

    async def _quiet(self) -> None:
        while any(wire.unanswered for wire in self._wires):  # noqa: ASYNC110
            await asyncio.sleep(_TICK_S)

    def close(self) -> None:
        """Close the connections."""
        for wire in self._wires:
            if wire.transport is not None:
                wire.transport.abort()


def write_repository(folder: Path, parameters: str = "") -> None:
    """Write the model of a known capacity."""
    (folder / "sleeper" / "1").mkdir(parents=True)
    (folder / "sleeper" / "1" / "model.py").write_text(MODEL)
    (folder / "sleeper" / "config.pbtxt").write_text(CONFIG + parameters)


async def _most_memory(processes: list[psutil.Process], stopped: asyncio.Event) -> int:
    most = 0
    while not stopped.is_set():
        most = max(most, sum(each.memory_info().rss for each in processes))
        await asyncio.sleep(0.5)
    return most


async def _measure(server: RunningServer, seconds: float, factor: float) -> None:
    client = Client(server.http)
    await client.connect()
    await client.closed_load(4, 1)
    unloaded = await client.open_load(0.1 * CAPACITY_PER_S, max(5.0, seconds / 10))
    peak = await client.closed_load(4 * BATCH_SIZE, max(3.0, seconds / 20))
    peak_per_s = len(peak.answered) / max(3.0, seconds / 20)
    await client.open_load(0.5 * CAPACITY_PER_S, 2)

    processes = server.processes("manta: ingress") + server.processes("manta: instance")
    before_bytes = sum(each.memory_info().rss for each in processes)
    stopped = asyncio.Event()
    memory = asyncio.create_task(_most_memory(processes, stopped))
    over = await client.open_load(factor * CAPACITY_PER_S, seconds)
    end_s = asyncio.get_running_loop().time()
    after = await client.open_load(0.7 * CAPACITY_PER_S, 5)
    stopped.set()
    grown_bytes = await memory - before_bytes
    client.close()

    goodput_per_s = len(over.answered) / seconds
    recovery_s = max(after.refused_s, default=end_s) - end_s
    rows = {
        "peak, closed load [1/s]": peak_per_s,
        "sent under overload [1/s]": over.sent_count / seconds,
        "goodput under overload [1/s]": goodput_per_s,
        "goodput / peak (>= 0.9)": goodput_per_s / peak_per_s,
        "refused under overload": len(over.refused_s),
        "of these with Retry-After": over.retry_after_count,
        "other answers": over.other_count,
        "p50, p99 unloaded [ms]": (unloaded.p99_ms(0.5), unloaded.p99_ms()),
        "p50, p99 admitted [ms]": (over.p99_ms(0.5), over.p99_ms()),
        "p99 ratio (<= 3)": over.p99_ms() / unloaded.p99_ms(),
        "memory grown [MiB]": grown_bytes / 2**20,
        "refused after overload": len(after.refused_s),
        "recovery [s] (<= 2)": recovery_s,
    }
    for name, value in rows.items():
        values = value if isinstance(value, tuple) else (value,)
        print(f"{name:32}", *(f"{each:10.2f}" for each in values))


def main() -> None:
    """Run it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=300.0, help="how long the overload lasts")
    parser.add_argument("--factor", type=float, default=5.0, help="load over capacity")
    parser.add_argument("--ingresses", type=int, default=1)
    parser.add_argument("--admission", default="adaptive", choices=("off", "adaptive"))
    options = parser.parse_args()
    with TemporaryDirectory() as folder:
        write_repository(Path(folder))
        start_s = time.monotonic()
        server = RunningServer(
            Path(folder),
            f"--admission={options.admission}",
            f"--ingress-per-node={options.ingresses}",
        )
        print(f"started in {time.monotonic() - start_s:.0f} s")
        try:
            asyncio.run(_measure(server, options.seconds, options.factor))
        finally:
            server.terminate()


if __name__ == "__main__":
    main()
