# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""What an analysis searches among, tries and has found; all of it can be written as JSON."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, Protocol

# A value of a field of a model's config.
Value = int | float | str | bool
LoadKind = Literal["concurrency", "request_rate"]


@dataclass(frozen=True, slots=True, order=True)
class Setting:
    """Fields of one model's config that differ from what its repository says.

    Attributes:
        model: The model's name.
        values: Dotted field of the config, and its value, sorted by field; for example
            ``instance_group.count``, ``max_batch_size``,
            ``dynamic_batching.max_queue_delay_microseconds``, ``parameters.NAME``.
    """

    model: str
    values: tuple[tuple[str, Value], ...] = ()


@dataclass(frozen=True, slots=True, order=True)
class Candidate:
    """A configuration of all models that are measured together, sorted by model.

    Composing models of ensembles and of BLS have settings of their own. A candidate without any
    values is the default: the repository as it is.
    """

    settings: tuple[Setting, ...]


@dataclass(frozen=True, slots=True, order=True)
class Load:
    """What clients do to one model.

    Attributes:
        model: Whom they ask.
        kind: What ``level`` counts.
        level: Requests in flight, or requests a second.
        batch_size: Inferences of a request.
    """

    model: str
    kind: LoadKind
    level: float
    batch_size: int = 1


@dataclass(frozen=True, slots=True)
class Trial:
    """One measurement that a search asks for.

    Attributes:
        candidate: With which configuration.
        loads: Under which loads, one for each model that is asked, all at once.
        budget: How many full measurements it may cost, above 0.
    """

    candidate: Candidate
    loads: tuple[Load, ...]
    budget: float = 1.0


@dataclass(frozen=True, slots=True)
class Measured:
    """What came of a trial.

    Attributes:
        trial: The trial.
        metrics: For each model that was asked its metrics by Model Analyzer's tags
            (``perf_throughput``, ``perf_latency_p99``, ``cpu_used_ram``, ...); times in
            milliseconds, memory in megabytes, throughput in inferences a second.
        is_stable: Whether the windows agreed.
        error: Why there are no metrics; empty when there are.
        gpu_metrics: The same by UUID of a GPU.
    """

    trial: Trial
    metrics: Mapping[str, Mapping[str, float]]
    is_stable: bool = True
    error: str = ""
    gpu_metrics: Mapping[str, Mapping[str, float]] = field(default_factory=dict)


class Search(Protocol):
    """Decides what is measured next, from what has been; knows no clock and no server."""

    def ask(self) -> Sequence[Trial]:
        """Return trials that may be run at once; none when the search is over.

        All of them are told about before it is asked again.
        """

    def tell(self, measured: Measured) -> None:
        """Take the outcome of a trial, also one that failed."""
