# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""A small load generator over HTTP that knows what kind each of its requests is.

perf_analyzer reports one distribution for all of its requests. Where short and long requests or two
priorities are mixed, the latency of one kind is what matters. Each client is one connection with
one request in flight.
"""

import asyncio
import itertools
import json
import time
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

OK: Final = 200
HOST: Final = "127.0.0.1"
# Longer than any of the loads takes.
PATIENCE_S: Final = 60.0


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of request.

    Attributes:
        name: By which its latencies are reported.
        data: The bytes that are sent.
    """

    name: str
    data: bytes


def kind(name: str, model: str, shape: list[int], sleep_ms: float, priority: int = 0) -> Kind:
    """Return a request whose one input says how long the model sleeps."""
    asked = {
        "inputs": [{"name": "INPUT0", "shape": shape, "datatype": "FP32", "data": [sleep_ms]}],
        "parameters": {"priority": priority} if priority else {},
    }
    body = json.dumps(asked).encode()
    head = (
        f"POST /v2/models/{model}/infer HTTP/1.1\r\nHost: {HOST}\r\n"
        f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
    )
    return Kind(name, head.encode() + body)


class Connection:
    """One client.

    Args:
        reader: Of its connection.
        writer: Of its connection.
    """

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    @classmethod
    async def open(cls, port: int) -> "Connection":
        """Connect."""
        return cls(*await asyncio.open_connection(HOST, port))

    def send(self, data: bytes) -> None:
        """Send a request."""
        self._writer.write(data)

    async def status(self) -> int:
        """Read an answer and return its status."""
        head = (await self._reader.readuntil(b"\r\n\r\n")).lower()
        length = int(head.split(b"content-length:", 1)[1].split(b"\r\n", 1)[0])
        await self._reader.readexactly(length)
        return int(head[9:12])

    async def close(self) -> None:
        """Close the connection."""
        self._writer.close()
        await self._writer.wait_closed()


@dataclass(slots=True)
class Report:
    """What a load has measured.

    Attributes:
        latencies_s: By the kind's name, in the order of the answers.
        duration_s: Of the load.
    """

    latencies_s: dict[str, list[float]]
    duration_s: float

    def percentile_ms(self, name: str, share: float) -> float:
        """Return a percentile of a kind's latencies."""
        ordered = sorted(self.latencies_s[name])
        return 1e3 * ordered[min(len(ordered) - 1, int(share * len(ordered)))]

    @property
    def throughput(self) -> float:
        """Answers per second."""
        return sum(map(len, self.latencies_s.values())) / self.duration_s


async def _closed_loop(
    port: int, clients: list[Callable[[], Kind]], warm_up_s: float, measure_s: float
) -> Report:
    found: dict[str, list[float]] = defaultdict(list)
    begin = time.perf_counter() + warm_up_s
    end = begin + measure_s

    async def client(choose: Callable[[], Kind]) -> None:
        connection = await Connection.open(port)
        while (sent := time.perf_counter()) < end:
            chosen = choose()
            connection.send(chosen.data)
            status = await connection.status()
            if status != OK:
                raise RuntimeError(f"a {chosen.name} request was answered with status {status}")
            if sent >= begin:
                found[chosen.name].append(time.perf_counter() - sent)
        await connection.close()

    async with asyncio.timeout(warm_up_s + measure_s + PATIENCE_S):
        await asyncio.gather(*map(client, clients))
    return Report(found, time.perf_counter() - begin)


def closed_loop(
    port: int, clients: list[Callable[[], Kind]], warm_up_s: float = 0.5, measure_s: float = 4.0
) -> Report:
    """Load a server with clients that send as soon as they are answered.

    Args:
        port: Of the server's HTTP endpoint.
        clients: For each client, what chooses its next request.
        warm_up_s: How long requests are sent that are not counted.
        measure_s: How long requests are sent that are counted.

    Returns:
        The latencies.

    Raises:
        RuntimeError: A request failed.
        TimeoutError: A request was not answered.
    """
    return asyncio.run(_closed_loop(port, clients, warm_up_s, measure_s))


def every_nth(count: int, rare: Kind, usual: Kind) -> Callable[[], Kind]:
    """Return what chooses ``rare`` for every ``count``-th request of all clients that share it."""
    numbers = itertools.count(1)
    return lambda: rare if next(numbers) % count == 0 else usual


async def _burst(port: int, asked: Kind, count: int) -> int:
    connections = [await Connection.open(port) for _ in range(count)]
    for connection in connections:
        connection.send(asked.data)
    async with asyncio.timeout(PATIENCE_S):
        statuses = await asyncio.gather(*(connection.status() for connection in connections))
    for connection in connections:
        await connection.close()
    return sum(status == OK for status in statuses)


def burst(port: int, asked: Kind, count: int) -> int:
    """Send requests at once, each on a connection of its own; return how many were accepted."""
    return asyncio.run(_burst(port, asked, count))
