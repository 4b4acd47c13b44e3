# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Metrics of models that are started by requests. Triton has none."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from deployments.metrics.exposition import head, label_set

_NS_PER_S: Final = 1e9
_COUNT: Final = "manta_cold_starts_total"
_SECONDS: Final = "manta_cold_start_seconds_total"
_DORMANT: Final = "manta_dormant_model_versions"


@dataclass(frozen=True, slots=True)
class ColdStarts:
    """How often requests had to wait for a model.

    Attributes:
        name: Model.
        count: Number of its starts.
        duration_ns: What they took together.
        namespace: The model's namespace; empty without one.
    """

    name: str
    count: int
    duration_ns: int
    namespace: str = ""

    @property
    def labels(self) -> str:
        """The model, as labels."""
        pairs = [("model", self.name), ("namespace", self.namespace)]
        return label_set(pair for pair in pairs if pair[1])


def render_cold_starts(rows: Sequence[ColdStarts], dormant_count: int) -> bytes:
    """Return the lines that the metrics page has about cold starts, and about who is dormant.

    The numbers are those of the cluster, and the same on the pages of all its nodes.

    Args:
        rows: Models that requests have started.
        dormant_count: Model versions that are dormant.
    """
    lines: list[str] = []
    if rows:
        text = "Number of times that requests waited for a model to be started, in the cluster"
        lines += head(_COUNT, "counter", text)
        lines += [f"{_COUNT}{row.labels} {row.count}" for row in rows]
        lines += head(_SECONDS, "counter", "Seconds that these starts of a model took together")
        lines += [f"{_SECONDS}{row.labels} {row.duration_ns / _NS_PER_S:.6f}" for row in rows]
    if rows or dormant_count:
        text = "Number of model versions in the cluster that are ready and have no instance"
        lines += [*head(_DORMANT, "gauge", text), f"{_DORMANT} {dormant_count}", ""]
    return "\n".join(lines).encode()
