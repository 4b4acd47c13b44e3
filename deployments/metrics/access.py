# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Metrics of who was refused, and of the access policy. Triton has none."""

from collections.abc import Iterable
from typing import Final

from deployments.access.counters import FETCH_RESULTS, RELOAD_RESULTS, AccessCounters
from deployments.metrics.exposition import head, label_set

_Row = tuple[tuple[tuple[str, str], ...], int]

_REVISION: Final = "manta_access_policy_revision"
_RELOADS: Final = "manta_access_policy_reloads_total"
_REFUSED: Final = "manta_access_unauthenticated_total"
_DENIED: Final = "manta_access_denied_total"
_FETCHES: Final = "manta_access_key_fetches_total"
_DROPPED: Final = "manta_access_audit_dropped_total"


def render_access(counters: AccessCounters | None) -> bytes:
    """Return the lines that the metrics page has about callers; nothing without a policy."""
    if counters is None:
        return b""
    lines: list[str] = []
    _add(lines, _REVISION, "gauge", "Revision of the access policy", [((), counters.revision)])
    _add(
        lines,
        _RELOADS,
        "counter",
        "Number of changes of the access policy's files, by result",
        [((("result", each),), counters.reloads[each]) for each in RELOAD_RESULTS],
    )
    _add(
        lines,
        _REFUSED,
        "counter",
        "Number of requests without valid credentials, by method and reason",
        [
            ((("method", str(method)), ("reason", str(reason))), count)
            for (method, reason), count in sorted(counters.refusals.items())
        ],
    )
    _add(
        lines,
        _DENIED,
        "counter",
        "Number of requests that their callers may not make, by protocol",
        [((("protocol", each),), count) for each, count in sorted(counters.denials.items())],
    )
    _add(
        lines,
        _FETCHES,
        "counter",
        "Number of fetches of the keys of issuers of tokens, by result",
        [((("result", each),), counters.key_fetches[each]) for each in FETCH_RESULTS],
    )
    dropped = "Number of lines that the audit log had no room for or could not write"
    _add(lines, _DROPPED, "counter", dropped, [((), counters.audit_dropped)])
    lines.append("")
    return "\n".join(lines).encode()


def _add(lines: list[str], name: str, kind: str, text: str, rows: Iterable[_Row]) -> None:
    lines += head(name, kind, text)
    lines.extend(f"{name}{label_set(labels)} {value}" for labels, value in rows)
