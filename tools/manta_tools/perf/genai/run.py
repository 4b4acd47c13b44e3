# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""One run against a server of language models: data, client, load and profiler, put together."""

import asyncio
import json
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from backends.api.errors import InvalidArgumentError
from deployments.pool_queue.precise_timer import PreciseTimer
from manta_tools.perf.clients.connecting import new_client
from manta_tools.perf.clients.contract import Client
from manta_tools.perf.clients.payload import Form, Payload, Places
from manta_tools.perf.data.input_file import read_inputs
from manta_tools.perf.data.model import Model, read_model, with_shapes
from manta_tools.perf.data.payload_file import PAYLOAD, endpoint_model, read_payloads
from manta_tools.perf.data.rows import Content, DataSet, Row
from manta_tools.perf.data.sequences import RowSource, SequencePart
from manta_tools.perf.genai.answers import MAX_KEPT_BYTES, Memory, Transcript
from manta_tools.perf.genai.conversations import ChatTurn, Conversations
from manta_tools.perf.genai.dataset import Turn, sessions_of
from manta_tools.perf.genai.endpoints import Body, Endpoint, Wish, entry, fitted
from manta_tools.perf.load import schedules
from manta_tools.perf.load.loops import ClosedLoop, Load, OpenLoop
from manta_tools.perf.load.session_loop import SessionLoop
from manta_tools.perf.measuring.stability import StabilityRule
from manta_tools.perf.options.checks import is_rate, searched_range
from manta_tools.perf.options.table import PerfOptions
from manta_tools.perf.profiler import Measurement, Pass, Plan, Profiler, Surroundings
from manta_tools.perf.records import Request
from manta_tools.perf.reports.text import pass_line
from manta_tools.perf.stoppable import StoppableRun

_NS_PER_MS: Final = 10**6
_NS_PER_S: Final = 1e9
_EARLY_CONNECTIONS: Final = 256


class Run(StoppableRun):
    """A run against a server.

    Attributes:
        options: Those of ``manta perf`` that it comes down to.
        endpoint: What is asked.
        turns: The entries of the data.
        bodies: Their bodies; of tensors those that the model has, once the run is entered.
        sessions: Indices of each session's turns; empty when requests are single.
        warning: Why it measured less than was asked for; empty when it did not.
    """

    def __init__(
        self,
        options: PerfOptions,
        endpoint: Endpoint,
        turns: Sequence[Turn],
        made: Sequence[Body],
        wish: Wish,
        say: Callable[[str], None],
        *,
        session_concurrency: int = 0,
    ) -> None:
        """Make a run.

        Args:
            options: Those of ``manta perf``; their input data is where the bodies were written.
            endpoint: What is asked.
            turns: The entries of the data.
            made: Their bodies.
            wish: What all requests have in common.
            say: Prints a line.
            session_concurrency: Sessions at once; 0 for single requests.

        Raises:
            InvalidArgumentError: There are fewer sessions than are to be at once.
        """
        super().__init__()
        self.options, self.endpoint, self.turns = options, endpoint, turns
        self.bodies = list(made)
        self.sessions = sessions_of(turns) if session_concurrency else ()
        if len(self.sessions) < session_concurrency:
            raise InvalidArgumentError(
                f"--session-concurrency {session_concurrency} is more than the data's "
                f"{len(self.sessions)} sessions; give fewer at once, or more sessions"
            )
        self._session_concurrency = session_concurrency
        self._wish, self._say = wish, say
        self._memory = Memory(MAX_KEPT_BYTES, self._stop_for_memory)
        self._client: Client
        self._timer: PreciseTimer
        self._form: Form
        self._data: DataSet
        self.warning = ""

    async def measure(self) -> Measurement:
        """Measure the load that the options ask for.

        Raises:
            UnavailableError: No request of a window succeeded.
        """
        self._task = asyncio.current_task()
        surroundings = Surroundings(
            time.monotonic_ns, _sleep, time.process_time_ns, on_pass=self._on_pass
        )
        self._profiler = Profiler(self._plan(), self._make_load, surroundings)
        return await self._profiler.measure(self.level)

    @property
    def level(self) -> float:
        """Requests or sessions at once, or requests a second."""
        if self.options.fixed_schedule:
            due_ms = self._data.due_ms
            return len(due_ms) * 1000 / max(due_ms[-1], 1)
        return self._session_concurrency or searched_range(self.options).start

    async def _prepare(self) -> None:
        self._timer = PreciseTimer()
        self._exits.callback(self._timer.close)
        self._client = new_client(self.options, time.monotonic_ns)
        self._exits.push_async_callback(self._client.close)
        await self._client.open(1)
        inputs = Path(self.options.input_data[0])
        if self.endpoint.service_kind == "triton":
            model = await self._model()
            self.bodies = [fitted(body, model, self._wish) for body in self.bodies]
            write_inputs(inputs, self.endpoint, self.bodies, self.turns)
            self._data = read_inputs([inputs], model, 1)
        else:
            self._data = read_payloads([inputs])
            model = endpoint_model(self.options.model_name, self._data)
            self._check_schedule()
        self._form = Form(
            model, headers=self.options.header, parameters=self.options.request_parameter
        )
        at_once = 1 if is_rate(self.options) else int(self.level)
        await self._client.open(min(at_once, _EARLY_CONNECTIONS))

    async def _model(self) -> Model:
        """Return the model with one element in each tensor, asked for its text alone."""
        asked = Model(self.options.model_name, "", (), ())
        model = read_model(await self._client.metadata(asked), await self._client.config(asked))
        text = tuple(each for each in model.outputs if each.name == self._wish.names.text_output)
        if not text:
            raise InvalidArgumentError(
                f"model '{model.name}' has no output '{self._wish.names.text_output}', only "
                f"{', '.join(each.name for each in model.outputs)}; give --text-output-name"
            )
        shapes = [
            (each.name, tuple(1 if dim < 0 else dim for dim in each.shape)) for each in model.inputs
        ]
        return replace(with_shapes(model, shapes, 1), outputs=text)

    def _check_schedule(self) -> None:
        due_ms = self._data.due_ms
        if self.options.fixed_schedule and (not due_ms or list(due_ms) != sorted(due_ms)):
            raise InvalidArgumentError(
                "--fixed-schedule takes a timestamp in every line of --input-file, none earlier "
                "than the one before it"
            )

    def _plan(self) -> Plan:
        options = self.options
        is_time = options.measurement_mode == "time_windows"
        count = options.request_count
        if options.fixed_schedule or self.sessions:
            count = len(self.turns)
        return Plan(
            StabilityRule(options.stability_percentage, is_async=True),
            window_ns=options.measurement_interval * _NS_PER_MS if is_time else 0,
            request_count=count,
            warmup_count=options.warmup_request_count,
            max_trials=options.max_trials,
            keeps_requests=True,
        )

    def _make_load(self, level: float, limit: int) -> Load:
        client, clock = self._client, time.monotonic_ns
        if self.sessions:
            return SessionLoop(
                client,
                self._conversations(),
                clock,
                self._call_later,
                concurrency=self._session_concurrency,
            )
        source = _Kept(RowSource([len(self.turns)], self._encode), self._keep)
        if not is_rate(self.options):
            return ClosedLoop(client, source, clock, concurrency=int(level), limit=limit)
        if self.options.fixed_schedule:
            schedule = schedules.fixed(self._data.due_ms)
        elif self.options.request_distribution == "poisson":
            schedule = schedules.poisson(level, self.options.seed)
        else:
            schedule = schedules.constant(level)
        return OpenLoop(client, source, clock, self._call_later, schedule=schedule, limit=limit)

    def _conversations(self) -> Conversations:
        planned = [
            [ChatTurn(index, self.bodies[index], self.turns[index].delay_ms) for index in indices]
            for indices in self.sessions
        ]
        read = self.endpoint.reader(self._wish.names)
        return Conversations(planned, self._encode_body, read, self._keep)

    def _encode(self, stream: int, step: int, part: SequencePart | None) -> Payload:
        return self._client.encode(self._form, self._data.streams[stream][step], Places(), part)

    def _encode_body(self, body: Mapping[str, Any]) -> Payload:
        raw = json.dumps(body, separators=(",", ":")).encode()
        row = Row({PAYLOAD: Content("JSON", (1,), raw)})
        return self._client.encode(self._form, row, Places(), None)

    def _call_later(self, wait_ns: int, call: Callable[[], None]) -> object:
        return self._timer.call_at_ns(time.monotonic_ns() + wait_ns, call)

    def _keep(self) -> Transcript:
        return Transcript(self._memory)

    def _stop_for_memory(self) -> None:
        self.warning = (
            "the answers have no more room in memory, so the measurement ended early; measure "
            "fewer requests"
        )
        if self._profiler is not None:
            self._profiler.is_stopping = True

    def _on_pass(self, index: int, done: Pass) -> None:
        if self.options.verbose:
            self._say(pass_line(self.options, index, done))


class _Kept:
    """Requests of a source, whose answers are kept."""

    def __init__(self, source: RowSource, keep: Callable[[], Transcript]) -> None:
        self._source, self._keep = source, keep

    def next(self, slot: int) -> Request:
        """Return the source's next request."""
        request = self._source.next(slot)
        request.contents = self._keep()
        return request

    def closing(self, slot: int) -> None:
        """Return None: nothing is open."""


def write_inputs(
    path: Path, endpoint: Endpoint, made: Sequence[Body], turns: Sequence[Turn]
) -> None:
    """Write the requests as perf_analyzer takes them."""
    entries = [entry(endpoint, body, turn) for body, turn in zip(made, turns, strict=True)]
    path.write_text(json.dumps({"data": entries}, indent=2))


async def _sleep(time_ns: int) -> None:
    await asyncio.sleep(time_ns / _NS_PER_S)
