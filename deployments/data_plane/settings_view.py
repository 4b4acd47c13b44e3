# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Log settings, trace settings and shared memory as one caller may see them."""

from collections.abc import Mapping
from typing import Any

from deployments.access.contracts import Role
from deployments.data_plane.face import PlaneSettings
from deployments.data_plane.view_checks import EVERY_MODEL, Checks
from deployments.settings.server_settings import LogSettings, Region, TraceSettings


class CallerSettings:
    """Implements `deployments.data_plane.face.PlaneSettings` for one caller.

    Whoever may see settings of any model may see the server's; the server's are changed only by who
    may change those of every model.

    Args:
        settings: Those of the process.
        checks: Of the caller.
    """

    def __init__(self, settings: PlaneSettings, checks: Checks) -> None:
        self._settings = settings
        self._checks = checks

    @property
    def log(self) -> LogSettings:
        """The log settings."""
        self._checks.require(Role.SETTINGS, "", "log settings")
        return self._settings.log

    async def change_log(self, values: Mapping[str, Any]) -> LogSettings:
        """Set attributes of the log settings and return the new ones."""
        self._require_change(values, "", "log settings")
        return await self._settings.change_log(values)

    def trace(self, model: str) -> TraceSettings:
        """Return the trace settings of a model; an empty name means the server's."""
        self._checks.require(Role.SETTINGS, model, "trace settings")
        return self._settings.trace(model)

    async def change_trace(self, model: str, values: Mapping[str, Any]) -> TraceSettings:
        """Set attributes of trace settings and return the new ones."""
        self._require_change(values, model, "trace settings")
        return await self._settings.change_trace(model, values)

    def regions(self, name: str = "", *, is_cuda: bool = False) -> list[Region]:
        """Return the region of a name, or all of a kind."""
        self._require_memory("region status", is_noted=False)
        return self._settings.regions(name, is_cuda=is_cuda)

    def require_client_memory(self) -> None:
        """Refuse when clients may not use shared memory."""
        self._require_memory("region", is_noted=False)
        self._settings.require_client_memory()

    async def register_system(self, name: str, key: str, offset: int, size_bytes: int) -> None:
        """Register a part of a POSIX shared-memory object."""
        self._require_memory("register region")
        await self._settings.register_system(name, key, offset, size_bytes)

    async def register_cuda(
        self, name: str, handle: bytes, device_id: int, size_bytes: int
    ) -> None:
        """Register an allocation of a GPU's memory."""
        self._require_memory("register region")
        await self._settings.register_cuda(name, handle, device_id, size_bytes)

    async def unregister(self, name: str = "", *, is_cuda: bool = False) -> None:
        """Forget the region of a name, or all of a kind."""
        self._require_memory("unregister region")
        await self._settings.unregister(name, is_cuda=is_cuda)

    def _require_change(self, values: Mapping[str, Any], model: str, what: str) -> None:
        # Without values nothing is changed: over gRPC this is how settings are read.
        name = model or EVERY_MODEL if values else model
        self._checks.require(Role.SETTINGS, name, what, is_noted=bool(values))

    def _require_memory(self, what: str, *, is_noted: bool = True) -> None:
        self._checks.require(Role.SHARED_MEMORY, "", what, is_noted=is_noted)
