# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""The rows of the table that `manta serve` prints."""

from collections.abc import Mapping

from backends.api.model_identifier import shown
from cluster.models.states import DORMANT_REASON, ModelRecord


def status_rows(records: Mapping[str, ModelRecord]) -> list[dict[str, str]]:
    """Return name, version, backend, instances, state and reason of each model version."""
    rows: list[dict[str, str]] = []
    for name, record in sorted(records.items()):
        if not record.versions:
            is_waiting = record.is_on_demand and not record.failure
            state, reason = ("READY", DORMANT_REASON) if is_waiting else ("UNAVAILABLE", "")
            rows.append(_row(name, "", "", 0, state, reason or record.failure))
        for version, at in sorted(record.versions.items()):
            backend = (at.config.backend or at.config.platform) if at.config else ""
            reason = at.reason or ("" if at.is_ready else record.failure)
            rows.append(
                _row(name, str(version), backend, len(at.instances), at.state.value, reason)
            )
    return rows


def _row(name: str, *values: object) -> dict[str, str]:
    keys = ("version", "backend", "instances", "state", "reason")
    return {"name": shown(name), **dict(zip(keys, map(str, values), strict=True))}
