# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""One analysis: a server, the configs of its models, the search, and what it has found."""

import asyncio
import signal
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from backends.api.model_config import ModelConfig
from cluster.tools.analyze.checkpoints import Checkpoint
from cluster.tools.analyze.measuring.load import Conditions
from cluster.tools.analyze.measuring.measurer import Models, TrialMeasurer
from cluster.tools.analyze.measuring.server import (
    Addresses,
    EmbeddedServer,
    RunningServer,
    Server,
)
from cluster.tools.analyze.options.table import AnalyzeOptions
from cluster.tools.analyze.records import Measured, Setting
from cluster.tools.analyze.results.groups import (
    Noted,
    configs_as_json,
    note_groups,
    read_noted,
)
from cluster.tools.analyze.running import run_search
from cluster.tools.analyze.searching.choosing import Chosen, choose, composing_of
from cluster.tools.analyze.space.variants import VariantNames, load_config, variant

_REMOTE: Final = "remote"
_MS_PER_S: Final = 1000
# How often Ctrl-C has to come until the current trial is not waited for.
_AT_ONCE: Final = 3
_FLAGS_OF_MODE: Final = frozenset({"model-repository", "model-control-mode", "load-model"})

Say = Callable[[str], None]


@dataclass(slots=True)
class Interrupts:
    """How often somebody has asked to stop: once ends the current trial, three times all."""

    task: "asyncio.Task[Any]"
    say: Say
    count: int = 0

    def came(self) -> None:
        """Take one."""
        self.count += 1
        if self.count >= _AT_ONCE:
            self.task.cancel()
            return
        self.say(
            f"Stopping after the current measurement ({self.count}/{_AT_ONCE} to stop at once)"
        )

    @property
    def is_stopping(self) -> bool:
        """Whether any came."""
        return self.count > 0


@dataclass(frozen=True, slots=True)
class Outcome:
    """What an analysis came to.

    Attributes:
        noted: What was found.
        idle_gpus: Metrics of GPUs by UUID before any model was loaded.
        is_complete: Whether the search came to its end.
    """

    noted: Noted
    idle_gpus: Mapping[str, Mapping[str, float]]
    is_complete: bool


async def profile(options: AnalyzeOptions, say: Say) -> Outcome:
    """Search and measure as options ask for.

    Raises:
        InvalidArgumentError: Options do not go with the configs, or a checkpoint cannot be read.
        UnavailableError: There is no server, or a model's default config does not load.
    """
    task = asyncio.current_task()
    assert task is not None  # noqa: S101 - this is a coroutine
    interrupts = Interrupts(task, say)
    loop = asyncio.get_running_loop()
    loop.add_signal_handler(signal.SIGINT, interrupts.came)
    configs: dict[str, ModelConfig] = {}
    composing: dict[str, tuple[str, ...]] = {}

    def override(setting: Setting) -> str:
        return load_config(variant(configs[setting.model], setting))

    measurer = TrialMeasurer(
        server_of(options),
        conditions_of(options),
        Models(override, composing, is_reloaded=not options.reload_model_disable),
        max_retries=options.client_max_retries,
        on_report=_reporter(options) if options.perf_output else None,
    )
    try:
        configs |= await _configs(options, measurer, composing)
        chosen = choose(options, configs)
        for note in chosen.notes:
            say(f"note: {note}")
        with Checkpoint.resume(
            Path(options.checkpoint_directory), _setup(options, configs)
        ) as kept:
            return await _search(chosen, measurer, kept, interrupts, composing)
    finally:
        await measurer.close()
        loop.remove_signal_handler(signal.SIGINT)


async def _search(
    chosen: Chosen,
    measurer: TrialMeasurer,
    kept: Checkpoint,
    interrupts: Interrupts,
    composing: Mapping[str, tuple[str, ...]],
) -> Outcome:
    say = interrupts.say
    judges = [task.judge for task in chosen.tasks]
    note_groups(kept, judges, composing, tuple(facts_of(chosen)))
    idle_gpus = kept.facts.get("idle_gpus") or measurer.idle_gpus
    kept.note("idle_gpus", {uuid: dict(metrics) for uuid, metrics in idle_gpus.items()})
    if kept.measured:
        say(f"{len(kept.measured)} measurements are known from {kept.path}")
    names = VariantNames(composing)
    for each in kept.measured:
        names.names(each.trial.candidate)

    def on_measured(measured: Measured, is_known: bool) -> None:
        if not is_known:
            say(line_of(len(kept.measured), measured, names))

    is_complete = await run_search(
        chosen.search(),
        measurer,
        kept,
        is_stopping=lambda: interrupts.is_stopping,
        on_measured=on_measured,
    )
    return Outcome(read_noted(kept), idle_gpus, is_complete)


def _reporter(options: AnalyzeOptions) -> Callable[[str, str], None]:
    """Return what takes the load generator's reports: it prints them, or appends them to files."""

    def report(model: str, text: str) -> None:
        if not options.perf_output_path:
            print(text)
            return
        path = Path(options.perf_output_path, f"{model}.txt")
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("a") as file:
            file.write(f"{text}\n")

    return report


async def _configs(
    options: AnalyzeOptions, measurer: TrialMeasurer, composing: dict[str, tuple[str, ...]]
) -> dict[str, ModelConfig]:
    """Return the configs of all models that are measured, and of those that they call."""
    found: dict[str, ModelConfig] = {}
    pending = [each.name for each in options.profile_models]
    while pending:
        name = pending.pop(0)
        if name in found:
            continue
        found[name] = await measurer.default_config(name)
        called = composing_of(name, options, found[name])
        is_asked = any(each.name == name for each in options.profile_models)
        if called and (is_asked or found[name].has_ensemble_scheduling):
            composing[name] = called
            pending += called
    return found


def server_of(options: AnalyzeOptions) -> Server:
    """Return the server that options ask for; it is not started."""
    if options.triton_launch_mode == _REMOTE:
        return RunningServer(
            Addresses(
                options.triton_http_endpoint,
                options.triton_grpc_endpoint,
                options.triton_metrics_url.removeprefix("http://").removesuffix("/metrics"),
            )
        )
    # The gauges that are read change as often as they are read.
    flags: dict[str, Any] = {"metrics-interval-ms": options.monitoring_interval * _MS_PER_S}
    flags |= options.triton_server_flags
    environment: dict[str, Any] = dict(options.triton_server_environment)
    for model in options.profile_models:
        flags |= model.server_flags
        environment |= model.server_environment
    return EmbeddedServer(
        [str(Path(options.model_repository).resolve())],
        [
            f"--{name}={str(value).lower() if isinstance(value, bool) else value}"
            for name, value in flags.items()
            if name.replace("_", "-") not in _FLAGS_OF_MODE
        ],
        {name: str(value) for name, value in environment.items()},
        Path(options.triton_output_path) if options.triton_output_path else None,
    )


def conditions_of(options: AnalyzeOptions) -> Conditions:
    """Return how options want loads to be measured."""
    usual = Conditions()
    return replace(
        usual,
        protocol="http" if options.client_protocol == "http" else "grpc",
        timeout_s=float(options.perf_analyzer_timeout),
        gpus=frozenset(options.gpus) - {"all"},
        interval_s=options.monitoring_interval,
        idle_s=float(options.duration_seconds),
        flags={
            "max-trials": max(3, options.perf_analyzer_max_auto_adjusts),
            **options.perf_analyzer_flags,
        },
        model_flags={each.name: each.perf_analyzer_flags for each in options.profile_models},
    )


def facts_of(chosen: Chosen) -> Iterator[tuple[str, str]]:
    """Yield what is searched, for reports."""
    yield "Search", chosen.mode
    for task in chosen.tasks:
        models = ", ".join(each.model for each in task.asked)
        yield f"Configurations that there are ({models})", str(task.space.size)
        for dimension in task.space.dimensions:
            values = [", ".join(str(value) for _, value in each) for each in dimension.choices]
            yield f"{dimension.model}: {dimension.name}", " | ".join(values)
        levels = task.levels
        listed = {level for each in task.asked for level in each.levels}
        text = ", ".join(f"{each:g}" for each in sorted(listed))
        yield (
            f"{levels.kind.replace('_', ' ').capitalize()} ({models})",
            text or f"{levels.least:g} to {levels.most:g}",
        )


def line_of(number: int, measured: Measured, names: VariantNames) -> str:
    """Return the line that tells of one measurement."""
    named = names.names(measured.trial.candidate)
    parts = []
    for load in measured.trial.loads:
        text = f"{named[load.model]} {load.kind.replace('_', ' ')} {load.level:g}"
        if load.batch_size > 1:
            text += f" batch {load.batch_size}"
        metrics = measured.metrics.get(load.model)
        if metrics:
            throughput, p99_ms = metrics["perf_throughput"], metrics["perf_latency_p99"]
            text += f": {throughput:.1f} infer/sec, p99 {p99_ms:.3f} ms"
        parts.append(text)
    shown = f"[{number}] {'; '.join(parts)}"
    if measured.error:
        return f"{shown}: failed: {measured.error}"
    return shown if measured.is_stable else f"{shown} (not stable)"


def _setup(options: AnalyzeOptions, configs: Mapping[str, ModelConfig]) -> dict[str, Any]:
    """Return what has to be the same for measurements to be comparable."""
    is_remote = options.triton_launch_mode == _REMOTE
    conditions = conditions_of(options)
    return {
        "server": options.triton_http_endpoint
        if is_remote
        else str(Path(options.model_repository).resolve()),
        "server_flags": [dict(options.triton_server_flags)]
        + [dict(each.server_flags) for each in options.profile_models],
        "server_environment": [dict(options.triton_server_environment)]
        + [dict(each.server_environment) for each in options.profile_models],
        "protocol": conditions.protocol,
        "flags": dict(conditions.flags),
        "model_flags": {name: dict(flags) for name, flags in conditions.model_flags.items()},
        "configs": configs_as_json(configs),
    }
