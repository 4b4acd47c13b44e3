# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""A tiny server of the V2 protocol over HTTP whose one model can be loaded with other configs."""

import json
import os
import signal
from collections.abc import Callable
from typing import Any

from tests.support.echo_servers import Counters, EchoHttpServer

REPOSITORY_CONFIG = {
    "name": "echo",
    "backend": "python",
    "max_batch_size": 8,
    "input": [{"name": "IN", "data_type": "TYPE_INT32", "dims": [4]}],
    "output": [{"name": "OUT", "data_type": "TYPE_INT32", "dims": [4]}],
    "instance_group": [{"name": "echo", "kind": "KIND_CPU", "count": 1}],
    "dynamic_batching": {},
}


class LoadableServer(EchoHttpServer):
    """Answers with what it was sent, once the model is loaded.

    Attributes:
        counters: What it counts.
        calls: Loads and unloads: what was done, and the config that came with it.
        loaded: The config that it serves with.
        refused_instances: So many instances do not load.
        failing_instances: With so many all requests fail.
        on_request: Called with the number of requests for inference that have come.
        on_metrics: Returns the page of metrics.
    """

    def __init__(self) -> None:
        self.counters = Counters(**REPOSITORY_CONFIG)
        super().__init__(self.counters)
        self.calls: list[tuple[str, dict[str, Any] | None]] = []
        self.is_ready = False
        self.loaded: dict[str, Any] = REPOSITORY_CONFIG
        self.refused_instances = self.failing_instances = 0
        self.on_request: Callable[[int], object] | None = None
        self.on_metrics: Callable[[], str] | None = None

    def _answer(self, path: str, fields: dict[str, str], body: bytes) -> tuple[str, bytes, str]:
        if path == "/v2/health/live":
            return "200 OK", b"", ""
        if path == "/v2/repository/index":
            state = {"state": "READY"} if self.is_ready else {}
            return "200 OK", json.dumps([{"name": "echo", **state}]).encode(), ""
        if path.startswith("/v2/repository/models/"):
            return self._control(path.rpartition("/")[2], body)
        if path == "/metrics" and self.on_metrics:
            self.counters.metrics = self.on_metrics()
        if path.endswith("/infer") and self.on_request:
            self.on_request(self.counters.served + 1)
        return super()._answer(path, fields, body)

    def interrupt(self) -> None:
        """Press Ctrl-C."""
        os.kill(os.getpid(), signal.SIGINT)

    def _control(self, action: str, body: bytes) -> tuple[str, bytes, str]:
        text = json.loads(body or b"{}").get("parameters", {}).get("config")
        config = json.loads(text) if text else None
        self.calls.append((action, config))
        self.is_ready = action == "load"
        # As in Triton, a load without a config leaves what the last load brought.
        loaded = config or self.loaded if action == "load" else REPOSITORY_CONFIG
        groups: Any = loaded["instance_group"]
        count = groups[0]["count"]
        if count == self.refused_instances:
            return "400 Bad Request", b'{"error":"too many instances"}', ""
        self.loaded = loaded
        self.counters.fails_with = "it is broken" if count == self.failing_instances else ""
        self.counters.config = {**loaded, "name": "echo"}
        return "200 OK", b"", ""
