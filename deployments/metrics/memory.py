# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Metrics of the memory that an ingress process gives to messages; Triton has no such bound."""

from typing import Final

from deployments.metrics.exposition import head
from deployments.supervision.memory_budget import MemoryBudget

# Name, kind, help text and field of `MemoryBudget`.
_FAMILIES: Final = (
    (
        "manta_ingress_memory_limit_bytes",
        "gauge",
        "Most memory that messages of clients may take in this ingress process, in bytes",
        "limit_bytes",
    ),
    (
        "manta_ingress_memory_used_bytes",
        "gauge",
        "Memory that messages of clients take in this ingress process, in bytes",
        "used_bytes",
    ),
    (
        "manta_ingress_memory_peak_bytes",
        "gauge",
        "Most memory that messages of clients have taken at one time in this ingress process, in "
        "bytes",
        "peak_bytes",
    ),
    (
        "manta_ingress_memory_refusals_total",
        "counter",
        "Number of times that this ingress process had no memory left for a message",
        "refused_count",
    ),
)


def render_memory(budget: MemoryBudget) -> bytes:
    """Return the lines that the metrics page has about a budget."""
    lines: list[str] = []
    for name, kind, text, field in _FAMILIES:
        lines += [*head(name, kind, text), f"{name} {getattr(budget, field)}"]
    lines.append("")
    return "\n".join(lines).encode()
