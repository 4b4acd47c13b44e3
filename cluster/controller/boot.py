# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""How a controller comes to serve: from what is alive, what it must know again, and the options."""

import asyncio
import logging
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from backends.api.errors import TritonError
from cluster.controller.durable_state import DurableState
from cluster.controller.host import ControllerHost
from cluster.controller.recovery import Recovered, adopt_live_instances
from cluster.controller.repository_source import RepositorySource
from cluster.controller.routing_publisher import RoutingPublisher
from cluster.instances.live import LiveInstance
from cluster.models.lifecycle import ModelLifecycle
from cluster.options.parsing import ServerOptions

_log = logging.getLogger(__name__)

# What a router gets to say that it has the table; it hears of each at once.
_ROUTERS_TIMEOUT_S: Final = 1.0
# How long a restarted controller keeps its table to itself while it puts models back in service.
_HOLD_S: Final = 10.0


@dataclass(slots=True)
class Boot:
    """The start of a controller, which is also its recovery.

    Attributes:
        recovered: Set once live instances are adopted and loads may begin.
        error: Why the start-up models could not be loaded at all; None when they could.
    """

    options: ServerOptions
    host: ControllerHost
    state: DurableState
    source: RepositorySource
    lifecycle: ModelLifecycle
    publisher: RoutingPublisher
    recovered: asyncio.Event = field(default_factory=asyncio.Event)
    error: TritonError | None = None

    async def run(self) -> None:
        """Adopt, hand out the table, load, and note that the server is initialised."""
        try:
            await self._recover_and_load()
        except TritonError as error:
            _log.error("start of the models: %s", error.message)
            self.error = error
        except Exception:
            # A controller that cannot start models must still answer, if only with reasons.
            _log.exception("start of the models")
        self.recovered.set()
        self.publisher.release()
        self.publisher.mark_initialised()
        self.state.saved.is_initialised = True
        self.state.schedule()

    async def _recover_and_load(self) -> None:
        saved = self.state.saved
        found = await adopt_live_instances(
            self.host, self.source, self.lifecycle, self.state.has_files_of
        )
        _log.info("%d live instances adopted", found.count - len(found.outdated))
        if saved.is_initialised:
            self.publisher.mark_initialised()
        for name, versions in saved.unloaded.items():
            self.lifecycle.restore_unloaded(name, versions)
        loads = asyncio.create_task(self._load_wanted())
        try:
            # Routers go on with their last table until this one is as complete.
            is_restart = bool(found.count) or saved.is_initialised
            await asyncio.wait({loads}, timeout=_HOLD_S if is_restart else 0)
            self.publisher.release()
            self.recovered.set()
            ending = asyncio.create_task(self._end_others(found))
            try:
                await loads
            finally:
                await ending
        finally:
            loads.cancel()

    async def _end_others(self, found: Recovered) -> None:
        async def retire_late() -> None:
            await self._retire(await found.late())

        await asyncio.gather(self._retire(found.outdated), retire_late())

    async def _retire(self, outdated: Sequence[LiveInstance]) -> None:
        if not outdated:
            return
        try:
            await self.publisher.wait_known(_ROUTERS_TIMEOUT_S)
            await self.host.retire_instances(outdated, float(self.options.exit_timeout_secs))
        except Exception:
            # What serves is there; these hold no more than their room.
            _log.exception("end of instances of earlier generations")

    async def _load_wanted(self) -> None:
        names = await self._wanted()
        self.state.saved.wanted = list(names) if self._is_explicit else []
        self.state.schedule()
        # Files given with a load are as they were: what is alive with them needs no reload.
        is_as_given = {
            name
            for name, record in self.lifecycle.records.items()
            if record.ready_versions and self.state.has_files_of(name)
        }
        others = [name for name in names if name not in is_as_given]
        if self.options.model_control_mode == "ondemand":
            self.lifecycle.dormancy.know(names)
            # Those with instances alive: what they have too few or too many of is settled.
            others = [name for name in others if self.lifecycle.records[name].ready_versions]
        await self.lifecycle.load_all(others, self.state.overrides)
        adopted_in_vain = [
            name
            for name, record in self.lifecycle.records.items()
            if name not in names and record.ready_versions and not self._is_composing(name)
        ]
        if self.source.watch.is_complete:
            await self.lifecycle.unload_all(adopted_in_vain)

    @property
    def _is_explicit(self) -> bool:
        return self.options.model_control_mode == "explicit"

    def _is_composing(self, name: str) -> bool:
        records = self.lifecycle.records.values()
        return any(name in record.composing and record.ready_versions for record in records)

    async def _wanted(self) -> list[str]:
        """Return the models that shall be loaded."""
        if self.state.saved.is_initialised and self._is_explicit:
            return list(self.state.saved.wanted)
        # Also where nothing is to be loaded: a repository that is not there stops the start.
        names, duplicates = await self.source.list_names()
        if self._is_explicit and "*" not in self.options.load_model:
            named = [await self.source.keys_named(name) for name in self.options.load_model]
            return list(dict.fromkeys(key for keys in named for key in keys))
        return sorted(set(names) - set(duplicates))
