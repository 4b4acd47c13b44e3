# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""The tables that the benchmarks print, in Markdown, and whether bars are met."""

import json
import os
import platform
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

from bench_cases import CPU, P50, P99, SETUPS, THROUGHPUT, Case
from bench_measure import Result, median

VALUES: Final[dict[str, Callable[[Result], float]]] = {
    THROUGHPUT: lambda result: result.throughput,
    P50: lambda result: result.p50_us,
    P99: lambda result: result.p99_us,
    CPU: lambda result: result.cpu_us,
}
COLUMNS: Final = (
    "case",
    "Triton infer/s",
    "Manta infer/s",
    "ratio",
    "p50 us T / M",
    "ratio",
    "p99 ratio",
    "CPU us/request T / M",
    "ratio",
    "bars",
)
NO_RESULT: Final = "no result"


@dataclass(frozen=True, slots=True)
class Row:
    """What was measured of a case.

    Attributes:
        case: The case.
        reference: Its runs on the reference, None those without a result.
        manta: Its runs on Manta, in the same order.
    """

    case: Case
    reference: Sequence[Result | None]
    manta: Sequence[Result | None]

    def ratios(self) -> dict[str, float]:
        """Return Manta's shares of the reference's medians; none if one has no result."""
        reference, manta = median(self.reference), median(self.manta)
        if reference is None or manta is None:
            return {}
        # The CPU time of a short run may be less than a tick of the clock.
        return {what: of(manta) / of(reference) for what, of in VALUES.items() if of(reference) > 0}


def heading(rounds: int) -> str:
    """Return the line above a table of medians of as many rounds."""
    return (
        f"\n{time.strftime('%Y-%m-%d')}, {os.cpu_count()} cores, {platform.machine()}, "
        f"median of {rounds} interleaved runs\n"
    )


def header(columns: Sequence[str]) -> str:
    """Return the first two lines of a table."""
    return f"| {' | '.join(columns)} |\n|{'---|' * len(columns)}"


def verdict(bar: str, *, met: bool) -> str:
    """Return what stands beside a bar."""
    return f"{bar}: {'met' if met else '**missed**'}"


def bar(what: str, limit: float, ratio: float | None) -> str:
    """Return the bar of a ratio and whether that meets it."""
    sign = ">=" if what == THROUGHPUT else "<="
    text = f"{what} {sign} {limit}"
    if ratio is None:
        return f"{text}: {NO_RESULT}"
    return verdict(text, met=ratio >= limit if what == THROUGHPUT else ratio <= limit)


def line(row: Row) -> str:
    """Return the row of a table."""
    reference, manta, ratios = median(row.reference), median(row.manta), row.ratios()
    bars = [bar(what, limit, ratios.get(what)) for what, limit in row.case.bars.items()]
    if SETUPS[row.case.setup].reference == "manta":
        bars.append("beside Manta without TLS: Triton has no HTTPS")

    def values(what: str) -> list[str]:
        return [
            NO_RESULT if each is None else f"{VALUES[what](each):,.0f}"
            for each in (reference, manta)
        ]

    def ratio(what: str) -> str:
        return f"**{ratios[what]:.2f}**" if what in ratios else ""

    return " | ".join(
        (
            f"| {row.case.name}",
            *values(THROUGHPUT),
            ratio(THROUGHPUT),
            " / ".join(values(P50)),
            ratio(P50),
            ratio(P99).strip("*"),
            " / ".join(values(CPU)),
            ratio(CPU),
            f"{'; '.join(bars)} |",
        )
    )


def table(rows: Sequence[Row]) -> str:
    """Return the table of all rows."""
    return "\n".join((header(COLUMNS), *map(line, rows)))


def write_json(rows: Sequence[Row], path: Path) -> None:
    """Write all runs and the ratios of their medians; latencies and CPU times are microseconds."""

    def runs(results: Sequence[Result | None]) -> list[dict[str, float] | None]:
        return [None if each is None else asdict(each) for each in results]

    cases = {
        row.case.name: {
            "reference": runs(row.reference),
            "manta": runs(row.manta),
            "ratios": row.ratios(),
            "bars": row.case.bars,
        }
        for row in rows
    }
    path.write_text(json.dumps({"cases": cases}, indent=1))
