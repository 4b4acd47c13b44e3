# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""What a fault cost, and whether that is within its rule."""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from tests.support.busy_clients import ERROR, HUNG, LOST, OK, REFUSED, Outcome

_SHOWN_DETAILS: Final = 4
_NO_ANSWER: Final = (LOST, HUNG)


@dataclass(frozen=True)
class Rule:
    """What a fault may cost; nothing that was asked may ever be lost.

    Attributes:
        slowest_s: The longest that an answer may take.
        heal_s: How long the server may take to be whole again.
        refuses: Whether connections may be refused, because the server ends.
    """

    slowest_s: float = 10.0
    heal_s: float = 60.0
    refuses: bool = False


@dataclass(frozen=True)
class Observation:
    """What was seen while a fault ran.

    Attributes:
        outcomes: What became of every request since the fault.
        healed_s: How long the server took to be whole again; None: it was not in time.
        is_own: Whether a request was on a connection of the process that the fault hit.
        notes: What else is worth telling.
        breaches: Rules of this fault alone that are broken.
    """

    outcomes: Sequence[Outcome]
    healed_s: float | None
    is_own: Callable[[Outcome], bool] = lambda _: False
    notes: tuple[str, ...] = ()
    breaches: tuple[str, ...] = ()


@dataclass(frozen=True)
class Report:
    """A row of the table.

    Attributes:
        own: Requests without an answer on connections of the process that the fault hit.
        slowest_s: The longest that a request took or waited for nothing, the own ones apart.
        breaches: Rules that are broken; nothing else decides.
    """

    name: str
    ok: int
    lost_http: int
    lost_grpc: int
    own: int
    errors: int
    refused: int
    slowest_s: float
    healed_s: float | None
    breaches: tuple[str, ...]
    notes: tuple[str, ...]

    @property
    def is_kept(self) -> bool:
        """Whether every rule is kept."""
        return not self.breaches


def judge(name: str, rule: Rule, seen: Observation) -> Report:
    """Count what became of the requests and hold it against the rule."""
    without_answer = [each for each in seen.outcomes if each.kind in _NO_ANSWER]
    own = [each for each in without_answer if seen.is_own(each)]
    lost = [each for each in without_answer if not seen.is_own(each)]
    kinds = Counter(each.kind for each in seen.outcomes)
    answered = [each for each in seen.outcomes if each.kind in {OK, ERROR}]
    # An answer on one of its own connections may have waited for the process to go on.
    others = [each for each in answered if not seen.is_own(each)]
    slowest_s = max((each.end_s - each.begin_s for each in [*others, *lost]), default=0.0)
    refused = () if rule.refuses else _details(seen.outcomes, REFUSED)
    report = Report(
        name=name,
        ok=kinds[OK],
        lost_http=sum(each.protocol == "http" for each in lost),
        lost_grpc=sum(each.protocol == "grpc" for each in lost),
        own=len(own),
        errors=kinds[ERROR],
        refused=kinds[REFUSED],
        slowest_s=slowest_s,
        healed_s=seen.healed_s,
        breaches=seen.breaches,
        notes=(*seen.notes, *_details(lost, LOST), *_details(seen.outcomes, ERROR), *refused),
    )
    breaches = [text for text, is_broken in _checks(rule, report) if is_broken]
    return Report(**{**vars(report), "breaches": (*breaches, *seen.breaches)})


def failed(name: str, error: Exception) -> Report:
    """Return the row of a fault that could not be brought about."""
    first_line = (str(error).splitlines() or [""])[0]
    breach = f"{type(error).__name__}: {first_line}"
    return Report(name, 0, 0, 0, 0, 0, 0, 0.0, None, (breach,), ())


def _checks(rule: Rule, report: Report) -> Iterable[tuple[str, bool]]:
    lost = report.lost_http + report.lost_grpc
    healed_s = report.healed_s
    return (
        (f"{lost} answers lost", lost > 0),
        (f"{report.errors} errors", report.errors > 0),
        (f"{report.refused} connections refused", report.refused > 0 and not rule.refuses),
        (f"slowest answer over {rule.slowest_s:g} s", report.slowest_s > rule.slowest_s),
        (f"not healed within {rule.heal_s:g} s", healed_s is None or healed_s > rule.heal_s),
    )


def _details(outcomes: Iterable[Outcome], kind: str) -> list[str]:
    wanted = _NO_ANSWER if kind == LOST else (kind,)
    texts = Counter(
        f"{each.protocol} {each.kind}: {each.detail}" for each in outcomes if each.kind in wanted
    )
    return [f"{count} x {text}" for text, count in texts.most_common(_SHOWN_DETAILS)]


_COLUMNS: Final = (
    "fault", "ok", "lost HTTP", "lost gRPC", "own", "errors", "refused", "slowest s", "healed s",
    "verdict",
)  # fmt: skip


def table(reports: Sequence[Report]) -> str:
    """Return the reports as a table in Markdown, with their notes below."""
    rows = [_COLUMNS, *(_cells(report) for report in reports)]
    widths = [max(len(row[column]) for row in rows) for column in range(len(_COLUMNS))]
    lines = [_line(row, widths) for row in rows]
    lines.insert(1, "|" + "|".join("-" * (width + 2) for width in widths) + "|")
    for report in reports:
        lines += [f"  {report.name}: {note}" for note in report.notes]
    return "\n".join(lines)


def _cells(report: Report) -> tuple[str, ...]:
    healed = "never" if report.healed_s is None else f"{report.healed_s:.1f}"
    return (
        report.name,
        str(report.ok),
        str(report.lost_http),
        str(report.lost_grpc),
        str(report.own),
        str(report.errors),
        str(report.refused),
        f"{report.slowest_s:.2f}",
        healed,
        "kept" if report.is_kept else "BROKEN: " + "; ".join(report.breaches),
    )


def _line(row: Sequence[str], widths: Sequence[int]) -> str:
    cells = (cell.ljust(width) for cell, width in zip(row, widths, strict=True))
    return "| " + " | ".join(cells) + " |"
