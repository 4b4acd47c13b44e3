# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""The part of the data plane that is about `ServerSettings`, for every transport.

Reads come from the routing table, so they cost nothing; changes go through the controller.
"""

import asyncio
import logging
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
from deployments.shared_memory.uses import RegionUses
from deployments.supervision.supervisor import Supervisor

_log = logging.getLogger(__name__)

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

    Attributes:
        uses: Counts the requests that use each region.
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
        self.uses = RegionUses(self._unused)
        self._tasks = Supervisor("settings")
        # Regions that were left with their last request, until the controller has forgotten them.
        self._removals: dict[str, asyncio.Task[None]] = {}

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
        regions = self.known_regions()
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

    def known_regions(self) -> dict[str, Region]:
        """Return the regions that requests may name."""
        regions = self._current().regions
        if not self._removals:
            return regions
        return {name: each for name, each in regions.items() if name not in self._removals}

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
        await self._removed(name)
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
        """Forget the region of a name, or all of a kind; an unknown one is no error.

        A region that requests of this ingress use stays, for further requests too, until the last
        of them has ended.
        """
        self.require_client_memory()
        regions = self.known_regions().values()
        wanted = [each for each in regions if each.is_cuda == is_cuda and name in ("", each.name)]
        unused = [each.name for each in wanted if not self.uses.leave(each.name)]
        if unused and len(unused) == len(wanted):
            await self._control.change_settings(RegionRemoved(name, is_cuda))
            return
        for each in unused:
            await self._control.change_settings(RegionRemoved(each, is_cuda))

    def _unused(self, name: str) -> None:
        """Forget a region that was unregistered while requests used it."""
        region = self._current().regions.get(name)
        if region is not None and name not in self._removals:
            removal = self._tasks.spawn(f"removal of region '{name}'", self._remove(region))
            self._removals[name] = removal
            removal.add_done_callback(lambda _: self._removals.pop(name, None))

    async def _remove(self, region: Region) -> None:
        try:
            await self._control.change_settings(RegionRemoved(region.name, region.is_cuda))
        except TritonError as error:
            _log.warning(
                "shared memory region '%s', which was unregistered during requests, stays: %s",
                region.name,
                error.message,
            )

    async def _removed(self, name: str) -> None:
        """Wait until a region of a name that nothing uses any more is forgotten."""
        removal = self._removals.get(name)
        if removal is not None:
            await asyncio.wait({removal})

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
        await self._removed(name)
        check_name(self._current(), name)
        # Not on the loop: CUDA's first call in a process takes its time.
        source = await asyncio.to_thread(self._cuda.check, name, handle, device_id, size_bytes)
        region = Region(name, "", 0, size_bytes, self._node_id, source, device_id)
        await self._control.change_settings(RegionAdded(region))
