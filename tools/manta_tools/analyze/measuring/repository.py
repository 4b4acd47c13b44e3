# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Loads and unloads models over the repository extension of a server's HTTP port."""

import asyncio
import json
import time
from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import quote

from backends.api.errors import UnavailableError
from backends.api.model_config import ModelConfig
from backends.config.pbtxt import from_json
from manta_tools.perf.clients.http_client import HttpClient

_RETRY_S: Final = 1.0


class Repository:
    """The model repository of one server.

    Args:
        http: host:port.
        max_retries: How often it is tried again to connect, once a second.
        timeout_s: How long a load may last.
    """

    def __init__(self, http: str, *, max_retries: int = 50, timeout_s: float = 600.0) -> None:
        host, _, port = http.removeprefix("http://").rpartition(":")
        self._http = http
        self._client = HttpClient((host.strip("[]"), int(port)), time.monotonic_ns)
        self._max_retries, self._timeout_s = max_retries, timeout_s

    async def open(self) -> None:
        """Wait until the server answers.

        Raises:
            UnavailableError: It did not after the last retry.
        """
        for left in range(self._max_retries, -1, -1):
            try:
                await self._client.open(1)
                await self._client.page("/v2/health/live")
            except UnavailableError:
                if not left:
                    raise
                await asyncio.sleep(_RETRY_S)
            else:
                return

    async def close(self) -> None:
        """Close its connections."""
        await self._client.close()

    async def ready_models(self) -> frozenset[str]:
        """Return the names of models that have a ready version."""
        rows = json.loads(await self._post("/v2/repository/index"))
        return frozenset(row["name"] for row in rows if row.get("state") == "READY")

    async def load(self, model: str, config: str | None = None) -> None:
        """Load a model, with a config (JSON) in place of its repository's or with that.

        Raises:
            UnavailableError: The server refuses it, in its words, or does not answer in time.
        """
        document = {"parameters": {"config": config}} if config is not None else {}
        await self._post(f"/v2/repository/models/{quote(model, safe='')}/load", document)

    async def unload(self, model: str) -> None:
        """Unload a model; raises as `load` does."""
        await self._post(f"/v2/repository/models/{quote(model, safe='')}/unload")

    async def config(self, model: str) -> ModelConfig:
        """Return the config of a loaded model; raises as `load` does."""
        return from_json(await self._client.page(f"/v2/models/{quote(model, safe='')}/config"))

    async def inference_count(self, models: frozenset[str]) -> int:
        """Return how many inferences models have made, all versions together."""
        answers = [
            json.loads(await self._client.page(f"/v2/models/{quote(each, safe='')}/stats"))
            for each in sorted(models)
        ]
        return sum(
            int(row.get("inference_count", 0))
            for answer in answers
            for row in answer.get("model_stats", ())
        )

    async def _post(self, path: str, document: Mapping[str, Any] | None = None) -> bytes:
        body = json.dumps(document or {}).encode()
        try:
            async with asyncio.timeout(self._timeout_s):
                return await self._client.post(path, body)
        except TimeoutError:
            raise UnavailableError(
                f"POST http://{self._http}{path} had no answer after {self._timeout_s:g} s"
            ) from None
