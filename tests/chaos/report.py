# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""What a run is told by: counts per fault and outcome, what was left out, what is broken."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from tests.chaos.checks import Verdict
from tests.chaos.records import Control, Strike
from tests.chaos.schedule import Schedule, render


@dataclass
class Report:
    """A run.

    Attributes:
        schedule: What was to strike.
        strikes: What did.
        left_out: Kind -> why it cannot be had here.
        verdict: What the records say; None: the run did not get so far.
        controls: Loads.
        breaches: What is broken besides.
        notes: What else is worth telling.
    """

    schedule: Schedule
    strikes: list[Strike] = field(default_factory=list)
    left_out: Mapping[str, str] = field(default_factory=dict)
    verdict: Verdict | None = None
    controls: Sequence[Control] = ()
    breaches: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    @property
    def all_breaches(self) -> list[str]:
        """Everything that is broken."""
        found = list(self.breaches)
        if self.verdict is not None:
            found += self.verdict.breaches
        return found

    @property
    def is_kept(self) -> bool:
        """Whether every rule is kept."""
        return self.verdict is not None and not self.all_breaches


_COLUMNS: Final = ("fault", "struck", "not then", "error", "lost", "refused", "hung")


def text_of(report: Report) -> str:
    """Return a report as text: faults, notes, and if need be the schedule to run again."""
    lines = _table(report)
    verdict = report.verdict
    if verdict is not None:
        counts = ", ".join(f"{count} {kind}" for kind, count in sorted(verdict.counts.items()))
        lines.append(f"requests: {counts}; slowest answer {verdict.slowest_s:.1f} s")
    failed = sum(bool(each.error) for each in report.controls)
    lines.append(f"loads: {len(report.controls)}, {failed} of them failed")
    lines += [f"left out: {name}: {why}" for name, why in sorted(report.left_out.items())]
    lines += report.notes
    seed = report.schedule.seed
    if report.is_kept:
        lines.append(f"seed {seed}: kept")
        return "\n".join(lines)
    lines += [f"BROKEN: {breach}" for breach in report.all_breaches]
    lines.append(f"seed {seed}: BROKEN; the schedule, to be run again with --schedule FILE:")
    lines.append(render(report.schedule))
    return "\n".join(lines)


def _table(report: Report) -> list[str]:
    struck = Counter(each.fault for each in report.strikes if not each.left_out)
    not_then = Counter(each.fault for each in report.strikes if each.left_out)
    excused = report.verdict.excused if report.verdict is not None else {}
    rows = [_COLUMNS]
    for name in sorted(struck | not_then):
        kinds = excused.get(name, {})
        counts = (struck[name], not_then[name], *(kinds.get(kind, 0) for kind in _COLUMNS[3:]))
        rows.append((name, *(str(count) for count in counts)))
    widths = [max(len(row[at]) for row in rows) for at in range(len(_COLUMNS))]
    lines = [
        "| " + " | ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) + " |"
        for row in rows
    ]
    lines.insert(1, "|" + "|".join("-" * (width + 2) for width in widths) + "|")
    return lines
