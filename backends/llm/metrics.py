# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""What a language model's requests cost, as metrics of its instance."""

import threading
import time
from bisect import bisect_left
from collections.abc import Callable, Sequence
from functools import partial
from typing import Final

from backends.api.custom_metrics import CustomFamily, CustomMetric, MetricKind
from backends.api.errors import TritonError
from backends.llm.api import (
    Capabilities,
    Delta,
    Engine,
    EngineLoad,
    LlmRequest,
    Sink,
    Tokenizer,
    Usage,
)
from backends.llm.slots import Slots

_NS_PER_S: Final = 1e9
_FIRST_TOKEN_S: Final = (
    0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0,
    20.0, 40.0, 80.0,
)  # fmt: skip
_BETWEEN_S: Final = (
    0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75, 1.0, 2.5,
)  # fmt: skip


class _Histogram:
    def __init__(self, bounds_s: Sequence[float]) -> None:
        self._bounds = list(bounds_s)
        self._counts = [0] * (len(bounds_s) + 1)
        self._sum = 0.0

    def observe(self, seconds: float) -> None:
        self._counts[bisect_left(self._bounds, seconds)] += 1
        self._sum += seconds

    def metric(self, labels: list[tuple[str, str]]) -> CustomMetric:
        return CustomMetric(labels, self._sum, 0, list(self._bounds), list(self._counts))


class LlmMetrics:
    """Counts what an engine's requests cost; `families` is for any thread.

    Args:
        model: The model's name.
        version: Its version.
    """

    def __init__(self, model: str, version: str) -> None:
        self._labels = [("model", model), ("version", version)]
        self._mutex = threading.Lock()
        self._first_token = _Histogram(_FIRST_TOKEN_S)
        self._between = _Histogram(_BETWEEN_S)
        self._prompt = self._cached = self._generated = 0

    def first_token(self, elapsed_ns: int) -> None:
        """Count how long the first token of a request has taken."""
        with self._mutex:
            self._first_token.observe(elapsed_ns / _NS_PER_S)

    def next_token(self, elapsed_ns: int) -> None:
        """Count how long after the one before another has come."""
        with self._mutex:
            self._between.observe(elapsed_ns / _NS_PER_S)

    def ended(self, usage: Usage) -> None:
        """Count what a request has cost."""
        with self._mutex:
            self._prompt += usage.prompt_tokens
            self._cached += usage.cached_tokens
            self._generated += usage.completion_tokens

    def families(self, load: EngineLoad, slots: int) -> list[CustomFamily]:
        """Return all of it.

        Args:
            load: How busy the engine is.
            slots: Requests that it computes at once.
        """
        with self._mutex:
            histograms = [
                ("time_to_first_token_seconds", "From request to first token.", self._first_token),
                ("inter_token_latency_seconds", "From one token to the next.", self._between),
            ]
            found = [
                self._family(name, about, MetricKind.HISTOGRAM, each.metric(self._labels))
                for name, about, each in histograms
            ]
            counters = [
                ("prompt_tokens_total", "Tokens of prompts.", self._prompt),
                (
                    "cached_tokens_total",
                    "Of those the ones that were not computed again.",
                    self._cached,
                ),
                ("generated_tokens_total", "Tokens generated.", self._generated),
            ]
        gauges = [
            ("running", "Requests that the engine computes.", load.running),
            ("waiting", "Requests beyond its slots.", load.waiting),
            ("kv_cache_usage", "Part of the KV cache in use, 0 to 1.", load.kv_cache_usage),
            ("slots", "Requests that it computes at once.", slots),
        ]
        now_ns = time.monotonic_ns()
        found += [
            self._family(name, about, MetricKind.COUNTER, CustomMetric(self._labels, float(value)))
            for name, about, value in counters
        ]
        found += [
            self._family(
                name, about, MetricKind.GAUGE, CustomMetric(self._labels, float(value), now_ns)
            )
            for name, about, value in gauges
        ]
        return found

    @staticmethod
    def _family(name: str, about: str, kind: MetricKind, metric: CustomMetric) -> CustomFamily:
        return CustomFamily(f"manta_llm_{name}", about, kind, [metric])


class _MeasuredSink:
    """Passes on what an engine generates, and counts it.

    Args:
        sink: Where it goes.
        metrics: Where it is counted.
        ended: Called once with the request's last answer.
    """

    __slots__ = ("_began_ns", "_ended", "_last_ns", "_metrics", "_sink")

    def __init__(self, sink: Sink, metrics: LlmMetrics, ended: Callable[[], None]) -> None:
        self._sink = sink
        self._metrics = metrics
        self._ended = ended
        self._began_ns = time.monotonic_ns()
        self._last_ns = 0

    @property
    def is_cancelled(self) -> bool:
        """Whether nobody waits any more."""
        return self._sink.is_cancelled

    def deliver(self, deltas: Sequence[Delta], usage: Usage | None) -> None:
        """Take what a step has brought."""
        if any(delta.token_ids for delta in deltas):
            now_ns = time.monotonic_ns()
            if self._last_ns:
                self._metrics.next_token(now_ns - self._last_ns)
            else:
                self._metrics.first_token(now_ns - self._began_ns)
            self._last_ns = now_ns
        if usage is None:
            self._sink.deliver(deltas, usage)
            return
        self._metrics.ended(usage)
        try:
            self._sink.deliver(deltas, usage)
        finally:
            self._ended()

    def fail(self, error: TritonError) -> None:
        """Take the error that ends the request."""
        try:
            self._sink.fail(error)
        finally:
            self._ended()


class MeasuredEngine(Engine):
    """An engine whose requests are counted, and which says when it has room for another.

    Args:
        engine: The engine.
        metrics: Where they are counted.
    """

    def __init__(self, engine: Engine, metrics: LlmMetrics) -> None:
        self._engine = engine
        self._metrics = metrics
        self._slots = Slots(engine.capabilities.slots)

    @property
    def capabilities(self) -> Capabilities:
        """What the engine can do."""
        return self._engine.capabilities

    @property
    def tokenizer(self) -> Tokenizer:
        """Its tokenizer."""
        return self._engine.tokenizer

    def submit(self, request: LlmRequest, sink: Sink) -> None:
        """Have a request answered and counted."""
        choices = request.choices
        ended = partial(self._slots.give_back, choices)
        self._slots.take(choices)
        try:
            self._engine.submit(request, _MeasuredSink(sink, self._metrics, ended))
        except BaseException:
            ended()
            raise

    def wait_for_slot(self) -> None:
        """Return when the engine computes less than it can, or is closed."""
        self._slots.wait_for_one()

    def metrics(self) -> EngineLoad:
        """Return how busy the engine is."""
        return self._engine.metrics()

    @property
    def is_healthy(self) -> bool:
        """Whether it can take steps."""
        return self._engine.is_healthy

    def close(self) -> None:
        """Close the engine."""
        self._slots.close()
        self._engine.close()

    def families(self) -> list[CustomFamily]:
        """Return the metrics of its instance."""
        return self._metrics.families(self._engine.metrics(), self._engine.capabilities.slots)
