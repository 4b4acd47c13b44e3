# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Runs trials on one server: variants loaded, loads measured, memory and CPU time looked at."""

import asyncio
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Final

from backends.api.errors import TritonError, UnavailableError
from backends.api.model_config import ModelConfig
from manta_tools.analyze.measuring.gauges import gauges_over
from manta_tools.analyze.measuring.load import (
    Conditions,
    Loaded,
    options_of,
    put_under_load,
)
from manta_tools.analyze.measuring.meter import Meter
from manta_tools.analyze.measuring.metrics import gpu_metrics_of, metrics_of
from manta_tools.analyze.measuring.processes import Processes
from manta_tools.analyze.measuring.repository import Repository
from manta_tools.analyze.measuring.server import Addresses, Server
from manta_tools.analyze.records import Candidate, Measured, Setting, Trial
from manta_tools.analyze.space.variants import load_config

# Beyond this share of failed requests a measurement says nothing.
_MOST_FAILED: Final = 0.01
_DRAIN_POLL_S: Final = 0.1
_DRAIN_POLLS: Final = 150

# Returns a setting's config as the repository API takes it. One that changes nothing has one too:
# a load without a config leaves the config of the last load.
Override = Callable[[Setting], str]


@dataclass(frozen=True, slots=True)
class Models:
    """What is known of the models that are measured.

    Attributes:
        composing: By model, the models that it calls: an ensemble's steps, a BLS model's.
        override: The config of a setting.
        is_reloaded: Whether variants are loaded at all; else models are measured as they are.
    """

    override: Override
    composing: Mapping[str, tuple[str, ...]]
    is_reloaded: bool = True


class TrialMeasurer:
    """Measures trials one after the other.

    Args:
        server: Where they run.
        conditions: How.
        models: What is known of the models.
        max_retries: How often it is tried to connect, once a second.
        on_report: Takes what the load generator says of a model, and the model's name.

    Attributes:
        name: What lines call this machine.
        idle_gpus: Metrics of GPUs by UUID before any model was loaded.
    """

    name = ""

    def __init__(
        self,
        server: Server,
        conditions: Conditions,
        models: Models,
        *,
        max_retries: int = 50,
        on_report: Callable[[str, str], None] | None = None,
    ) -> None:
        self._server, self._conditions, self._models = server, conditions, models
        self._max_retries, self._on_report = max_retries, on_report
        self._addresses: Addresses | None = None
        self._repository: Repository | None = None
        # What each model was loaded with last, and what it had before anything was changed.
        self._loaded: dict[str, str | None] = {}
        self._before: dict[str, str] = {}
        self._touched: set[str] = set()
        self._ready_before: frozenset[str] = frozenset()
        self.idle_gpus: Mapping[str, Mapping[str, float]] = {}

    async def measure(self, trial: Trial) -> Measured:
        """Serve the candidate, put it under load and return what came of it.

        Raises:
            UnavailableError: There is no server, and none can be started.
        """
        repository, addresses = await self.connect()
        self._server.forget()
        try:
            async with asyncio.timeout(self._conditions.timeout_s):
                await self._serve(trial.candidate, repository)
                return await self._loads(trial, repository, addresses)
        except TimeoutError:
            reason = f"not measured within {self._conditions.timeout_s:g} s"
        except TritonError as error:
            reason = str(error)
        return await self._failed(trial, reason)

    async def default_config(self, model: str) -> ModelConfig:
        """Return a model's config as the server has it, completed.

        It is that of the repository, unless somebody has loaded the model with another one.

        Raises:
            UnavailableError: There is no server, or the model does not load.
        """
        repository, _ = await self.connect()
        if self._models.is_reloaded and model not in self._loaded:
            self._server.forget()
            try:
                await self._load(repository, model, None)
            except UnavailableError as error:
                raise UnavailableError(
                    f"model '{model}' does not load as its repository has it: {error} "
                    f"({await self._server.why()}); see 'manta check'"
                ) from None
        config = await repository.config(model)
        if self._models.is_reloaded:
            self._loaded[model] = load_config(config)
            self._before.setdefault(model, load_config(config))
        return config

    async def connect(self) -> tuple[Repository, Addresses]:
        """Return the server's repository and addresses, started if it does not run.

        Raises:
            UnavailableError: It cannot be reached, or does not start.
        """
        if self._repository and self._addresses and not self._server.has_died:
            return self._repository, self._addresses
        await self._disconnect()
        addresses = await self._server.start()
        repository = Repository(
            addresses.http, max_retries=self._max_retries, timeout_s=self._conditions.timeout_s
        )
        await repository.open()
        self._addresses, self._repository = addresses, repository
        self._ready_before = await repository.ready_models()
        if not self.idle_gpus:
            self.idle_gpus = await self._idle_gpus(addresses)
        return repository, addresses

    async def _idle_gpus(self, addresses: Addresses) -> Mapping[str, Mapping[str, float]]:
        conditions = self._conditions
        found = await gauges_over(addresses.metrics, conditions.idle_s, conditions.interval_s)
        return gpu_metrics_of(found, conditions.gpus)

    async def close(self) -> None:
        """Restore what a server that goes on had loaded, and stop one of its own."""
        try:
            if self._addresses and not self._addresses.pid:
                await self._restore()
        finally:
            await self._disconnect()
            await self._server.stop()

    async def _restore(self) -> None:
        """Load what was ready before with the config that it had, and unload the rest."""
        repository, complaints = self._repository, list[str]()
        if repository is None:
            return
        # Who calls others is loaded after them, and unloaded before.
        order = sorted(self._touched, key=lambda model: bool(self._models.composing.get(model)))
        loads = [model for model in order if model in self._ready_before]
        unloads = [model for model in reversed(order) if model not in self._ready_before]
        steps = [(each, partial(repository.load, each, self._before.get(each))) for each in loads]
        steps += [(each, partial(repository.unload, each)) for each in unloads]
        for model, step in steps:
            try:
                await step()
            except UnavailableError as error:
                complaints.append(f"'{model}': {error}")
        if complaints:
            raise UnavailableError(
                f"the server was not restored as it was: {'; '.join(complaints)}"
            )

    async def _disconnect(self) -> None:
        repository, self._repository, self._addresses = self._repository, None, None
        self._loaded, self._touched = {}, set()
        if repository is not None:
            await repository.close()

    async def _serve(self, candidate: Candidate, repository: Repository) -> None:
        """Load what differs from what is loaded, and unload what takes no part."""
        if not self._models.is_reloaded:
            return
        wanted = {each.model: self._models.override(each) for each in candidate.settings}
        for model in [each for each in self._loaded if each not in wanted]:
            del self._loaded[model]
            await repository.unload(model)
        changed = {
            model
            for model, text in wanted.items()
            if model not in self._loaded or self._loaded[model] != text
        }
        callers = {each for each in wanted if self._models.composing.get(each)}
        # A caller is checked against what it calls when it is loaded.
        changed |= {each for each in callers if changed.intersection(self._models.composing[each])}
        before = self._pids(changed)
        for group in (changed - callers, changed & callers):
            await asyncio.gather(
                *(self._load(repository, model, wanted[model]) for model in sorted(group))
            )
        await self._drained(repository, before, changed)

    async def _drained(
        self, repository: Repository, before: frozenset[int], changed: Collection[str]
    ) -> None:
        """Wait until what served before has ended: it would take part in the measurement.

        Where only the number of instances changes, some of them go on.
        """
        if not before:
            return
        configs = [await repository.config(model) for model in sorted(changed)]
        expected = sum(max(1, group.count) for each in configs for group in each.instance_group)
        for _ in range(_DRAIN_POLLS):
            now = self._pids(changed)
            if not before & now or len(now) <= expected:
                return
            await asyncio.sleep(_DRAIN_POLL_S)

    def _pids(self, models: Collection[str]) -> frozenset[int]:
        pid = self._addresses.pid if self._addresses else 0
        return Processes(pid).pids(models) if pid else frozenset()

    async def _load(self, repository: Repository, model: str, text: str | None) -> None:
        self._touched.add(model)
        self._loaded.pop(model, None)
        await repository.load(model, text)
        self._loaded[model] = text

    async def _loads(self, trial: Trial, repository: Repository, addresses: Addresses) -> Measured:
        options = [
            (
                load,
                options_of(
                    load,
                    addresses,
                    self._conditions,
                    budget=trial.budget,
                    is_alone=len(trial.loads) == 1,
                    has_gpus=bool(self.idle_gpus),
                ),
            )
            for load in trial.loads
        ]
        asked = frozenset(load.model for load in trial.loads)
        async with self._meter(asked, repository, addresses) as meter:
            loaded = await put_under_load(options)
        for each in loaded:
            if self._on_report:
                self._on_report(each.load.model, each.report())
            if complaint := _complaint(each):
                raise UnavailableError(complaint)
        if meter.died:
            raise UnavailableError(f"{meter.died} instances died under the load")
        return Measured(
            trial,
            {each.load.model: metrics_of(each) | meter.metrics(each.load.model) for each in loaded},
            is_stable=all(each.measurement.is_stable for each in loaded),
            gpu_metrics=gpu_metrics_of(loaded[0].measurement.total.gauges, self._conditions.gpus),
        )

    def _meter(self, asked: frozenset[str], repository: Repository, addresses: Addresses) -> Meter:
        return Meter(
            Processes(addresses.pid) if addresses.pid else None,
            repository,
            {each: frozenset((each, *self._models.composing.get(each, ()))) for each in asked},
            self._conditions.interval_s,
        )

    async def _failed(self, trial: Trial, reason: str) -> Measured:
        why = await self._server.why()
        if self._server.has_died:
            reason = f"the server died: {reason}"
        # A load that failed leaves what was loaded before; nobody knows what after a timeout.
        self._loaded = dict.fromkeys(self._loaded, "")
        return Measured(trial, {}, is_stable=False, error=f"{reason} ({why})" if why else reason)


def _complaint(loaded: Loaded) -> str:
    window = loaded.measurement.total.window
    total = window.requests + window.failures
    if window.failures > _MOST_FAILED * total:
        return f"{window.failures} of {total} requests to model '{loaded.load.model}' failed"
    return ""
