# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""What was captured, and what came of sending it again. Pure."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

from backends.api.errors import TritonError
from backends.api.request import Tensor
from deployments.captures.records import CaptureRecord, KeptResponse
from deployments.rollouts.comparing import Mismatch, Tolerance, compare

ANSWERED: Final = "ok"
_SHOWN: Final = 20


class Verdict(StrEnum):
    """What came of a record."""

    SAME = "same"
    DIFFERENT = "different"
    FAILED = "failed"
    # It was answered, and what it was answered then was not kept.
    NOT_COMPARED = "not compared"
    # Its inputs were not kept.
    NOT_SENT = "not sent"


@dataclass(frozen=True, slots=True)
class Replayed:
    """A record that was sent again.

    Attributes:
        responses: What came; empty after an error.
        outcome: ``ok`` or the error's code.
        latency_us: Until the last response.
    """

    record: CaptureRecord
    responses: Sequence[KeptResponse] = ()
    outcome: str = ANSWERED
    message: str = ""
    latency_us: int = 0


def is_sendable(record: CaptureRecord) -> bool:
    """Whether a record has all of its request."""
    return record.request is not None and not any(x.omitted for x in record.request.inputs)


def judge(replayed: Replayed, tolerance: Tolerance) -> tuple[Verdict, str]:
    """Return what came of a record, and why it is no `Verdict.SAME`.

    A request that failed then and fails now is the same, whatever the texts say.
    """
    record = replayed.record
    if replayed.outcome != ANSWERED:
        if record.outcome != ANSWERED:
            return Verdict.SAME, ""
        return Verdict.FAILED, f"{replayed.outcome}: {replayed.message}"
    if record.outcome != ANSWERED:
        return Verdict.DIFFERENT, f"it is answered, and failed then: {record.outcome}"
    kept = [tensor for response in record.responses for tensor in response.outputs]
    if not kept or record.is_truncated or any(tensor.omitted for tensor in kept):
        return Verdict.NOT_COMPARED, "not all of the answer was kept"
    if len(record.responses) != len(replayed.responses):
        count = len(replayed.responses)
        return Verdict.DIFFERENT, f"{count} responses, expected {len(record.responses)}"
    for wanted, given in zip(record.responses, replayed.responses, strict=True):
        try:
            found = compare(_tensors(wanted), _tensors(given), tolerance)
        except (TritonError, ValueError) as error:
            found = Mismatch("", f"cannot be compared: {error}")
        if found is not None:
            return Verdict.DIFFERENT, str(found)
    return Verdict.SAME, ""


def _tensors(response: KeptResponse) -> list[Tensor]:
    return [
        Tensor(each.name, each.datatype, each.shape, memoryview(each.data))
        for each in response.outputs
    ]


def lanes(records: Iterable[CaptureRecord], count: int) -> list[list[CaptureRecord]]:
    """Deal records out to workers, each in the order of time; a sequence goes to one of them."""
    found: dict[int, list[CaptureRecord]] = defaultdict(list)
    for at, record in enumerate(sorted(records, key=lambda each: each.time_s)):
        correlation_id = record.request.correlation_id if record.request else 0
        found[(hash(correlation_id) if correlation_id else at) % count].append(record)
    return list(found.values())


@dataclass(slots=True)
class Summary:
    """What came of all of them.

    Attributes:
        reasons: Of records that are not the same: id and why; the first of them.
        then_us: Latencies when they were captured, of those that were answered both times.
    """

    counts: Counter[Verdict] = field(default_factory=Counter)
    reasons: list[tuple[str, Verdict, str]] = field(default_factory=list)
    then_us: list[int] = field(default_factory=list)
    now_us: list[int] = field(default_factory=list)

    def add(self, replayed: Replayed, tolerance: Tolerance) -> None:
        """Take one that was sent."""
        verdict, reason = judge(replayed, tolerance)
        self.counts[verdict] += 1
        if reason and len(self.reasons) < _SHOWN and verdict is not Verdict.NOT_COMPARED:
            self.reasons.append((replayed.record.id, verdict, reason))
        if replayed.outcome == replayed.record.outcome == ANSWERED:
            self.then_us.append(replayed.record.latency_us)
            self.now_us.append(replayed.latency_us)

    @property
    def is_good(self) -> bool:
        """Whether nothing differs and nothing failed."""
        return not self.counts[Verdict.DIFFERENT] and not self.counts[Verdict.FAILED]
