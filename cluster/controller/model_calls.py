# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""What clients, and routers, ask of the controller about models and their rollouts."""

import asyncio
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from backends.api.errors import (
    InvalidArgumentError,
    NotFoundError,
    TritonError,
    UnavailableError,
)
from backends.api.model_identifier import name_of, shown
from backends.api.request import ParameterValue
from cluster.controller.boot import ROUTERS_TIMEOUT_S, Boot
from cluster.controller.gcs_watch import GcsWatch
from cluster.models.downloads import Downloads
from cluster.models.override import NO_OVERRIDE, Override, read_override
from cluster.models.states import index_rows
from cluster.repository.model_directory import check_model_name
from cluster.rollout.driver import Rollouts
from deployments.contracts.control import RolloutAction

_log = logging.getLogger(__name__)

# How old a listing of stores may be that the repository index shows.
_INDEX_AGE_S: Final = 15.0
_IS_POLLING: Final = "explicit model load / unload is not allowed if polling is enabled"


@dataclass(slots=True, eq=False)
class ModelCalls:
    """A part of `cluster.controller.controller.ModelController`.

    Attributes:
        boot: The start, after which models may be loaded, and what it works with.
        gcs: Without it nothing is loaded or unloaded.
        downloads: How far nodes are with files.
        rollouts: Those that go on, and their evidence.
        look_soon: Called when a version is being woken.
    """

    boot: Boot
    gcs: GcsWatch
    downloads: Downloads
    rollouts: Rollouts
    look_soon: Callable[[], None]

    async def wake(self, model_key: str, version: int, nested: bool = False) -> TritonError | None:
        """Wake a version that a router has requests for; see `ControllerLink.wake`."""
        await self.boot.recovered.wait()
        try:
            if self.boot.is_ending:
                raise UnavailableError("Server exiting")
            wake = self.boot.lifecycle.dormancy.wake(model_key, version, is_nested=nested)
            self.look_soon()
            await wake
        except TritonError as error:
            return error
        return None

    async def index(self, ready_only: bool = False) -> list[dict[str, str]]:
        """Return the repository index.

        Raises:
            TritonError: A repository cannot be listed.
        """
        names, duplicates = await self.boot.source.list_names(_INDEX_AGE_S)
        records = self.downloads.shown_in(self.boot.lifecycle.records)
        rows = index_rows(records, names, duplicates, ready_only=ready_only)
        for row in rows:
            why = self.boot.source.watch.reason_of(row["name"])
            if why:
                row["reason"] = "; ".join(filter(None, (row.get("reason", ""), why)))
        return rows

    async def load(self, name: str, parameters: Mapping[str, ParameterValue | bytes]) -> None:
        """Load or reload a model and wait until that is done.

        With namespacing that is the model of the name in every repository; files that come with the
        load make a model of no repository.

        Raises:
            TritonError: As Triton's repository API would.
        """
        self.boot.require_control(_IS_POLLING)
        check_model_name(name)
        override = read_override(name, parameters)
        work = f"the load of model '{name}'"
        await self.gcs.through(work, lambda: self._load_named(name, override))

    async def _load_named(self, name: str, override: Override) -> None:
        await self.boot.recovered.wait()
        keys = (name,) if override.files else await self.boot.source.keys_named(name)
        loads = (self._load(key, override) for key in keys)
        errors = [error for error in await asyncio.gather(*loads) if error is not None]
        if len(errors) > 1:
            raise type(errors[0])("".join(error.message for error in errors))
        if errors:
            raise errors[0]
        await self.boot.publisher.wait_known(ROUTERS_TIMEOUT_S)

    async def _load(self, key: str, override: Override) -> TritonError | None:
        try:
            await self.boot.lifecycle.load(key, override)
            # Files that came with the load are in no repository that a first use could read.
            if self.boot.is_on_demand and not override.files:
                self.boot.lifecycle.dormancy.know((key,))
        except TritonError as error:
            if self.boot.lifecycle.is_pending(key):
                await self._remember_load(key)
            return error
        await self._remember_load(key)
        return None

    async def _remember_load(self, key: str) -> None:
        lifecycle, saved = self.boot.lifecycle, self.boot.state.saved
        override, records = lifecycle.model_of(key).override, lifecycle.records
        if self.boot.is_explicit:
            saved.want(key, [records[e] for e in lifecycle.ensembles_of(key) if e in records])
        elif override.files:
            saved.want(key)
        else:
            # A listing tells of it; it loads with its first use again.
            saved.forget((key,), records)
        if not self.boot.state.save_override(key, override):
            text = "the files '%s' was loaded with are not kept: they, or those of all, are too big"
            _log.warning(text, key)
        await self.boot.state.save()

    async def unload(self, name: str, unload_dependents: bool = False) -> None:
        """Unload a model and wait until that is done; an unknown one is no error.

        With namespacing that is every model of the name.

        Raises:
            TritonError: As Triton's repository API would.
        """
        self.boot.require_control(_IS_POLLING)
        work = f"the unload of model '{name}'"
        await self.gcs.through(work, lambda: self._unload_named(name, unload_dependents))

    async def _unload_named(self, name: str, unload_dependents: bool) -> None:
        await self.boot.recovered.wait()
        records = self.boot.lifecycle.records
        is_one = not self.boot.options.model_namespacing
        keys = [name] if is_one else [key for key in records if name_of(key) == name]
        for key in keys:
            gone = await self.boot.lifecycle.unload(key, unload_dependents=unload_dependents)
            self.boot.state.saved.forget(gone, records)
            self.boot.state.save_override(key, NO_OVERRIDE)
        await self.boot.state.save()
        await self.boot.publisher.wait_known(ROUTERS_TIMEOUT_S)

    async def report_arms(self, router_id: str, report: bytes) -> None:
        """Take what a router tells of the arms; see `deployments.contracts.arm_report`."""
        del router_id
        self.rollouts.take(report)

    async def rollout(
        self, name: str, action: RolloutAction, document: dict[str, Any]
    ) -> dict[str, Any]:
        """Do something about the rollout of a model; see `RolloutControl.rollout`.

        An empty name gets all rollouts, as ``rollouts``.

        Raises:
            TritonError: As there.
        """
        await self.boot.recovered.wait()
        if action is RolloutAction.GET:
            if not name:
                return {"rollouts": self.rollouts.statuses()}
            return self.rollouts.status(self._key_of(name))
        self.boot.require_control(
            "rollouts can be changed where models can be loaded and unloaded: start the server"
            " with --model-control-mode=explicit (or ondemand)"
        )
        status = self.rollouts.ask(self._key_of(name), action, document)
        await self.boot.state.save()
        await self.boot.publisher.wait_known(ROUTERS_TIMEOUT_S)
        return status

    def _key_of(self, name: str) -> str:
        records = self.boot.lifecycle.records
        if name in records:
            return name
        keys = [key for key, record in records.items() if name_of(key) == name and record.versions]
        if len(keys) > 1:
            raise InvalidArgumentError(
                f"{len(keys)} repositories have a model '{shown(name)}'; a rollout needs the key"
                " of one of them"
            )
        if not keys:
            raise NotFoundError(f"there is no model '{shown(name)}'; load it first")
        return keys[0]
