# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Metrics of admission control. Triton has none."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import isinf
from typing import Final

from deployments.metrics.exposition import head, label_set

_REFUSED: Final = "manta_admission_refused_total"
_LIMIT: Final = "manta_admission_limit_requests"
_OUTSTANDING: Final = "manta_admission_outstanding_requests"


@dataclass(frozen=True, slots=True)
class AdmissionMetrics:
    """One model version in this ingress.

    Attributes:
        name: Model.
        version: Version.
        outstanding: Requests under way.
        limit: How many may be; infinite while there is no overload.
        refused: Refusals by reason.
        namespace: The model's namespace; empty without one.
    """

    name: str
    version: int
    outstanding: int
    limit: float
    refused: Mapping[str, int] = field(default_factory=dict)
    namespace: str = ""

    def labels(self, **more: str) -> str:
        """Return the version, and what else there is, as labels."""
        pairs = [
            ("model", self.name),
            ("namespace", self.namespace),
            *more.items(),
            ("version", str(self.version)),
        ]
        return label_set(pair for pair in pairs if pair[1])


def render_admission(rows: Sequence[AdmissionMetrics]) -> bytes:
    """Return the lines of the metrics page; none where nothing is ever refused."""
    if not rows:
        return b""
    text = "Number of requests that admission control of this ingress process rejected, by reason"
    lines = [*head(_REFUSED, "counter", text)]
    for row in rows:
        lines += [f"{_REFUSED}{row.labels(reason=why)} {n}" for why, n in row.refused.items()]
    text = "Number of requests in flight in this ingress process, of models with admission control"
    lines += head(_OUTSTANDING, "gauge", text)
    lines += [f"{_OUTSTANDING}{row.labels()} {row.outstanding}" for row in rows]
    text = "Number of requests that may be in flight in this ingress process while overload lasts"
    lines += head(_LIMIT, "gauge", text)
    lines += [
        f"{_LIMIT}{row.labels()} {'+Inf' if isinf(row.limit) else f'{row.limit:.4g}'}"
        for row in rows
    ]
    return "\n".join([*lines, ""]).encode()
