# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""The rows of the table that `manta serve` prints."""

from collections.abc import Mapping

from backends.api.model_identifier import shown
from cluster.models.states import DORMANT_REASON, ModelRecord


def status_rows(records: Mapping[str, ModelRecord]) -> list[dict[str, str]]:
    """Return name, version, backend, instances, state and reason of each model version."""
    rows = []
    for name, record in sorted(records.items()):
        if not record.versions:
            is_waiting = record.is_on_demand and not record.failure
            state, reason = ("READY", DORMANT_REASON) if is_waiting else ("UNAVAILABLE", "")
            rows.append(_status_row(shown(name), state=state, reason=reason or record.failure))
        for version, at in sorted(record.versions.items()):
            rows.append(
                _status_row(
                    shown(name),
                    version=str(version),
                    backend=(at.config.backend or at.config.platform) if at.config else "",
                    instances=str(len(at.instances)),
                    state=at.state.value,
                    reason=at.reason or ("" if at.is_ready else record.failure),
                )
            )
    return rows


def _status_row(
    name: str,
    *,
    version: str = "",
    backend: str = "",
    instances: str = "0",
    state: str,
    reason: str,
) -> dict[str, str]:
    return {
        "name": name,
        "version": version,
        "backend": backend,
        "instances": instances,
        "state": state,
        "reason": reason,
    }
