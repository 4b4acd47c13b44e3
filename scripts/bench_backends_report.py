# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""What the benchmark of the backends has found, as tables in Markdown and as JSON."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from statistics import median
from typing import Final

from bench_report import header, heading, verdict

# Rows of the largest batch of the large model.
LARGEST: Final = 8
BOUND_BAR: Final = 0.95
OVERHEAD_BAR: Final = 0.9
# Of an instance, beyond its framework's import; what a second instance has of the first's.
MEMORY_BAR_MB: Final = 25
SHARING_BAR: Final = 0.6

BOUND_COLUMNS: Final = (
    "model-bound",
    f"bare call of {LARGEST} rows, ms",
    "mean batch",
    "bare loop rows/s",
    "served rows/s",
    "ratio",
    "bar",
)
OVERHEAD_COLUMNS: Final = (
    "overhead-bound",
    "ONNX Runtime requests/s",
    "requests/s",
    "ratio",
    "mean batch",
    "bare call us, ONNX Runtime / own",
    "its call allows",
    "of that",
    "bar",
)
MEMORY_COLUMNS: Final = (
    "private MB",
    "instance",
    "identity's",
    "framework's import",
    "beyond",
    "bar",
    "beyond a bare process that runs the model",
)
SHARING_COLUMNS: Final = (
    "network of 256 MB, private MB: one instance",
    "each of two that share",
    "ratio",
    "bar",
)


@dataclass(frozen=True, slots=True)
class Run:
    """One run of a model under load.

    Attributes:
        rate: Requests, which are of one row, per second.
        batch: Rows of an execution, on average.
        call_us: Of the framework's own call for as many rows, in a bare process; 0 without one.
    """

    rate: float
    batch: float
    call_us: float


@dataclass(frozen=True, slots=True)
class ModelBound:
    """A large model: its runs behind the server, and beside each the bare loop.

    Attributes:
        name: Of the framework.
        runs: Behind the server.
        largest_us: What the framework's own call takes for the largest batch, beside each run.
    """

    name: str
    runs: Sequence[Run]
    largest_us: Sequence[float]

    @property
    def bare_rate(self) -> float:
        """Rows a second of the bare loop."""
        return median(1e6 * max(1, round(run.batch)) / run.call_us for run in self.runs)

    @property
    def ratio(self) -> float:
        """The server's share of the bare loop's rows."""
        return median(run.rate for run in self.runs) / self.bare_rate

    def line(self) -> str:
        """Return the row of a table."""
        rate, batch = (median(getattr(run, x) for run in self.runs) for x in ("rate", "batch"))
        bar = verdict(f">= {BOUND_BAR}", met=self.ratio >= BOUND_BAR)
        return (
            f"| {self.name} | {median(self.largest_us) / 1e3:.1f} | {batch:.1f} | "
            f"{self.bare_rate:,.0f} | {rate:,.0f} | **{self.ratio:.2f}** | {bar} |"
        )


@dataclass(frozen=True, slots=True)
class OverheadBound:
    """A tiny model, and the same of ONNX Runtime in the same server.

    Attributes:
        name: Of the framework.
        reference: Runs of ONNX Runtime's.
        runs: The framework's, each after that of the same place.
    """

    name: str
    reference: Sequence[Run]
    runs: Sequence[Run]

    @property
    def ratio(self) -> float:
        """Requests a second as a share of ONNX Runtime's."""
        return median(run.rate for run in self.runs) / median(run.rate for run in self.reference)

    @property
    def allowed(self) -> float:
        """The share that the framework's own call leaves, if all else took what it takes there."""
        return median(
            _rate_with(run, reference) / reference.rate
            for run, reference in zip(self.runs, self.reference, strict=True)
        )

    def line(self) -> str:
        """Return the row of a table."""
        ours, theirs = (median(each.rate for each in runs) for runs in (self.runs, self.reference))
        batch, call = (median(getattr(run, x) for run in self.runs) for x in ("batch", "call_us"))
        of_allowed = self.ratio / self.allowed
        bar = verdict(
            f">= {OVERHEAD_BAR} of either", met=max(self.ratio, of_allowed) >= OVERHEAD_BAR
        )
        reference_call = median(run.call_us for run in self.reference)
        return (
            f"| {self.name} | {theirs:,.0f} | {ours:,.0f} | **{self.ratio:.2f}** | {batch:.1f} | "
            f"{reference_call:.0f} / {call:.0f} | {self.allowed:.2f} | {of_allowed:.2f} | {bar} |"
        )


def _rate_with(run: Run, reference: Run) -> float:
    """Return requests a second of the reference if its calls took what those of the other take."""
    longer_us = run.call_us / run.batch - reference.call_us / reference.batch
    return 1e6 / (1e6 / reference.rate + longer_us)


@dataclass(frozen=True, slots=True)
class Memory:
    """What a tiny model's instance shares with no other process, in MB.

    Attributes:
        name: Of the framework.
        instance: Behind the server, after it has answered some thousand requests.
        identity: An instance of the identity backend beside it.
        imports: What importing the framework adds to a bare process.
        in_use: What importing it, loading the same model and calling that add.
    """

    name: str
    instance: float
    identity: float
    imports: float
    in_use: float

    @property
    def beyond(self) -> float:
        """What the instance has beyond the import."""
        return self.instance - self.identity - self.imports

    def line(self) -> str:
        """Return the row of a table."""
        bar = verdict(f"<= {MEMORY_BAR_MB}", met=self.beyond <= MEMORY_BAR_MB)
        return (
            f"| {self.name} | {self.instance:.0f} | {self.identity:.0f} | {self.imports:.0f} | "
            f"**{self.beyond:+.0f}** | {bar} | {self.instance - self.identity - self.in_use:+.0f} |"
        )


@dataclass(frozen=True, slots=True)
class Sharing:
    """What instances of a large model share with no other process, in MB.

    Attributes:
        alone: The only instance of a model that does not share its weights.
        second: Each of two instances that share them.
    """

    alone: float
    second: float

    def line(self) -> str:
        """Return the row of a table."""
        ratio = self.second / self.alone
        bar = verdict(f"<= {SHARING_BAR}", met=ratio <= SHARING_BAR)
        return f"| {self.alone:.0f} | {self.second:.0f} | **{ratio:.2f}** | {bar} |"


@dataclass(slots=True)
class Report:
    """All that was measured.

    Attributes:
        model_bound: By framework.
        overhead_bound: By framework.
        memory: By framework.
        sharing: None if it was not measured.
        imported: Of a server without models by process the libraries of frameworks that it has;
            None if it was not looked at.
    """

    model_bound: list[ModelBound] = field(default_factory=list)
    overhead_bound: list[OverheadBound] = field(default_factory=list)
    memory: list[Memory] = field(default_factory=list)
    sharing: Sharing | None = None
    imported: Mapping[str, Sequence[str]] | None = None

    def text(self, rounds: int) -> str:
        """Return the tables of what was measured, in Markdown."""
        parts = [heading(rounds)]
        for columns, rows in (
            (BOUND_COLUMNS, self.model_bound),
            (OVERHEAD_COLUMNS, self.overhead_bound),
            (MEMORY_COLUMNS, self.memory),
            (SHARING_COLUMNS, [self.sharing] if self.sharing else []),
        ):
            if rows:
                parts.append("\n".join((header(columns), *(row.line() for row in rows), "")))
        if self.imported is not None:
            has = {title: names for title, names in self.imported.items() if names}
            bar = verdict("a server without models imports no framework", met=not has)
            parts.append(f"{bar} ({len(self.imported)} processes) {has or ''}")
        return "\n".join(parts)

    def write_json(self, path: Path) -> None:
        """Write all runs."""
        path.write_text(json.dumps(asdict(self), indent=1))
