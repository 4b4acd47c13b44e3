# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""The client over HTTP: inference, and what is asked of the server besides."""

import asyncio
import json
import ssl
from collections.abc import Callable, Mapping
from typing import Any
from urllib.parse import quote

from backends.api.errors import UnavailableError
from manta_tools.perf.clients.http_answers import Answer
from manta_tools.perf.clients.http_connections import HttpConnections
from manta_tools.perf.clients.http_encoding import (
    encode_http,
    mismatch_http,
    model_path,
    request_bytes,
)
from manta_tools.perf.clients.payload import Form, Payload, Places
from manta_tools.perf.data.model import Model
from manta_tools.perf.data.rows import Row
from manta_tools.perf.data.sequences import SequencePart
from manta_tools.perf.records import Listener, Request


class HttpClient:
    """A server's HTTP port."""

    def __init__(
        self,
        address: tuple[str, int],
        clock: Callable[[], int],
        *,
        tls: ssl.SSLContext | None = None,
        headers: tuple[tuple[str, str], ...] = (),
    ) -> None:
        """Make a client; it connects when it is used.

        Args:
            address: Host and port.
            clock: The time, in nanoseconds.
            tls: How the server is trusted; None for plain HTTP.
            headers: Headers of every request.
        """
        self._host = f"{address[0]}:{address[1]}"
        self._headers = dict(headers)
        self._clock = clock
        self._connections = HttpConnections(*address, clock, tls)

    async def open(self, count: int) -> None:
        """Open connections before they are needed.

        Raises:
            UnavailableError: The server cannot be reached.
        """
        try:
            await self._connections.open(count)
        except OSError as error:
            raise UnavailableError(f"cannot connect to {self._host}: {error}") from None

    async def close(self) -> None:
        """Close all connections."""
        await self._connections.close()

    def encode(self, form: Form, row: Row, places: Places, part: SequencePart | None) -> Payload:
        """Encode a request."""
        return encode_http(form, self._host, row, places, part)

    def send(self, request: Request, listener: Listener) -> None:
        """Send a request."""

        def done(answer: Answer) -> None:
            request.receive_ns = answer.end_ns - answer.first_ns
            request.error = answer.error
            if not request.error:
                if request.payload.expected:
                    request.error = mismatch_http(
                        request.payload.expected, answer.head, answer.body
                    )
                listener.responded(request, answer.end_ns)
            listener.ended(request, answer.end_ns)

        self._connections.exchange(request.payload.wire, done)
        request.send_ns = self._clock() - request.start_ns

    async def metadata(self, model: Model) -> Mapping[str, Any]:
        """Return the model's metadata.

        Raises:
            UnavailableError: The server refuses, or cannot be reached.
        """
        return await self._json("GET", model_path(model))

    async def config(self, model: Model) -> Mapping[str, Any]:
        """Return the model's config; raises as `metadata` does."""
        return await self._json("GET", f"{model_path(model)}/config")

    async def statistics(self, model: Model | None = None) -> Mapping[str, Any]:
        """Return the statistics of a model or of all; raises as `metadata` does."""
        path = f"{model_path(model)}/stats" if model else "/v2/models/stats"
        return await self._json("GET", path)

    async def set_tracing(self, model: Model, settings: Mapping[str, str]) -> None:
        """Change settings of the model's traces; raises as `metadata` does."""
        changed: dict[str, Any] = dict(settings)
        if "trace_level" in changed:
            changed["trace_level"] = [changed["trace_level"]]
        path = f"/v2/models/{quote(model.name, safe='')}/trace/setting"
        await self._json("POST", path, json.dumps(changed).encode())

    async def register_memory(self, name: str, key: str, size_bytes: int) -> None:
        """Register a region of system shared memory; raises as `metadata` does."""
        body = json.dumps({"key": key, "offset": 0, "byte_size": size_bytes}).encode()
        await self._json("POST", f"{_region_path(name)}/register", body)

    async def unregister_memory(self, name: str) -> None:
        """Unregister a region; raises as `metadata` does."""
        await self._json("POST", f"{_region_path(name)}/unregister")

    async def page(self, path: str) -> str:
        """Return a page's text; raises as `metadata` does."""
        return (await self._answer("GET", path)).decode(errors="replace")

    async def post(self, path: str, body: bytes) -> bytes:
        """Post a JSON body and return the answer's; raises as `metadata` does."""
        return await self._answer("POST", path, body)

    async def _json(self, method: str, path: str, body: bytes = b"") -> Mapping[str, Any]:
        document: Mapping[str, Any] = json.loads(await self._answer(method, path, body) or b"{}")
        return document

    async def _answer(self, method: str, path: str, body: bytes = b"") -> bytes:
        came: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
        data = request_bytes(method, path, self._host, body, self._headers)

        def done(answer: Answer) -> None:
            # Who asked may have given up meanwhile.
            if not came.done():
                came.set_result(answer)

        self._connections.exchange(data, done)
        answer = await came
        if answer.error:
            raise UnavailableError(f"{method} http://{self._host}{path}: {answer.error}")
        return answer.body


def _region_path(name: str) -> str:
    return f"/v2/systemsharedmemory/region/{quote(name, safe='')}"
