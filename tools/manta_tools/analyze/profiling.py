# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""One analysis: a server, the configs of its models, the search, and what it has found."""

import asyncio
import signal
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from backends.api.model_config import ModelConfig
from manta_tools.analyze.checkpoints import Checkpoint
from manta_tools.analyze.measuring.dispatching import Pool
from manta_tools.analyze.measuring.from_options import (
    REMOTE,
    conditions_of,
    measurer_of,
    repository_of,
)
from manta_tools.analyze.measuring.measurer import Models
from manta_tools.analyze.options.table import AnalyzeOptions
from manta_tools.analyze.records import Measured, Setting
from manta_tools.analyze.results.groups import (
    Noted,
    configs_as_json,
    note_groups,
    read_noted,
)
from manta_tools.analyze.running import run_search
from manta_tools.analyze.searching.choosing import Chosen, choose, composing_of
from manta_tools.analyze.space.variants import VariantNames, load_config, variant

# How often Ctrl-C has to come until the current trial is not waited for.
_AT_ONCE: Final = 3

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

    models = Models(override, composing, is_reloaded=not options.reload_model_disable)
    try:
        async with _pool_of(options, models, say) as pool:
            configs |= await _configs(options, pool, composing)
            chosen = choose(options, configs, width=pool.width)
            for note in chosen.notes:
                say(f"note: {note}")
            setup = _setup(options, configs, pool.hardware)
            with Checkpoint.resume(Path(options.checkpoint_directory), setup) as kept:
                return await _search(chosen, pool, kept, interrupts, composing)
    finally:
        loop.remove_signal_handler(signal.SIGINT)


@asynccontextmanager
async def _pool_of(options: AnalyzeOptions, models: Models, say: Say) -> AsyncIterator[Pool]:
    """Have what options ask for: this machine, or nodes of a Ray cluster."""
    report = _reporter(options) if options.perf_output else None
    if options.nodes:
        # Without nodes there is no Ray in this process.
        from manta_tools.analyze.measuring.nodes import pool_on_nodes  # noqa: PLC0415

        async with pool_on_nodes(options, models, say, report) as pool:
            yield pool
        return
    pool = Pool([measurer_of(options, models, report)], say)
    try:
        yield pool
    finally:
        await pool.close()


async def _search(
    chosen: Chosen,
    pool: Pool,
    kept: Checkpoint,
    interrupts: Interrupts,
    composing: Mapping[str, tuple[str, ...]],
) -> Outcome:
    say = interrupts.say
    judges = [task.judge for task in chosen.tasks]
    note_groups(kept, judges, composing, tuple(facts_of(chosen)))
    idle_gpus = kept.facts.get("idle_gpus") or pool.idle_gpus
    kept.note("idle_gpus", {uuid: dict(metrics) for uuid, metrics in idle_gpus.items()})
    if kept.measured:
        say(f"{len(kept.measured)} measurements are known from {kept.path}")
    names = VariantNames(composing)
    for each in kept.measured:
        names.names(each.trial.candidate)

    def on_measured(measured: Measured, place: str) -> None:
        where = f" on node {place}" if place else ""
        say(line_of(len(kept.measured), measured, names) + where)

    is_complete = await run_search(
        chosen.search(),
        pool,
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
    options: AnalyzeOptions, pool: Pool, composing: dict[str, tuple[str, ...]]
) -> dict[str, ModelConfig]:
    """Return the configs of all models that are measured, and of those that they call."""
    found: dict[str, ModelConfig] = {}
    pending = [each.name for each in options.profile_models]
    while pending:
        name = pending.pop(0)
        if name in found:
            continue
        found[name] = await pool.default_config(name)
        called = composing_of(name, options, found[name])
        is_asked = any(each.name == name for each in options.profile_models)
        if called and (is_asked or found[name].has_ensemble_scheduling):
            composing[name] = called
            pending += called
    return found


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


def _setup(
    options: AnalyzeOptions, configs: Mapping[str, ModelConfig], hardware: Mapping[str, Any]
) -> dict[str, Any]:
    """Return what has to be the same for measurements to be comparable."""
    is_remote = options.triton_launch_mode == REMOTE
    conditions = conditions_of(options)
    setup = {
        "server": options.triton_http_endpoint if is_remote else repository_of(options),
        "server_flags": [dict(options.triton_server_flags)]
        + [dict(each.server_flags) for each in options.profile_models],
        "server_environment": [dict(options.triton_server_environment)]
        + [dict(each.server_environment) for each in options.profile_models],
        "protocol": conditions.protocol,
        "flags": dict(conditions.flags),
        "model_flags": {name: dict(flags) for name, flags in conditions.model_flags.items()},
        "configs": configs_as_json(configs),
    }
    return setup | ({"nodes": dict(hardware)} if hardware else {})
