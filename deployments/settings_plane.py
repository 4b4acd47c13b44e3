# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""The part of the data plane that is about `ServerSettings`, for every transport.

Reads come from the routing table, so they cost nothing; changes go through the controller.
"""

from collections.abc import Callable, Collection, Mapping
from typing import Any, Final

from backends.api.errors import (
    InvalidArgumentError,
    NotFoundError,
    TritonError,
    UnsupportedError,
)
from deployments.seams import SettingsControl
from deployments.server_settings import (
    LogChange,
    LogSettings,
    Region,
    RegionAdded,
    RegionRemoved,
    ServerSettings,
    TraceChange,
    TraceSettings,
)
from deployments.system_memory import HeldObjects

_DISABLED: Final = (
    "Client shared memory is disabled. Start the server with '--allow-client-shm=true' to enable."
)
_HANDLE_BYTES: Final = 64


class SettingsPlane:
    """Log settings, trace settings and shared-memory regions.

    Args:
        current: Returns the settings as this process knows them.
        control: Changes them.
        knows_model: Raises when there is no ready model of a name.
        node_id: Ray node of this process.
        allow_client_memory: ``--allow-client-shm``.
    """

    def __init__(
        self,
        current: Callable[[], ServerSettings],
        control: SettingsControl,
        knows_model: Callable[[str], object],
        *,
        node_id: str = "",
        allow_client_memory: bool = False,
    ) -> None:
        self._current = current
        self._control = control
        self._knows_model = knows_model
        self._node_id = node_id
        self._allow_client_memory = allow_client_memory
        self._held = HeldObjects()

    @property
    def log(self) -> LogSettings:
        """The log settings."""
        return self._current().log

    async def change_log(self, values: Mapping[str, Any]) -> LogSettings:
        """Set attributes of the log settings and return the new ones."""
        if not values:
            return self.log
        return (await self._control.change_settings(LogChange(values))).log

    def trace(self, model: str) -> TraceSettings:
        """Return the trace settings of a model; an empty name means the server's.

        Raises:
            InvalidArgumentError: There is no such model.
        """
        self._check_model(model)
        return self._current().trace_of(model)

    async def change_trace(self, model: str, values: Mapping[str, Any]) -> TraceSettings:
        """Set attributes of trace settings, or clear those that are None; returns the new ones.

        Raises:
            InvalidArgumentError: There is no such model, or the settings could not work.
        """
        self._check_model(model)
        if not values:
            return self._current().trace_of(model)
        change = TraceChange(model, values)
        return (await self._control.change_settings(change)).trace_of(model)

    def _check_model(self, model: str) -> None:
        if not model:
            return
        try:
            self._knows_model(model)
        except TritonError:
            raise InvalidArgumentError(f"Request for unknown model : {model}") from None

    def system_regions(self, name: str = "") -> list[Region]:
        """Return the region of a name, or all.

        Raises:
            NotFoundError: There is no region of that name.
        """
        regions = self._current().regions
        if not name:
            return [regions[key] for key in sorted(regions)]
        if name not in regions:
            raise NotFoundError(f"Unable to find system shared memory region: '{name}'")
        return [regions[name]]

    def cuda_regions(self, name: str = "") -> list[Region]:
        """Return no region: none can be registered.

        Raises:
            NotFoundError: A region was named.
        """
        if name in self._current().regions:
            raise NotFoundError(
                f"The region named '{name}' is registered as system shared memory, not CUDA shared "
                f"memory"
            )
        if name:
            raise NotFoundError(f"Unable to find cuda shared memory region: '{name}'")
        return []

    def require_client_memory(self) -> None:
        """Refuse when clients may not use shared memory.

        Raises:
            UnsupportedError: They may not.
        """
        if not self._allow_client_memory:
            raise UnsupportedError(_DISABLED)

    async def register_system(self, name: str, key: str, offset: int, size_bytes: int) -> None:
        """Register a part of a POSIX shared-memory object.

        Raises:
            TritonError: As Triton would.
        """
        self.require_client_memory()
        region = Region(name, key, offset, size_bytes, self._node_id)
        if name in self._current().regions:
            # The controller would refuse too; said here before the object is looked at.
            await self._control.change_settings(RegionAdded(region))
        region = self._held.hold(region)
        is_registered = False
        try:
            await self._control.change_settings(RegionAdded(region))
            is_registered = True
        finally:
            self._held.settle(region.source, is_registered=is_registered)

    async def unregister_system(self, name: str = "") -> None:
        """Forget the region of a name, or all; an unknown one is no error."""
        self.require_client_memory()
        if self._current().regions:
            await self._control.change_settings(RegionRemoved(name))

    def release_others(self, sources: Collection[str]) -> None:
        """Let go of the objects whose regions are gone."""
        self._held.release_others(sources)

    def register_cuda(self, name: str, handle: bytes) -> None:
        """Refuse a part of a GPU's memory.

        Raises:
            InvalidArgumentError: Always.
        """
        self.require_client_memory()
        if len(handle) != _HANDLE_BYTES:
            raise InvalidArgumentError("failed to register shared memory region: invalid args")
        raise InvalidArgumentError(
            f"failed to register CUDA shared memory region: '{name}', GPUs not supported"
        )

    def unregister_cuda(self) -> None:
        """Do nothing: there is none."""
        self.require_client_memory()
