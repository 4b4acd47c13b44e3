# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""What the metrics page says of models that are started by requests, out of the routing table."""

from backends.api.model_identifier import name_of, namespace_of
from deployments.contracts.routing_table import RoutingTable
from deployments.metrics.cold_starts import ColdStarts, render_cold_starts


def cold_starts_text(table: RoutingTable) -> bytes:
    """Return the lines; none where no model was ever started by a request or is dormant."""
    rows = [
        ColdStarts(name_of(key), model.cold_start_count, model.cold_start_ns, namespace_of(key))
        for key, model in table.models.items()
        if model.cold_start_count
    ]
    entries = (entry for model in table.models.values() for entry in model.versions)
    return render_cold_starts(rows, sum(entry.is_dormant for entry in entries))
