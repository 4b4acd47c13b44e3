# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""The part of the data plane that is about `ServerSettings`, for every transport.

Reads come from the routing table, so they cost nothing; changes go through the controller.
"""

import asyncio
from collections.abc import Callable, Collection, Mapping
from typing import Any, Final

from backends.api.errors import (
    InvalidArgumentError,
    NotFoundError,
    TritonError,
    UnsupportedError,
)
from deployments.contracts.control import SettingsControl
from deployments.settings.server_settings import (
    LogChange,
    LogSettings,
    Region,
    RegionAdded,
    RegionRemoved,
    ServerSettings,
    TraceChange,
    TraceSettings,
    check_name,
)
from deployments.shared_memory.cuda import CudaMaps
from deployments.shared_memory.system import HeldObjects

_DISABLED: Final = (
    "Client shared memory is disabled. Start the server with '--allow-client-shm=true' to enable."
)
# What the wrong kind's and the right kind's status route call a region, by whether it is CUDA.
_KINDS: Final = {False: "system", True: "CUDA"}


class SettingsPlane:
    """Log settings, trace settings and shared-memory regions.

    Args:
        current: Returns the settings as this process knows them.
        control: Changes them.
        knows_model: Raises when there is no ready model of a name.
        node_id: Ray node of this process.
        allow_client_memory: ``--allow-client-shm``.
        cuda: Memory of this node's GPUs.
    """

    def __init__(
        self,
        current: Callable[[], ServerSettings],
        control: SettingsControl,
        knows_model: Callable[[str], object],
        *,
        node_id: str = "",
        allow_client_memory: bool = False,
        cuda: CudaMaps | None = None,
    ) -> None:
        self._current = current
        self._control = control
        self._knows_model = knows_model
        self._node_id = node_id
        self._allow_client_memory = allow_client_memory
        self._held = HeldObjects()
        self._cuda = cuda or CudaMaps()

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

    def regions(self, name: str = "", *, is_cuda: bool = False) -> list[Region]:
        """Return the region of a name, or all of a kind.

        Args:
            name: The name; empty for all.
            is_cuda: Whether memory of GPUs is meant, or system memory.

        Raises:
            NotFoundError: There is no region of that name and kind.
        """
        regions = self._current().regions
        if not name:
            return [regions[key] for key in sorted(regions) if regions[key].is_cuda == is_cuda]
        region = regions.get(name)
        if region is None:
            raise NotFoundError(
                f"Unable to find {_KINDS[is_cuda].lower()} shared memory region: '{name}'"
            )
        if region.is_cuda != is_cuda:
            raise NotFoundError(
                f"The region named '{name}' is registered as {_KINDS[region.is_cuda]} shared "
                f"memory, not {_KINDS[is_cuda]} shared memory"
            )
        return [region]

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
        # The controller would refuse too; said here before the object is looked at.
        check_name(self._current(), name)
        region = self._held.hold(region)
        is_registered = False
        try:
            await self._control.change_settings(RegionAdded(region))
            is_registered = True
        finally:
            self._held.settle(region.source, is_registered=is_registered)

    async def unregister(self, name: str = "", *, is_cuda: bool = False) -> None:
        """Forget the region of a name, or all of a kind; an unknown one is no error."""
        self.require_client_memory()
        if any(region.is_cuda == is_cuda for region in self._current().regions.values()):
            await self._control.change_settings(RegionRemoved(name, is_cuda))

    def release_others(self, sources: Collection[str]) -> None:
        """Let go of the objects whose regions are gone."""
        self._held.release_others(sources)

    async def register_cuda(
        self, name: str, handle: bytes, device_id: int, size_bytes: int
    ) -> None:
        """Register an allocation of a GPU's memory.

        Args:
            name: The client's name for it.
            handle: Its ``cudaIpcMemHandle_t``.
            device_id: The client's number of the GPU.
            size_bytes: Size of the region.

        Raises:
            TritonError: As Triton would.
        """
        self.require_client_memory()
        check_name(self._current(), name)
        # Not on the loop: CUDA's first call in a process takes its time.
        source = await asyncio.to_thread(self._cuda.check, name, handle, device_id, size_bytes)
        region = Region(name, "", 0, size_bytes, self._node_id, source, device_id)
        await self._control.change_settings(RegionAdded(region))
