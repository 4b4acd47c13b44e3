# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""What the server counted meanwhile: differences of the statistics extension's counters.

Triton: perf_analyzer/src/inference_profiler.cc SummarizeServerStats @263c5f6
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, Final


@dataclass(frozen=True, slots=True)
class ServerCounts:
    """Counters of one model version, or their differences; times in nanoseconds."""

    inference_count: int = 0
    execution_count: int = 0
    success_count: int = 0
    success_ns: int = 0
    queue_count: int = 0
    queue_ns: int = 0
    compute_input_count: int = 0
    compute_input_ns: int = 0
    compute_infer_count: int = 0
    compute_infer_ns: int = 0
    compute_output_count: int = 0
    compute_output_ns: int = 0
    cache_hit_count: int = 0
    cache_hit_ns: int = 0
    cache_miss_count: int = 0
    cache_miss_ns: int = 0

    def __sub__(self, earlier: "ServerCounts") -> "ServerCounts":
        """Return what was counted since; a server that began anew has counted all of it."""
        difference = [getattr(self, name) - getattr(earlier, name) for name in _NAMES]
        return ServerCounts(*difference) if min(difference) >= 0 else self

    def __add__(self, other: "ServerCounts") -> "ServerCounts":
        """Return both together."""
        return ServerCounts(*(getattr(self, name) + getattr(other, name) for name in _NAMES))

    @property
    def compute_ns(self) -> int:
        """Time of input, inference and output together."""
        return self.compute_input_ns + self.compute_infer_ns + self.compute_output_ns


_NAMES: Final = tuple(field.name for field in fields(ServerCounts))
_DURATIONS: Final = (
    "success",
    "queue",
    "compute_input",
    "compute_infer",
    "compute_output",
    "cache_hit",
    "cache_miss",
)

# By name and version of the model.
Snapshot = Mapping[tuple[str, str], ServerCounts]


def read_snapshot(answer: Mapping[str, Any]) -> Snapshot:
    """Read the answer of the statistics extension, as JSON has it."""
    return {
        (row["name"], str(row.get("version", ""))): _counts(row)
        for row in answer.get("model_stats", ())
    }


def _counts(row: Mapping[str, Any]) -> ServerCounts:
    numbers: dict[str, int] = {
        name: int(row.get(name, 0)) for name in ("inference_count", "execution_count")
    }
    durations = row.get("inference_stats", {})
    for name in _DURATIONS:
        given = durations.get(name, {})
        numbers[f"{name}_count"] = int(given.get("count", 0))
        numbers[f"{name}_ns"] = int(given.get("ns", 0))
    return ServerCounts(**numbers)


def difference(before: Snapshot, after: Snapshot) -> Snapshot:
    """Return what each model version has counted between two snapshots."""
    nothing = ServerCounts()
    return {key: counts - before.get(key, nothing) for key, counts in after.items()}


def together(snapshots: Sequence[Snapshot]) -> Snapshot:
    """Add up the differences of several windows."""
    total: dict[tuple[str, str], ServerCounts] = {}
    for snapshot in snapshots:
        for key, counts in snapshot.items():
            total[key] = total.get(key, ServerCounts()) + counts
    return total


@dataclass(frozen=True, slots=True)
class ServerSide:
    """What a level cost on the server.

    Attributes:
        counts: Of the model that was asked.
        composing: Of the models that it is composed of, by name and version.
    """

    counts: ServerCounts
    composing: tuple[tuple[tuple[str, str], ServerCounts], ...] = ()


def server_side(
    counted: Snapshot, model: str, version: str, composing: Sequence[tuple[str, str]] = ()
) -> ServerSide:
    """Pick a model and those that it is composed of; a version left out is the one that worked.

    Several that worked are the highest of them.
    """
    parts = [_worked(counted, name, number) for name, number in composing]
    found = _worked(counted, model, version)
    return ServerSide(
        counted[found] if found else ServerCounts(),
        tuple((key, counted[key]) for key in dict.fromkeys(parts) if key),
    )


def _worked(counted: Snapshot, model: str, version: str) -> tuple[str, str] | None:
    if version:
        return (model, version) if (model, version) in counted else None
    candidates = [
        key
        for key, counts in counted.items()
        if key[0] == model and (counts.success_count or counts.queue_count)
    ]
    return max(candidates, key=lambda key: int(key[1] or 0), default=None)
