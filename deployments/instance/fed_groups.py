# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Batches of sequences on their way to the model: what they are fed, and in how many executions."""

from collections import deque

from deployments.instance.outbox import AnyWork
from deployments.scheduling.scheduler import Decision
from deployments.scheduling.sequence_feeder import SequenceFeeder


class FedGroups:
    """What is left of a batch whose requests cannot all be executed together."""

    __slots__ = ("_feeder", "_left")

    def __init__(self, feeder: SequenceFeeder[AnyWork]) -> None:
        self._feeder = feeder
        self._left: deque[Decision[AnyWork]] = deque()

    @property
    def is_empty(self) -> bool:
        """Whether all of the last batch was handed out."""
        return not self._left

    def begin(self, decision: Decision[AnyWork]) -> Decision[AnyWork]:
        """Feed a batch, and hand out what of it is executed first."""
        feeder, row_count = self._feeder, decision.row_count
        for works, slots in feeder.groups(decision.batch, decision.slots):
            rows = feeder.feed(works, slots, row_count)
            self._left.append(Decision(works, rows=rows, slots=slots))
        return self._left.popleft()._replace(dropped=decision.dropped)

    def next(self) -> Decision[AnyWork]:
        """Hand out what is executed next."""
        return self._left.popleft()

    def executed(self, decision: Decision[AnyWork]) -> None:
        """Learn that what was handed out has been executed."""
        self._feeder.executed(decision.batch, decision.slots)
