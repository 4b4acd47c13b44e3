# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""One run: the client, the model, its data, the load and the profiler, put together."""

import asyncio
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Final

from backends.api.errors import InvalidArgumentError, TritonError, UnavailableError
from deployments.pool_queue.precise_timer import PreciseTimer
from manta_tools.perf.clients.connecting import metrics_page, new_client
from manta_tools.perf.clients.contract import Client
from manta_tools.perf.clients.http_client import HttpClient
from manta_tools.perf.clients.payload import Form, Payload, Places
from manta_tools.perf.clients.system_memory import SystemMemory
from manta_tools.perf.data.generated import Recipe, generate
from manta_tools.perf.data.input_file import read_inputs
from manta_tools.perf.data.model import Model, read_model, with_shapes
from manta_tools.perf.data.payload_file import endpoint_model, read_payloads
from manta_tools.perf.data.rows import DataSet
from manta_tools.perf.data.sequences import (
    RowSource,
    SequencePart,
    SequencePlan,
    SequenceSource,
)
from manta_tools.perf.driving import Drive
from manta_tools.perf.load import schedules
from manta_tools.perf.load.loops import ClosedLoop, Load, OpenLoop, PeriodicLoop, Source
from manta_tools.perf.measuring import search
from manta_tools.perf.measuring.server_metrics import Gauges, read_gauges
from manta_tools.perf.measuring.server_statistics import Snapshot, read_snapshot
from manta_tools.perf.measuring.stability import StabilityRule
from manta_tools.perf.measuring.windows import objective
from manta_tools.perf.options.checks import is_rate, searched_range, trace_settings
from manta_tools.perf.options.table import PerfOptions
from manta_tools.perf.options.values import Range
from manta_tools.perf.processes.group import Group
from manta_tools.perf.processes.shares import Share
from manta_tools.perf.profiler import Measurement, Pass, Plan, Profiler, Surroundings
from manta_tools.perf.reports.progress import Watch
from manta_tools.perf.reports.text import level_title, pass_line
from manta_tools.perf.stoppable import StoppableRun

_NS_PER_MS: Final = 10**6
_NS_PER_S: Final = 1e9
_EARLY_CONNECTIONS: Final = 256
_WHOLE: Final = Share()


class Run(StoppableRun):
    """A run against a server.

    Attributes:
        options: What was asked for.
        model: The model; known once the run is entered.
        data: What requests carry; known once the run is entered.
        watch: Knows how the run gets on.
    """

    model: Model
    data: DataSet

    def __init__(self, options: PerfOptions, say: Callable[[str], None]) -> None:
        """Make a run.

        Args:
            options: What is asked for.
            say: Prints a line.
        """
        super().__init__()
        self.options, self._say = options, say
        self.watch = Watch(options, time.monotonic_ns)
        self._client: Client
        self._timer: PreciseTimer
        self._memory: SystemMemory | None = None
        self._group: Group | None = None
        self._intervals: tuple[int, ...] = ()
        self._gauges: list[Gauges] = []

    async def measure(self, on_measured: Callable[[Measurement], None]) -> list[Measurement]:
        """Measure all levels.

        Args:
            on_measured: Called with each once it is measured.

        Raises:
            UnavailableError: No request of a window succeeded.
        """
        self._task = asyncio.current_task()
        statistics = self._statistics if await self._has_statistics() else None
        surroundings = Surroundings(
            time.monotonic_ns,
            _sleep,
            time.process_time_ns,
            statistics,
            self._take_gauges if self.options.collect_metrics else None,
            self._on_level,
            self._on_pass,
            self.watch.drive_begins,
        )
        self._profiler = Profiler(self.plan(), self._load, surroundings)
        return await self._profiler.search(self._levels(), on_measured)

    async def _prepare(self) -> None:
        options = self.options
        # Timers of event loops count milliseconds, which is the latency of a whole request.
        self._timer = PreciseTimer()
        self._exits.callback(self._timer.close)
        self._client = new_client(options, time.monotonic_ns)
        self._exits.push_async_callback(self._client.close)
        await self._client.open(1)
        await self._describe()
        if trace_settings(options):
            await self._client.set_tracing(self.model, trace_settings(options))
        self._intervals = self._read_intervals()
        if options.shared_memory == "system" and options.processes == 1:
            self._memory = SystemMemory(
                self._client, self.data, self.model, options.output_shared_memory_size
            )
            self._exits.push_async_callback(self._memory.close)
            await self._memory.open()
        if options.collect_metrics:
            await self._watch_metrics()
        if options.processes > 1:
            self._group = Group(options)
            self._exits.push_async_callback(self._group.end)
            await self._group.start()
            return
        await self._client.open(min(self._most_at_once(), _EARLY_CONNECTIONS))

    async def _describe(self) -> None:
        """Learn what the model is, and make its data."""
        options = self.options
        if options.service_kind == "openai":
            self.data = read_payloads([Path(each) for each in options.input_data])
            self.model = endpoint_model(options.model_name, self.data)
            self._check_schedule()
            return
        asked = Model(options.model_name, options.model_version, (), ())
        model = read_model(
            await self._client.metadata(asked),
            await self._client.config(asked),
            options.model_version,
        )
        if model.is_decoupled and not options.streaming:
            raise InvalidArgumentError(
                f"model '{model.name}' is decoupled, which takes a stream: give -i grpc --streaming"
            )
        called = tuple(each for group in options.bls_composing_models for each in group)
        model = with_shapes(model, options.shape, options.batch_size)
        self.model = replace(model, composing=(*model.composing, *called))
        self.data = self._read_data()

    def _check_schedule(self) -> None:
        due_ms = self.data.due_ms
        if self.options.fixed_schedule and (not due_ms or list(due_ms) != sorted(due_ms)):
            raise InvalidArgumentError(
                "--fixed-schedule takes a timestamp for every payload, none earlier than the one "
                f"before it: {self.options.input_data[0]} has {len(due_ms)} in some order"
            )

    def _most_at_once(self) -> int:
        levels = searched_range(self.options)
        return 1 if is_rate(self.options) else int(max(levels.start, levels.end))

    def _read_data(self) -> DataSet:
        options = self.options
        paths = [Path(each) for each in options.input_data if each not in ("zero", "random")]
        if paths:
            return read_inputs(paths, self.model, options.batch_size)
        recipe = Recipe(
            is_zero="zero" in options.input_data,
            string_data=options.string_data,
            string_length=options.string_length,
            seed=options.seed,
        )
        return generate(self.model, options.batch_size, recipe)

    def _read_intervals(self) -> tuple[int, ...]:
        path = self.options.request_intervals
        return schedules.read_intervals(Path(path).read_text(), path) if path else ()

    def _source(self, share: Share) -> Source:
        options = self.options
        lengths = [len(stream) for stream in self.data.streams]
        form = Form(
            self.model,
            options.input_tensor_format == "json",
            options.output_tensor_format == "json",
            options.header,
            options.request_parameter,
        )
        encode = partial(self._encode, form)
        if not self.model.is_sequence:
            return RowSource(lengths, encode, share.index, share.count)
        first, end = options.sequence_id_range or (1, 0)
        plan = SequencePlan(
            options.sequence_length,
            options.sequence_length_variation,
            max(first, 1),
            seed=options.seed,
        )
        if end:
            plan = replace(plan, id_count=end - first)
        plan = share.of_sequences(plan)
        return SequenceSource(lengths, encode, plan, is_read=self.data.is_read)

    def _encode(self, form: Form, stream: int, step: int, part: SequencePart | None) -> Payload:
        row = self.data.streams[stream][step]
        places = self._memory.places(row) if self._memory else Places()
        return self._client.encode(form, row, places, part)

    def _load(self, level: float, limit: int) -> Load | Drive:
        if self._group is None:
            return self.make_load(level, limit)
        return self._group.drive(level, limit, is_sequence=self.model.is_sequence)

    def make_load(self, level: float, limit: int, share: Share = _WHOLE) -> Load:
        """Return the load of a level, or this process's share of it.

        Args:
            level: Concurrency or requests a second, of all processes together.
            limit: How many requests are sent, by all together; 0 for any number.
            share: Of this process.
        """
        options, clock = self.options, time.monotonic_ns
        source, limit = self._source(share), share.of(limit)
        if options.periodic_concurrency_range:
            levels = options.periodic_concurrency_range
            return PeriodicLoop(
                self._client,
                source,
                clock,
                start=int(levels.start),
                end=int(levels.end),
                step=int(levels.step),
                period=options.request_period,
            )
        if not is_rate(options):
            concurrency = share.of(int(level))
            return ClosedLoop(self._client, source, clock, concurrency=concurrency, limit=limit)
        if options.fixed_schedule:
            schedule = schedules.fixed(self.data.due_ms)
        elif self._intervals:
            schedule = schedules.replayed(self._intervals)
        elif options.request_distribution == "poisson":
            schedule = schedules.poisson(level, options.seed)
        else:
            schedule = schedules.constant(level)
        timer = self._timer
        return OpenLoop(
            self._client,
            source,
            clock,
            lambda wait_ns, call: timer.call_at_ns(clock() + wait_ns, call),
            schedule=share.of_schedule(schedule),
            slots=share.of(options.num_of_sequences) if self.model.is_sequence else 1,
            is_serial=options.serial_sequences and self.model.is_sequence,
            limit=limit,
        )

    def _levels(self) -> search.Levels:
        options = self.options
        if options.fixed_schedule:
            rate = len(self.data.due_ms) * 1000 / max(self.data.due_ms[-1], 1)
            return search.linear(rate, rate, rate)
        if self._intervals:
            rate = schedules.mean_rate(self._intervals)
            return search.linear(rate, rate, rate)
        if options.periodic_concurrency_range:
            return search.linear(1, 1, 1)
        levels: Range = searched_range(options)
        if options.binary_search:
            is_whole = not is_rate(options)
            return search.binary(levels.start, levels.end, levels.step, is_whole=is_whole)
        return search.linear(levels.start, levels.end, levels.step)

    def plan(self) -> Plan:
        """Return how levels are measured; the run has been entered."""
        options = self.options
        is_time = options.measurement_mode == "time_windows"
        return Plan(
            StabilityRule(
                options.stability_percentage, options.latency_threshold, options.is_async
            ),
            window_ns=options.measurement_interval * _NS_PER_MS if is_time else 0,
            window_requests=options.measurement_request_count,
            request_count=self._count(),
            warmup_count=options.warmup_request_count,
            max_trials=options.max_trials,
            percentile=options.percentile,
            batch_size=options.batch_size,
            objectives=tuple(
                objective(metric, limit_ms)
                for group in options.goodput
                for metric, limit_ms in group
            ),
            keeps_requests=bool(options.profile_export_file),
        )

    def _count(self) -> int:
        """Return how many requests are measured; of these two loads all are sent once."""
        periodic = self.options.periodic_concurrency_range
        if periodic:
            return int(periodic.end)
        return len(self.data.due_ms) if self.options.fixed_schedule else self.options.request_count

    def _on_level(self, level: float) -> None:
        self.watch.level_begins(level)
        self._say(level_title(self.options, level))

    def _on_pass(self, index: int, done: Pass) -> None:
        self.watch.pass_ends(index)
        if self.options.verbose:
            self._say(pass_line(self.options, index, done))

    async def _watch_metrics(self) -> None:
        """Read the metrics again and again; the first time in vain ends the run."""
        client, path = metrics_page(self.options, time.monotonic_ns)
        self._exits.push_async_callback(client.close)
        self._gauges.append(await _gauges(client, path))
        watching = asyncio.create_task(self._read_metrics(client, path))
        self._exits.callback(watching.cancel)

    async def _read_metrics(self, client: HttpClient, path: str) -> None:
        while True:
            # A page that cannot be read is left out: the load goes on.
            with suppress(TritonError):
                self._gauges.append(await _gauges(client, path))
            await asyncio.sleep(self.options.metrics_interval / 1000)

    def _take_gauges(self) -> list[Gauges]:
        taken, self._gauges = self._gauges, []
        return taken

    async def _has_statistics(self) -> bool:
        try:
            await self._statistics()
        except UnavailableError:
            return False
        return True

    async def _statistics(self) -> Snapshot:
        # All models only where several take part: a cluster may have thousands.
        which = None if self.model.composing else self.model
        return read_snapshot(await self._client.statistics(which))


async def _gauges(client: HttpClient, path: str) -> Gauges:
    page = await client.page(path)
    try:
        return read_gauges(page)
    except ValueError as error:
        raise InvalidArgumentError(f"{path} is no page of Prometheus: {error}") from None


async def _sleep(time_ns: int) -> None:
    await asyncio.sleep(time_ns / _NS_PER_S)
