# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""The routes of trace settings, log settings and shared memory.

Triton: server/src/http_server.cc HandleTrace, HandleLogging, Handle*SharedMemory @e1db8a6
"""

from typing import Final

import orjson

from backends.api.errors import InvalidArgumentError
from deployments.data_plane.face import Plane
from deployments.http.codec import settings as codec
from deployments.http.codec.json_text import read
from deployments.http.server.exchange import HttpExchange
from deployments.http.server.routes import Match, Row
from deployments.protocol import settings_values as values

_TRACE: Final = r"(?:/models/(?P<name>[^/]+))?/trace/setting"
_SYSTEM: Final = "/v2/systemsharedmemory"
_CUDA: Final = "/v2/cudasharedmemory"
_REGION: Final = r"(?:/region/(?P<name>[^/]+))?"


class SettingsRoutes:
    """Answers the routes in `rows`.

    Args:
        plane: The data plane.
    """

    def __init__(self, plane: Plane) -> None:
        self._plane = plane

    def rows(self) -> tuple[Row, ...]:
        """Return pattern, handlers by method and restricted category of each route."""
        return (
            (f"/v2{_TRACE}", {b"GET": self._get_trace, b"POST": self._set_trace}, "trace"),
            ("/v2/logging", {b"GET": self._get_log, b"POST": self._set_log}, "logging"),
            (f"{_SYSTEM}{_REGION}/status", {b"GET": self._system_status}, "shared-memory"),
            (f"{_SYSTEM}{_REGION}/register", {b"POST": self._register_system}, "shared-memory"),
            (f"{_SYSTEM}{_REGION}/unregister", {b"POST": self._unregister_system}, "shared-memory"),
            (f"{_CUDA}{_REGION}/status", {b"GET": self._cuda_status}, "shared-memory"),
            (f"{_CUDA}{_REGION}/register", {b"POST": self._register_cuda}, "shared-memory"),
            (f"{_CUDA}{_REGION}/unregister", {b"POST": self._unregister_cuda}, "shared-memory"),
        )

    def _get_trace(self, exchange: HttpExchange, match: Match) -> None:
        trace = self._plane.settings.trace(match.name)
        exchange.reply_json(orjson.dumps(values.render_trace(trace)))

    async def _set_trace(self, exchange: HttpExchange, match: Match) -> None:
        # That a model does not exist is said before its settings are looked at.
        self._plane.settings.trace(match.name)
        change = codec.read_trace_change(read(bytes(exchange.body)))
        trace = await self._plane.settings.change_trace(match.name, change)
        exchange.reply_json(orjson.dumps(values.render_trace(trace)))

    def _get_log(self, exchange: HttpExchange, match: Match) -> None:
        exchange.reply_json(orjson.dumps(values.render_log(self._plane.settings.log)))

    async def _set_log(self, exchange: HttpExchange, match: Match) -> None:
        change = codec.read_log_change(read(bytes(exchange.body)))
        log = await self._plane.settings.change_log(change)
        exchange.reply_json(orjson.dumps(values.render_log(log)))

    def _system_status(self, exchange: HttpExchange, match: Match) -> None:
        rows = [
            {
                "name": region.name,
                "key": region.key,
                "offset": region.offset,
                "byte_size": region.size_bytes,
            }
            for region in self._plane.settings.regions(match.name)
        ]
        exchange.reply_json(orjson.dumps(rows))

    async def _register_system(self, exchange: HttpExchange, match: Match) -> None:
        settings = self._plane.settings
        settings.require_client_memory()
        if not match.name:
            raise InvalidArgumentError(
                "'region name' is necessary to register system shared memory region"
            )
        key, offset, size_bytes = codec.read_system_registration(read(bytes(exchange.body)))
        await settings.register_system(match.name, key, offset, size_bytes)
        exchange.reply_json(b"")

    async def _unregister_system(self, exchange: HttpExchange, match: Match) -> None:
        await self._plane.settings.unregister(match.name)
        exchange.reply_json(b"")

    def _cuda_status(self, exchange: HttpExchange, match: Match) -> None:
        rows = [
            {
                "name": region.name,
                "device_id": region.device_id,
                "byte_size": region.size_bytes,
            }
            for region in self._plane.settings.regions(match.name, is_cuda=True)
        ]
        exchange.reply_json(orjson.dumps(rows))

    async def _register_cuda(self, exchange: HttpExchange, match: Match) -> None:
        settings = self._plane.settings
        settings.require_client_memory()
        if not match.name:
            raise InvalidArgumentError(
                "'region name' is necessary to register cuda shared memory region"
            )
        given = codec.read_cuda_registration(read(bytes(exchange.body)))
        await settings.register_cuda(match.name, *given)
        exchange.reply_json(b"")

    async def _unregister_cuda(self, exchange: HttpExchange, match: Match) -> None:
        await self._plane.settings.unregister(match.name, is_cuda=True)
        exchange.reply_json(b"")
