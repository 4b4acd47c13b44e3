# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""What an access policy costs an ingress per inference, credentials known: in one process.

Requests of 16 connections go through the server's own connections and codecs to a plane that
answers at once, without sockets; servers with and without a policy take turns. Usage:
bench_access_ports.py [--seconds 6] [--requests 2000]
"""

import argparse
import asyncio
import gc
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

import orjson  # noqa: E402

from deployments.access.contracts import Peer  # noqa: E402
from deployments.access.guard import make_guard  # noqa: E402
from deployments.data_plane.callers import Access  # noqa: E402
from deployments.grpc.kserve.guarded import make_grpc_gate  # noqa: E402
from deployments.grpc.kserve.service import INFER_PATH, GrpcService  # noqa: E402
from deployments.http.kserve.servers import make_http_server  # noqa: E402
from deployments.http.server.connection import HttpConnection  # noqa: E402
from tests.support.access import write_policy  # noqa: E402
from tests.support.access_matrix import make_policy  # noqa: E402
from tests.support.http_plane import FakePlane  # noqa: E402

CONNECTIONS = 16
BAR_US = 3.0

Round = Callable[[int], None]


class Written(asyncio.Transport):
    """A transport that counts what is written to it."""

    def __init__(self) -> None:
        super().__init__()
        self.refused = 0

    def write(self, data: Any) -> None:
        """Count an answer that is no success."""
        self.refused += not bytes(data[:12]).startswith(b"HTTP/1.1 200")

    def is_reading(self) -> bool:
        """Say that nothing is paused."""
        return True


def http_round(access: Access | None, headers: str) -> Round:
    """Return what sends so many requests through the HTTP port."""
    plane = FakePlane()
    server = make_http_server(plane, access=access)
    tensor = {"datatype": "INT32", "shape": [1, 16], "data": [1] * 16}
    body = orjson.dumps({"inputs": [{"name": f"INPUT{at}", **tensor} for at in range(2)]})
    head = f"POST /v2/models/simple/infer HTTP/1.1\r\nHost: h\r\n{headers}"
    request = f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body
    connections = []
    for _ in range(CONNECTIONS):
        connection, transport = HttpConnection(server), Written()
        connection.connection_made(transport)
        connections.append((connection, transport))

    def run(count: int) -> None:
        for at in range(count):
            connection, _ = connections[at % CONNECTIONS]
            server.read_buffer[: len(request)] = request
            connection.buffer_updated(len(request))
        plane.requests.clear()
        if any(transport.refused for _, transport in connections):
            raise SystemExit("a request was refused")

    return run


class Reply:
    """Takes the answer of a call."""

    def send(self, message: Any) -> None:
        """Take it."""

    def complete(self, message: Any) -> None:
        """Take it."""

    def finish(self, status: int = 0, details: str = "") -> None:
        """Refuse to measure errors."""
        if status:
            raise SystemExit(f"a call was refused: {details}")


def grpc_round(access: Access | None, metadata: tuple[tuple[bytes, bytes], ...]) -> Round:
    """Return what starts so many calls on the gRPC service, whose message is looked at."""
    plane: Any = FakePlane()
    service: Any = GrpcService(plane)
    if access is not None:
        service = make_grpc_gate(plane, access).service_for(Peer("grpc"))
    reply = Reply()

    def run(count: int) -> None:
        for _ in range(count):
            service.start(INFER_PATH, metadata, reply).cancelled()

    return run


def measure(rounds: list[Round], seconds: float, count: int) -> list[float]:
    """Return microseconds of CPU per request of each, medians of rounds that take turns."""
    found: list[list[float]] = [[] for _ in rounds]
    for run in rounds:
        run(count)
    # Collections would hit now the one, now the other.
    gc.collect()
    gc.disable()
    end_s = time.monotonic() + seconds
    while time.monotonic() < end_s or len(found[0]) < 3:  # noqa: PLR2004
        for run, values in zip(rounds, found, strict=True):
            begin_s = time.process_time()
            run(count)
            values.append((time.process_time() - begin_s) / count * 1e6)
    gc.enable()
    return [statistics.median(values) for values in found]


async def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=6.0)
    parser.add_argument("--requests", type=int, default=2000)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        policy, callers = make_policy(Path(folder))
        path = write_policy(Path(folder), policy)
        by_name = {caller.name: caller for caller in callers}
        access = Access(make_guard(str(path), has_audit=False))
        shown = {"key": by_name["valid key"].headers, "JWT": by_name["valid token"].headers}
        is_within = True
        for name, headers in shown.items():
            lines = "".join(f"{key}: {value}\r\n" for key, value in headers)
            metadata = tuple((key.encode(), value.encode()) for key, value in headers)
            for port, rounds in (
                ("HTTP infer", [http_round(each, lines) for each in (None, access)]),
                ("gRPC call's start", [grpc_round(each, metadata) for each in (None, access)]),
            ):
                without_us, with_us = measure(rounds, given.seconds / 4, given.requests)
                more_us = with_us - without_us
                is_within = is_within and more_us <= BAR_US
                print(
                    f"{port} with a {name}: {with_us:.2f} us, without a policy"
                    f" {without_us:.2f} us: {more_us:+.2f} us"
                )
    print(f"at most {BAR_US} us more: {'yes' if is_within else 'no'}")


if __name__ == "__main__":
    asyncio.run(main())
