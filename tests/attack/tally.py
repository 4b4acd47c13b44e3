# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""What a family of attacks has found, and the table of all."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final

_SHOWN: Final = 20
# What a client may get for what it sends. 500 has the texts that Triton answers bad documents with.
ALLOWED_STATUSES: Final = frozenset(
    {200, 400, 401, 403, 404, 405, 413, 414, 417, 426, 429, 431, 500, 501, 503, 505}
)
# Of gRPC: OK, CANCELLED, UNKNOWN, INVALID_ARGUMENT, DEADLINE_EXCEEDED, NOT_FOUND, ALREADY_EXISTS,
# PERMISSION_DENIED, RESOURCE_EXHAUSTED, UNIMPLEMENTED, INTERNAL, UNAVAILABLE, UNAUTHENTICATED.
ALLOWED_CODES: Final = frozenset({0, 1, 2, 3, 4, 5, 6, 7, 8, 12, 13, 14, 16})
# Answers of a handler that broke.
BROKEN: Final = (
    b"internal error; the server's log says more",
    b"Traceback (most recent call last)",
)


@dataclass
class Tally:
    """Of one family.

    Attributes:
        family: Its name.
        outcomes: How often each status or other end came.
        findings: What must not be; empty when all is well.
        skipped: Why the family was not run.
        seconds: How long it took.
    """

    family: str
    outcomes: Counter[str] = field(default_factory=Counter)
    findings: list[str] = field(default_factory=list)
    skipped: str = ""
    seconds: float = 0.0

    @property
    def count(self) -> int:
        """Attacks made."""
        return self.outcomes.total()

    def note(self, outcome: object) -> None:
        """Count an attack by how it ended."""
        self.outcomes[str(outcome)] += 1

    def expect(self, holds: bool, finding: str) -> None:
        """Note a finding unless something holds."""
        if not holds:
            self.findings.append(finding[:600])

    def check_answer(self, status: int, body: bytes, what: str) -> None:
        """Count an HTTP answer; one that no client should get is a finding."""
        self.note(status)
        self.expect(status in ALLOWED_STATUSES, f"{what}: status {status}")
        self.expect(not any(text in body for text in BROKEN), f"{what}: {body[:200]!r}")


def table(tallies: Sequence[Tally]) -> str:
    """Return the table of all families, and below it what was found."""
    rows = [("family", "attacks", "seconds", "how they ended", "findings")]
    rows += [
        (
            each.family,
            f"{each.count:,}",
            f"{each.seconds:.0f}",
            each.skipped or _outcomes(each.outcomes),
            "-" if each.skipped else str(len(each.findings)),
        )
        for each in tallies
    ]
    widths = [max(len(row[at]) for row in rows) for at in range(5)]
    lines = [_line(row, widths) for row in rows]
    lines.insert(1, "|" + "|".join("-" * (width + 2) for width in widths) + "|")
    return "\n".join([*lines, *_findings(tallies)])


def _line(row: Sequence[str], widths: Sequence[int]) -> str:
    return "| " + " | ".join(map(str.ljust, row, widths)) + " |"


def _outcomes(outcomes: Counter[str]) -> str:
    return ", ".join(f"{count:,} {name}" for name, count in outcomes.most_common(8))


def _findings(tallies: Iterable[Tally]) -> Iterable[str]:
    for each in tallies:
        for finding in each.findings[:_SHOWN]:
            yield f"FINDING {each.family}: {finding}"
        if len(each.findings) > _SHOWN:
            yield f"FINDING {each.family}: and {len(each.findings) - _SHOWN} more"
