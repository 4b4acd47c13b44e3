# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Puts models under load with the load generator, in this process."""

import asyncio
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from typing import Final, Literal

from backends.api.errors import InvalidArgumentError, TritonError
from manta_tools.analyze.measuring.server import Addresses
from manta_tools.analyze.records import Load
from manta_tools.perf.data.model import Model
from manta_tools.perf.measuring.server_statistics import ServerSide, server_side
from manta_tools.perf.options.parsing import UsageError, parse_options
from manta_tools.perf.options.table import PerfOptions
from manta_tools.perf.profiler import Measurement
from manta_tools.perf.reports.text import level_report
from manta_tools.perf.run import Run

Flag = str | int | float | bool
Flags = Mapping[str, Flag | Sequence[Flag]]

_LEAST_WINDOW_MS: Final = 100
_LEAST_REQUESTS: Final = 10
_MS_PER_S: Final = 1000
# Windows that have to agree; loads on several models stop after so many, so that all end together.
_WINDOWS: Final = 3


@dataclass(frozen=True, slots=True)
class Conditions:
    """How loads are measured.

    Attributes:
        protocol: What clients speak.
        window_ms: Length of a window of a full measurement.
        window_requests: Fewest requests of a window of a full measurement that counts requests.
        timeout_s: How long one trial may last, loading included.
        flags: Further options of ``manta perf`` by their long names, for all models.
        model_flags: The same by model.
        gpus: UUIDs of the GPUs that are watched; empty for all.
        interval_s: Between two readings of memory and GPUs.
        idle_s: How long GPUs are measured before any model is loaded.
    """

    protocol: Literal["http", "grpc"] = "grpc"
    window_ms: int = 1000
    window_requests: int = 50
    timeout_s: float = 600.0
    flags: Flags = field(default_factory=dict)
    model_flags: Mapping[str, Flags] = field(default_factory=dict)
    gpus: frozenset[str] = frozenset()
    interval_s: float = 1.0
    idle_s: float = 0.0


@dataclass(frozen=True, slots=True)
class Loaded:
    """A load that was measured, and what is known of its model."""

    load: Load
    model: Model
    measurement: Measurement
    options: PerfOptions = field(default_factory=PerfOptions)

    @property
    def server_side(self) -> ServerSide | None:
        """What it cost on the server; None without its statistics."""
        counted, model = self.measurement.total.counted, self.model
        if counted is None:
            return None
        return server_side(counted, model.name, model.version, model.composing)

    def report(self) -> str:
        """Return what the load generator says of it."""
        return level_report(self.options, self.model, self.measurement, self.server_side)


def options_of(
    load: Load,
    addresses: Addresses,
    conditions: Conditions,
    *,
    budget: float = 1.0,
    is_alone: bool = True,
    has_gpus: bool = False,
) -> PerfOptions:
    """Return the load generator's options for one load.

    Args:
        load: What clients do.
        addresses: Where the server is.
        conditions: How it is measured.
        budget: How many full measurements it may cost; windows are as much shorter or longer.
        is_alone: Whether no other model is under load at the same time.
        has_gpus: Whether the server tells of GPUs.

    Raises:
        InvalidArgumentError: A flag is unknown, or does not go with the load.
    """
    given: dict[str, Flag | Sequence[Flag]] = {
        "protocol": conditions.protocol,
        "measurement-interval": conditions.window_ms,
        "measurement-request-count": conditions.window_requests,
        **conditions.flags,
        **conditions.model_flags.get(load.model, {}),
        "model-name": load.model,
        "batch-size": load.batch_size,
    }
    given.setdefault("url", getattr(addresses, str(given["protocol"])))
    given |= {
        name: max(least, int(float(str(given[name])) * budget))
        for name, least in (
            ("measurement-interval", _LEAST_WINDOW_MS),
            ("measurement-request-count", _LEAST_REQUESTS),
        )
    }
    given[f"{load.kind.replace('_', '-')}-range"] = f"{load.level:g}:{load.level:g}:1"
    if not is_alone:
        given["max-trials"] = _WINDOWS
    if has_gpus:
        given |= {
            "collect-metrics": True,
            "metrics-url": f"{addresses.metrics}/metrics",
            # At least twice a window.
            "metrics-interval": min(
                max(1, int(conditions.interval_s * _MS_PER_S)),
                int(str(given["measurement-interval"])) // 2,
            ),
        }
    try:
        return parse_options(_arguments(given))
    except UsageError as error:
        message = str(error).partition("\n")[0]
        raise InvalidArgumentError(
            f"the load on model '{load.model}' has a wrong option: {message}; look at its "
            "perf_analyzer_flags"
        ) from None


def _arguments(given: Flags) -> list[str]:
    found: list[str] = []
    for name, value in given.items():
        dashed = f"--{name.lstrip('-').replace('_', '-')}"
        if isinstance(value, bool):
            found += [dashed] if value else []
        elif isinstance(value, str | int | float):
            found.append(f"{dashed}={value}")
        else:
            found += [f"{dashed}={each}" for each in value]
    return found


async def put_under_load(options: Sequence[tuple[Load, PerfOptions]]) -> list[Loaded]:
    """Put models under load, all at once, and measure until their windows agree.

    Raises:
        TritonError: A model is not there, its data cannot be made, or no request succeeded.
    """
    async with AsyncExitStack() as stack:
        runs = [
            (load, await stack.enter_async_context(Run(each, say=_nothing)))
            for load, each in options
        ]
        try:
            async with asyncio.TaskGroup() as group:
                tasks = [group.create_task(run.measure(_nothing)) for _, run in runs]
        except* TritonError as errors:
            first = errors.exceptions[0]
            raise _plain(first) from None
        return [
            Loaded(load, run.model, task.result()[0], run.options)
            for (load, run), task in zip(runs, tasks, strict=True)
        ]


def _plain(error: BaseException) -> BaseException:
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error


def _nothing(_: object) -> None:
    """Print nothing: a trial's report is its metrics."""
