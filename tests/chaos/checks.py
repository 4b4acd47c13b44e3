# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Holds what clients have written down against the rules; pure.

A request is *excused* by a strike when the strike's row in `tests.chaos.rules` allows what became
of it, to whom, and at that time. What is not excused is a breach.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from tests.chaos.records import (
    ERROR,
    HUNG,
    LOST,
    OK,
    REFUSED,
    SEQUENCE,
    Control,
    Journal,
    Record,
    Strike,
)
from tests.chaos.rules import COSTS, LOSS_CODES, TIED, USUAL_S, Cost

_SHOWN: Final = 5
_TWICE: Final = 2


@dataclass(frozen=True)
class Verdict:
    """What the records say.

    Attributes:
        counts: Kind -> requests.
        excused: Name of a fault -> kind -> requests that it excuses.
        breaches: What no row allows, in words; nothing else decides.
        slowest_s: The longest that an answer took.
    """

    counts: Mapping[str, int]
    excused: Mapping[str, Mapping[str, int]]
    breaches: tuple[str, ...]
    slowest_s: float


def judge(
    journals: Sequence[Journal], strikes: Sequence[Strike], controls: Sequence[Control] = ()
) -> Verdict:
    """Check everything that can be told from records."""
    records = [record for journal in journals for record in journal.records]
    excused: dict[str, Counter[str]] = defaultdict(Counter)
    found = _Excuses(records, strikes)
    unexcused = []
    for record in records:
        if record.kind == OK:
            continue
        fault = found.of(record)
        if fault is None:
            unexcused.append(record)
        else:
            excused[fault][record.kind] += 1
    breaches = [
        *_terminal_outcomes(journals),
        *_described(unexcused, min((each.begin_s for each in records), default=0.0)),
        *_too_many_connections(records, strikes),
        *_sequences_that_go_on(records),
        *_slow(records, strikes),
        *_controls(controls, strikes),
    ]
    counts = Counter(record.kind for record in records)
    slowest_s = max((each.end_s - each.begin_s for each in records if each.kind == OK), default=0.0)
    return Verdict(counts, excused, tuple(breaches), slowest_s)


def _terminal_outcomes(journals: Iterable[Journal]) -> Iterator[str]:
    """Each request that was sent has one terminal outcome, and no two have the same id."""
    sent: Counter[str] = Counter()
    ended: Counter[str] = Counter()
    for journal in journals:
        sent.update(journal.sent)
        # No request was sent where no connection was made.
        ended.update(each.request_id for each in journal.records if each.kind != REFUSED)
    rows = (
        ("sent twice", [key for key, count in sent.items() if count > 1]),
        ("without a terminal outcome", list(sent - ended)),
        ("with more than one terminal outcome", list(ended - sent)),
    )
    for what, keys in rows:
        if keys:
            yield f"{len(keys)} requests {what}: {', '.join(keys[:_SHOWN])}"


class _Excuses:
    """Finds the fault that excuses what became of a request."""

    def __init__(self, records: Iterable[Record], strikes: Sequence[Strike]) -> None:
        self._strikes = strikes
        self._begun_s: dict[tuple[str, int], float] = {}
        for record in records:
            if record.sequence:
                key = (record.client, record.sequence)
                self._begun_s[key] = min(record.begin_s, self._begun_s.get(key, record.begin_s))

    def of(self, record: Record) -> str | None:
        """Return the name of the first such fault; None: no row allows it."""
        begun_s = self._begun_s.get((record.client, record.sequence), record.begin_s)
        near = [
            (strike, COSTS[strike.fault])
            for strike in self._strikes
            if not strike.left_out and _is_near(strike, begun_s, record.end_s)
        ]
        for strike, cost in near:
            if _is_excused(record, strike, cost):
                return strike.fault
        if record.kind == ERROR and record.code == "UNAVAILABLE":
            # It is sent to another instance once, which may be the next to be hit, or is on the
            # same lost node.
            deaths = [
                strike.fault
                for strike, cost in near
                if cost.tied
                for _ in range(_TWICE if cost.node else 1)
            ]
            if len(deaths) >= _TWICE:
                return deaths[-1]
        return None


def _is_near(strike: Strike, begin_s: float, end_s: float) -> bool:
    return strike.begin_s <= end_s and begin_s <= strike.over_s + COSTS[strike.fault].after_s


def _is_excused(record: Record, strike: Strike, cost: Cost) -> bool:
    if record.kind == ERROR:
        if record.code == "UNAVAILABLE" and record.traffic in strike.last_of:
            return True
        return (
            cost.tied
            and record.traffic in TIED
            and (not strike.traffics or record.traffic in strike.traffics)
            and record.code in (LOSS_CODES if record.traffic == SEQUENCE else {"UNAVAILABLE"})
        )
    if record.kind not in {LOST, REFUSED, HUNG}:
        return False
    if cost.node and record.node == strike.node:
        return True
    if not cost.connections or record.kind != LOST:
        return False
    if record.protocol == "http":
        # A connection that never carried an answer may have been in its backlog.
        return record.port in strike.ports or (record.is_first and record.node == strike.node)
    # Whose connections these were nobody tells for gRPC; `_too_many_connections` counts them.
    return record.node == strike.node


def _described(records: Sequence[Record], start_s: float) -> Iterator[str]:
    texts: dict[tuple[str, str, str], list[Record]] = defaultdict(list)
    for record in records:
        texts[record.kind, f"{record.protocol} {record.traffic}", record.code].append(record)
    for (kind, what, code), found in sorted(texts.items()):
        shown = "; ".join(
            f"{each.request_id} of {each.client}, {each.begin_s - start_s:.1f} to"
            f" {each.end_s - start_s:.1f} s: {each.detail}"
            for each in found[:_SHOWN]
        )
        yield f"{len(found)} x {what} {kind} {code}: {shown}"


def _too_many_connections(records: Sequence[Record], strikes: Sequence[Strike]) -> Iterator[str]:
    for strike in strikes:
        cost = COSTS[strike.fault]
        if strike.left_out or not cost.connections or cost.node:
            continue
        until_s = strike.over_s + cost.after_s
        lost = {
            record.client
            for record in records
            if (record.protocol, record.kind, record.node) == ("grpc", LOST, strike.node)
            and strike.begin_s <= record.end_s <= until_s
            and not _is_node_lost(record, strikes)
        }
        if len(lost) > strike.connections:
            yield (
                f"{len(lost)} gRPC clients lost a request when {strike.fault} hit a process with "
                f"{strike.connections} gRPC connections"
            )


def _is_node_lost(record: Record, strikes: Sequence[Strike]) -> bool:
    return any(
        COSTS[strike.fault].node
        and strike.node == record.node
        and _is_near(strike, record.begin_s, record.end_s)
        for strike in strikes
    )


def _sequences_that_go_on(records: Iterable[Record]) -> Iterator[str]:
    """A sequence that has failed is over: nothing of it is answered well afterwards."""
    failed_s: dict[tuple[str, int], float] = {}
    for record in sorted(records, key=lambda each: each.end_s):
        key = (record.client, record.sequence)
        if not record.sequence:
            continue
        if key in failed_s:
            yield f"sequence {record.sequence} of {record.client} went on after it had failed"
        if record.kind != OK:
            failed_s[key] = record.end_s


def _slow(records: Iterable[Record], strikes: Sequence[Strike]) -> Iterator[str]:
    late = []
    for record in records:
        took_s = record.end_s - record.begin_s
        if record.kind != OK or took_s <= USUAL_S:
            continue
        more_s = [
            COSTS[strike.fault].delay_s + strike.over_s - strike.begin_s
            for strike in strikes
            if not strike.left_out and _is_near(strike, record.begin_s, record.end_s)
        ]
        if took_s > USUAL_S + sum(more_s):
            late.append(f"{record.request_id} of {record.client} took {took_s:.1f} s")
    if late:
        yield f"{len(late)} answers were late: {', '.join(late[:_SHOWN])}"


def _may_fail(control: Control, cost: Cost) -> bool:
    return cost.control or (cost.connections and control.is_cut)


def _controls(controls: Iterable[Control], strikes: Sequence[Strike]) -> Iterator[str]:
    for control in controls:
        if control.error and not any(
            _may_fail(control, COSTS[strike.fault])
            and not strike.left_out
            and _is_near(strike, control.begin_s, control.end_s)
            for strike in strikes
        ):
            yield f"{control.what}: {control.error}"
