# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""From the rows of all requests to what is printed and written."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any, Final

from backends.api.errors import TritonError, UnavailableError
from manta_tools.perf.genai import console, files
from manta_tools.perf.genai.endpoints import Endpoint, TensorNames
from manta_tools.perf.genai.export import Row, exchange
from manta_tools.perf.genai.metrics import (
    Exchange,
    RequestMetrics,
    Statistics,
    request_metrics,
    summarise,
)
from manta_tools.perf.genai.tokenizing import Tokenizer

_KNOWN_TEXTS: Final = 4096


@dataclass(frozen=True, slots=True)
class Reading:
    """How rows become metrics.

    Attributes:
        endpoint: What was asked.
        names: Of tensors.
        tokenizer: Counts tokens.
        is_streaming: Whether answers came in parts.
        ignores_server: Whether the server's own counts are left aside.
        limits: Of goodput, by metric.
    """

    endpoint: Endpoint
    names: TensorNames
    tokenizer: Tokenizer
    is_streaming: bool
    ignores_server: bool = False
    limits: Mapping[str, float] | None = None


@dataclass(frozen=True, slots=True)
class Tally:
    """What of the answers could be counted, and by whom.

    Attributes:
        tokenizer: Name of the tokenizer, which also counted all prompts.
        by_server: Answers whose tokens the server said.
        by_tokenizer: Answers whose tokens the tokenizer counted.
        empty: Answers without a text, which are left out.
        unread: Answers that are none of the endpoint's, which are left out.
        first_error: What is wrong with the first of those.
    """

    tokenizer: str
    by_server: int
    by_tokenizer: int
    empty: int = 0
    unread: int = 0
    first_error: str = ""

    def lines(self) -> Iterator[str]:
        """Yield what the report says of it."""
        yield (
            f"Tokens of prompts: counted by the tokenizer {self.tokenizer}. Tokens of answers: "
            f"{self.by_server} requests by the server, {self.by_tokenizer} by the tokenizer."
        )
        if self.empty:
            yield f"Left out: {self.empty} answers without a text."
        if self.unread:
            yield f"Left out: {self.unread} answers; the first: {self.first_error}"

    def as_json(self) -> dict[str, int | str]:
        """Return it as the JSON file has it."""
        return {
            "tokenizer": self.tokenizer,
            "answers_by_server": self.by_server,
            "answers_by_tokenizer": self.by_tokenizer,
            "answers_without_text": self.empty,
            "answers_unread": self.unread,
        }


def measured(rows: Sequence[Row], reading: Reading) -> tuple[list[RequestMetrics], Tally]:
    """Return the metrics of each request whose answer has a text, and who counted.

    Raises:
        UnavailableError: None has.
    """
    tokenizer = reading.tokenizer

    @lru_cache(_KNOWN_TEXTS)
    def count(text: str) -> int:
        return len(tokenizer.encode(text))

    found: list[RequestMetrics] = []
    errors: list[str] = []
    by_server = 0
    for row in rows:
        try:
            read = _exchange(row, reading)
        except TritonError as error:
            errors.append(error.message)
            continue
        metrics = request_metrics(read, count)
        if metrics is not None:
            found.append(metrics)
            by_server += read.usage is not None
    if not found:
        raise UnavailableError(
            f"none of {len(rows)} answers has a text{': ' if errors else ''}{''.join(errors[:1])}; "
            "does the model answer, and are --endpoint-type and --text-output-name right?"
        )
    empty = len(rows) - len(found) - len(errors)
    first_error = errors[0] if errors else ""
    by_tokenizer = len(found) - by_server
    tally = Tally(tokenizer.name, by_server, by_tokenizer, empty, len(errors), first_error)
    return found, tally


def _exchange(row: Row, reading: Reading) -> Exchange:
    found = exchange(row, reading.endpoint, reading.names)
    return replace(found, usage=None) if reading.ignores_server else found


def report(
    rows: Sequence[Row],
    reading: Reading,
    config: Mapping[str, Any],
    export: Path,
    totals: Mapping[str, Statistics] | None = None,
) -> str:
    """Write the JSON and CSV files, and return what is printed.

    Args:
        rows: All requests.
        reading: How they become metrics.
        config: The options, for the JSON file.
        export: Path of the file of all requests.
        totals: Metrics of the whole run that are known already; None for none.

    Raises:
        UnavailableError: No answer has a text.
    """
    requests, tally = measured(rows, reading)
    summary = summarise(requests, reading.limits or {})
    if totals:
        summary = replace(summary, statistics={**summary.statistics, **totals})
    is_streaming = reading.is_streaming
    files.path_of(export, "json").write_text(files.json_report(summary, config, tally.as_json()))
    files.path_of(export, "csv").write_text(
        files.csv_report(summary.statistics, is_streaming=is_streaming)
    )
    table = console.table(summary.statistics, is_streaming=is_streaming)
    return "\n".join([table, *tally.lines()])
