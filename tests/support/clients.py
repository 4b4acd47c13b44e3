# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Requests with stock clients, and load that counts its outcomes."""

import threading
from collections import Counter
from collections.abc import Callable

import numpy as np
import tritonclient.grpc as triton_grpc
import tritonclient.http as triton_http
from tritonclient.utils import InferenceServerException

LEFT = np.arange(16, dtype=np.int32).reshape(1, 16)
RIGHT = np.full((1, 16), 3, dtype=np.int32)

_PAUSE_S = 0.02


def add_sub_inputs(client: object) -> list[object]:
    """Return INPUT0 and INPUT1 for either client module."""
    inputs = []
    for name, array in (("INPUT0", LEFT), ("INPUT1", RIGHT)):
        tensor = client.InferInput(name, list(array.shape), "INT32")  # type: ignore[attr-defined]
        tensor.set_data_from_numpy(array)
        inputs.append(tensor)
    return inputs


def check_add_sub(result: object) -> None:
    """Assert that a result is the sum and difference."""
    np.testing.assert_array_equal(result.as_numpy("OUTPUT0"), LEFT + RIGHT)  # type: ignore[attr-defined]
    np.testing.assert_array_equal(result.as_numpy("OUTPUT1"), LEFT - RIGHT)  # type: ignore[attr-defined]


class Load:
    """Closed-loop load on an add/sub model from threads, each with a connection of its own."""

    def __init__(
        self, url: str, model: str, *, protocol: str = "http", concurrency: int = 16
    ) -> None:
        self.outcomes: Counter[str] = Counter()
        self._lock = threading.Lock()
        self._progress = threading.Condition(self._lock)
        self._stop = threading.Event()
        target: Callable[[str, str], None] = self._http if protocol == "http" else self._grpc
        self._threads = [
            threading.Thread(target=target, args=(url, model), daemon=True)
            for _ in range(concurrency)
        ]
        for thread in self._threads:
            thread.start()

    def wait_for(self, more: int, timeout_s: float = 60.0) -> None:
        """Wait until that many more requests have ended well."""
        with self._progress:
            goal = self.outcomes["ok"] + more
            reached = self._progress.wait_for(lambda: self.outcomes["ok"] >= goal, timeout_s)
        assert reached, f"no progress: {dict(self.outcomes)}"

    def stop(self) -> "Counter[str]":
        """Stop and return how the requests ended."""
        self._stop.set()
        for thread in self._threads:
            thread.join(60)
        assert not any(thread.is_alive() for thread in self._threads), "a request hangs"
        return self.outcomes

    def _count(self, outcome: str) -> None:
        with self._progress:
            self.outcomes[outcome] += 1
            self._progress.notify_all()

    def _http(self, url: str, model: str) -> None:
        with triton_http.InferenceServerClient(url, network_timeout=30) as client:
            self._run(lambda: client.infer(model, add_sub_inputs(triton_http)))

    def _grpc(self, url: str, model: str) -> None:
        with triton_grpc.InferenceServerClient(url) as client:
            self._run(lambda: client.infer(model, add_sub_inputs(triton_grpc), client_timeout=30))

    def _run(self, infer: Callable[[], object]) -> None:
        while not self._stop.is_set():
            try:
                check_add_sub(infer())
            except InferenceServerException as error:
                self._count(f"error: {error}")
            except Exception as error:  # whatever the client's transport raises
                self._count(f"connection: {type(error).__name__}")
                # Clients that retry at once would keep the processor from a server that starts.
                self._stop.wait(_PAUSE_S)
            else:
                self._count("ok")
