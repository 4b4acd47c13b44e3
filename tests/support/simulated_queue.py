# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""A server of known service times in virtual time: a queue, and so many who serve it."""

import random
from collections import deque
from collections.abc import Callable, Iterator

from manta_tools.perf.records import Listener, Request


def exponential(mean_ns: float, seed: int) -> Iterator[int]:
    draws = random.Random(seed)
    while True:
        yield round(draws.expovariate(1 / mean_ns))


def fixed(service_ns: int) -> Iterator[int]:
    while True:
        yield service_ns


class Rows:
    """Requests of nothing but their slots."""

    def next(self, slot: int) -> Request:
        return Request(slot=slot)

    def closing(self, slot: int) -> None:
        return None


class SimulatedQueue:
    """Answers requests in their order; who waits, waits without bound."""

    def __init__(
        self,
        clock: Callable[[], int],
        after: Callable[..., object],
        service_ns: Iterator[int],
        servers: int = 1,
        responses: int = 1,
    ) -> None:
        self._clock, self._after, self._service_ns = clock, after, service_ns
        self._free, self._responses = servers, responses
        self._waiting: deque[tuple[Request, Listener]] = deque()
        self.payloads: list[object] = []

    def send(self, request: Request, listener: Listener) -> None:
        self.payloads.append(request.payload)
        self._waiting.append((request, listener))
        self._serve()

    def _serve(self) -> None:
        if self._free and self._waiting:
            self._free -= 1
            self._step(*self._waiting.popleft(), self._responses)

    def _step(self, request: Request, listener: Listener, left: int) -> None:
        self._after(next(self._service_ns), self._responded, request, listener, left - 1)

    def _responded(self, request: Request, listener: Listener, left: int) -> None:
        listener.responded(request, self._clock())
        if left:
            self._step(request, listener, left)
            return
        self._free += 1
        listener.ended(request, self._clock())
        self._serve()
