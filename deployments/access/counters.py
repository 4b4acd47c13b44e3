# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""What is counted about callers in one process. Pure."""

from collections import Counter
from dataclasses import dataclass, field
from typing import Final

from deployments.access.refusals import Method, Reason

RELOAD_RESULTS: Final = ("taken", "refused")


@dataclass(slots=True)
class AccessCounters:
    """Counts since the process started; the labels are of few values, whatever clients send.

    Attributes:
        revision: Of the policy.
        refusals: Requests without valid credentials, by method and reason.
        denials: Requests of callers that may not, by protocol.
        reloads: New versions of the policy's files, by `RELOAD_RESULTS`.
        key_fetches: Fetches of issuers' keys, by ``fetched`` and ``failed``.
        audit_dropped: Lines that the audit log had no room for, or could not write.
    """

    revision: int = 0
    refusals: Counter[tuple[Method, Reason]] = field(default_factory=Counter)
    denials: Counter[str] = field(default_factory=Counter)
    reloads: Counter[str] = field(default_factory=Counter)
    key_fetches: Counter[str] = field(default_factory=Counter)
    audit_dropped: int = 0
