# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""A line of the audit log. Pure."""

import json
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

from deployments.security.caller import Caller

_TEXT_LIMIT: Final = 256
# JSON leaves it as it is, and terminals obey it.
_DELETE: Final = {0x7F: "\\u007f"}


@dataclass(frozen=True, slots=True)
class AuditEvent:
    """What a line is about.

    Attributes:
        time_s: When, seconds since the epoch.
        protocol: ``http``, ``grpc`` or ``metrics``.
        caller: Who asked; None when nobody knows.
        what: Route or RPC.
        model: The model that was asked for; empty for none.
        outcome: What came of it.
        revision: Of the policy.
    """

    time_s: float
    protocol: str
    caller: Caller | None
    what: str
    model: str
    outcome: str
    revision: int


def audit_line(event: AuditEvent) -> bytes:
    """Return a JSON object of printable ASCII, and a line feed: no value can begin a line."""
    caller = event.caller
    row = {
        "time": datetime.fromtimestamp(event.time_s, UTC).isoformat(timespec="milliseconds"),
        "protocol": event.protocol,
        "subject": "" if caller is None else _cut(caller.subject),
        "tenant": "" if caller is None else _cut(caller.tenant),
        "method": "" if caller is None else str(caller.method),
        "what": _cut(event.what),
        "model": _cut(event.model),
        "outcome": _cut(event.outcome),
        "revision": event.revision,
    }
    return json.dumps(row, ensure_ascii=True).translate(_DELETE).encode("ascii") + b"\n"


def _cut(text: str) -> str:
    return text if len(text) <= _TEXT_LIMIT else text[:_TEXT_LIMIT] + "..."
