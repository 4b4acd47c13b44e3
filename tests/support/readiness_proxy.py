# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""A Service of Kubernetes in small: new connections go to pods whose readiness probe succeeds."""

import contextlib
import itertools
import socket
import threading
import urllib.request
from collections.abc import Callable, Sequence
from typing import Final, Self

from tests.support.server import until

_PERIOD_S: Final = 0.5
_CONNECT_S: Final = 10.0
_CHUNK_BYTES: Final = 1 << 16


def is_healthy(url: str, timeout_s: float = 2.0) -> bool:
    """Probe as a kubelet does with ``httpGet``."""
    try:
        with urllib.request.urlopen(url, timeout=timeout_s) as answer:
            return bool(200 <= answer.status < 400)
    except OSError:
        return False


class Endpoints:
    """Probes pods again and again, and has those that are ready of the ones a selector chooses.

    Args:
        addresses: Of the pods.
        url: Makes the probe's URL of an address.
    """

    def __init__(self, addresses: Sequence[str], url: Callable[[str], str]) -> None:
        self._healthy: dict[str, bool] = {}
        self._url = url
        self._stop = threading.Event()
        self._threads: dict[str, threading.Thread] = {}
        self.select(addresses)

    @property
    def ready(self) -> frozenset[str]:
        """Those that get new connections."""
        return frozenset(each for each in self._selected if self.is_healthy(each))

    def select(self, addresses: Sequence[str]) -> None:
        """Choose other pods from now on."""
        self.probe(addresses)
        self._selected = frozenset(addresses)

    def is_healthy(self, address: str) -> bool:
        """Whether a pod's probe succeeds, chosen or not."""
        return self._healthy.get(address, False)

    def probe(self, addresses: Sequence[str]) -> None:
        """Probe pods that are not chosen yet too, as a kubelet does."""
        for address in set(addresses) - self._threads.keys():
            thread = threading.Thread(target=self._probe, args=(address,), daemon=True)
            self._threads[address] = thread
            thread.start()

    def _probe(self, address: str) -> None:
        while not self._stop.wait(_PERIOD_S):
            # Two failures in a row, one success: Kubernetes' usual thresholds.
            self._healthy[address] = any(is_healthy(self._url(address)) for _ in range(2))

    def wait_ready(self, count: int, timeout_s: float) -> None:
        """Wait until so many pods are ready."""
        until(lambda: len(self.ready) == count, f"not {count} pods are ready", timeout_s)

    def close(self) -> None:
        self._stop.set()
        for thread in self._threads.values():
            thread.join(30)


class ReadinessProxy:
    """Forwards connections to a port of the pods that are ready, in turn.

    Attributes:
        address: host:port for clients.
        chosen: Pods that connections went to, in order.
    """

    def __init__(self, endpoints: Endpoints, port: int) -> None:
        self._endpoints = endpoints
        self._port = port
        self._turn = itertools.count()
        self.chosen: list[str] = []
        self._listening = socket.create_server(("127.0.0.1", 0), backlog=128)
        self.address = f"127.0.0.1:{self._listening.getsockname()[1]}"
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listening.accept()
            except OSError:
                return
            threading.Thread(target=self._forward, args=(client,), daemon=True).start()

    def _forward(self, client: socket.socket) -> None:
        with client:
            ready = sorted(self._endpoints.ready)
            if not ready:
                return
            pod = ready[next(self._turn) % len(ready)]
            self.chosen.append(pod)
            with socket.create_connection((pod, self._port), _CONNECT_S) as server:
                server.settimeout(None)
                back = threading.Thread(target=_pump, args=(server, client), daemon=True)
                back.start()
                _pump(client, server)
                back.join()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._listening.shutdown(socket.SHUT_RDWR)
        self._listening.close()


def _pump(source: socket.socket, sink: socket.socket) -> None:
    """Copy until the source ends, then end the sink's direction."""
    try:
        while data := source.recv(_CHUNK_BYTES):
            sink.sendall(data)
        sink.shutdown(socket.SHUT_WR)
    except OSError:
        for each in (source, sink):
            with contextlib.suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
