# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""The metrics of language models: of each request, and over all of them.

Triton: perf_analyzer/genai-perf/genai_perf/profile_data_parser/llm_profile_data_parser.py
LLMProfileDataParser._parse_requests, metrics/statistics.py Statistics,
goodput_calculator/llm_goodput_calculator.py @263c5f6
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np

_NS_PER_S: Final = 1e9
_NS_PER_MS: Final = 1e6
PERCENTILES: Final = (1, 5, 10, 25, 50, 75, 90, 95, 99)

# A metric's statistics, and its unit, by their names in the files.
Statistics = dict[str, str | float]


@dataclass(frozen=True, slots=True)
class Exchange:
    """A request and its answer, as texts and instants in nanoseconds.

    Attributes:
        start_ns: When the request was due.
        parts: When each response came, and its text; such without text are no tokens.
        prompt: The text that was sent.
        usage: Output tokens by the server; None where it says nothing.
        session_id: Whose turn it was; empty when of no session.
    """

    start_ns: int
    parts: tuple[tuple[int, str], ...]
    prompt: str
    usage: int | None = None
    session_id: str = ""


@dataclass(frozen=True, slots=True)
class RequestMetrics:
    """What one request took; a field is None where the request has no such thing.

    Attributes:
        start_ns: When it was due.
        end_ns: When its last token came.
        first_token_ns: From its start to its first token.
        second_token_ns: From its first response to its second one.
        inter_token_ns: Mean distance of its tokens after the first one.
        input_tokens: Of the prompt.
        output_tokens: Of the answer.
        session_id: Whose turn it was.
    """

    start_ns: int
    end_ns: int
    first_token_ns: int
    second_token_ns: int | None
    inter_token_ns: int | None
    input_tokens: int
    output_tokens: int
    session_id: str = ""

    @property
    def latency_ns(self) -> int:
        """From its start to its last token."""
        return self.end_ns - self.start_ns

    @property
    def tokens_per_s(self) -> float | None:
        """Tokens a second that its user saw after the first one."""
        return _NS_PER_S / self.inter_token_ns if self.inter_token_ns else None


def request_metrics(exchange: Exchange, count: Callable[[str], int]) -> RequestMetrics | None:
    """Return the metrics of a request; None when its answer has no text.

    Args:
        exchange: The request.
        count: Returns how many tokens a text has.
    """
    parts = [(came_ns, text) for came_ns, text in exchange.parts if text]
    if not parts:
        return None
    first_ns, last_ns = parts[0][0], parts[-1][0]
    tokens = exchange.usage
    if tokens is None:
        # Together: a token may have come in two parts.
        tokens = count("".join(text for _, text in parts))
    inter_token_ns = None
    if len(parts) > 1 and tokens > 1:
        inter_token_ns = round((last_ns - first_ns) / (tokens - 1))
    return RequestMetrics(
        exchange.start_ns,
        last_ns,
        first_ns - exchange.start_ns,
        parts[1][0] - first_ns if len(parts) > 1 else None,
        inter_token_ns,
        count(exchange.prompt),
        tokens,
        exchange.session_id,
    )


def _ms(time_ns: int | None) -> float | None:
    return None if time_ns is None else time_ns / _NS_PER_MS


@dataclass(frozen=True, slots=True)
class Metric:
    """A metric that each request has.

    Attributes:
        unit: Of its values.
        of: Returns a request's value.
        is_streaming: Whether only answers in parts have it.
        is_limit_least: Whether a limit of goodput is the least value; else the most.
    """

    unit: str
    of: Callable[[RequestMetrics], float | None]
    is_streaming: bool = False
    is_limit_least: bool = False


# In the order of the files.
METRICS: Final[dict[str, Metric]] = {
    "time_to_first_token": Metric("ms", lambda each: _ms(each.first_token_ns), is_streaming=True),
    "time_to_second_token": Metric("ms", lambda each: _ms(each.second_token_ns), is_streaming=True),
    "request_latency": Metric("ms", lambda each: _ms(each.latency_ns)),
    "inter_token_latency": Metric("ms", lambda each: _ms(each.inter_token_ns), is_streaming=True),
    "output_token_throughput_per_user": Metric(
        "tokens/sec/user", lambda each: each.tokens_per_s, is_streaming=True, is_limit_least=True
    ),
    "output_sequence_length": Metric("tokens", lambda each: each.output_tokens),
    "input_sequence_length": Metric("tokens", lambda each: each.input_tokens),
}
# Metrics of the whole run: the unit in the JSON file, and the one in tables.
SYSTEM_METRICS: Final[dict[str, tuple[str, str]]] = {
    "output_token_throughput": ("tokens/sec", "tokens/sec"),
    "request_throughput": ("requests/sec", "per sec"),
    "request_goodput": ("requests/sec", "per sec"),
    "request_count": ("count", "count"),
}
# Lengths are no objectives.
GOODPUT_METRICS: Final = tuple(name for name, each in METRICS.items() if each.unit != "tokens")


@dataclass(frozen=True, slots=True)
class Summary:
    """All metrics of a run.

    Attributes:
        statistics: Of each metric, by its name; of one that no request has there is none.
        sessions: The same of each session, by its id.
    """

    statistics: Mapping[str, Statistics]
    sessions: Mapping[str, Mapping[str, Statistics]] = field(default_factory=dict)


def summarise(requests: Sequence[RequestMetrics], limits: Mapping[str, float]) -> Summary:
    """Return the metrics over requests, of which there is at least one.

    Args:
        requests: The requests.
        limits: Of goodput, by metric; milliseconds, or tokens a second.
    """
    sessions: dict[str, list[RequestMetrics]] = {}
    for each in requests:
        if each.session_id:
            sessions.setdefault(each.session_id, []).append(each)
    return Summary(
        _statistics(requests, limits),
        {name: _statistics(turns, {}) for name, turns in sessions.items()},
    )


def is_good(request: RequestMetrics, limits: Mapping[str, float]) -> bool:
    """Whether a request keeps all limits; what it does not have keeps any."""
    for name, limit in limits.items():
        metric = METRICS[name]
        value = metric.of(request)
        if value is None:
            continue
        if value < limit if metric.is_limit_least else value > limit:
            return False
    return True


def spread(values: Sequence[float], unit: str) -> Statistics:
    """Return unit, mean, percentiles between values, extremes, and the population's deviation."""
    array = np.array(values, dtype=np.float64)
    percentiles = {f"p{each}": float(np.percentile(array, each)) for each in PERCENTILES}
    return {
        "unit": unit,
        "avg": float(array.mean()),
        **percentiles,
        "min": float(array.min()),
        "max": float(array.max()),
        "std": float(array.std()),
    }


def _statistics(
    requests: Sequence[RequestMetrics], limits: Mapping[str, float]
) -> dict[str, Statistics]:
    found = {}
    for name, metric in METRICS.items():
        values = _known(metric.of(each) for each in requests)
        if values:
            found[name] = spread(values, metric.unit)
    start_ns = min(each.start_ns for each in requests)
    duration_s = max(max(each.end_ns for each in requests) - start_ns, 1) / _NS_PER_S
    totals = {
        "output_token_throughput": sum(each.output_tokens for each in requests) / duration_s,
        "request_throughput": len(requests) / duration_s,
        "request_count": float(len(requests)),
    }
    if limits:
        good = sum(is_good(each, limits) for each in requests)
        totals["request_goodput"] = good / duration_s
    for name, (unit, _) in SYSTEM_METRICS.items():
        if name in totals:
            found[name] = {"unit": unit, "avg": totals[name]}
    return found


def _known(values: Iterable[float | None]) -> list[float]:
    return [each for each in values if each is not None]
