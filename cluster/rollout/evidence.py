# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""What routers have told of the versions of rollouts: since they began, and since the last step."""

import logging

import msgspec

from deployments.contracts.arm_report import ArmReport, decode_arms

_log = logging.getLogger(__name__)

Key = tuple[str, int]


class Evidence:
    """Counts by model key and version.

    Nothing is kept of models without a rollout; a late report of one is dropped.
    """

    def __init__(self) -> None:
        self._totals: dict[Key, ArmReport] = {}
        self._steps: dict[Key, ArmReport] = {}
        self._models: set[str] = set()

    def begin(self, key: str) -> None:
        """Count for a model, anew."""
        self.forget(key)
        self._models.add(key)

    def forget(self, key: str) -> None:
        """Count for a model no longer."""
        self._models.discard(key)
        for counts in (self._totals, self._steps):
            for at in [at for at in counts if at[0] == key]:
                del counts[at]

    def begin_step(self, key: str) -> None:
        """Have what is counted from now on belong to another step."""
        for at in [at for at in self._steps if at[0] == key]:
            del self._steps[at]

    def take(self, report: bytes) -> None:
        """Take what a router tells; what cannot be read is logged and left out."""
        try:
            rows = decode_arms(report)
        except msgspec.MsgspecError as error:
            _log.warning("a router's report of rollouts cannot be read: %s", error)
            return
        for row in rows:
            if row.key in self._models:
                self.total(row.key, row.version).add(row)
                self.step(row.key, row.version).add(row)

    def total(self, key: str, version: int) -> ArmReport:
        """Return the counts of a version since its rollout began."""
        return self._of(self._totals, key, version)

    def step(self, key: str, version: int) -> ArmReport:
        """Return the counts of a version since the last step of its rollout."""
        return self._of(self._steps, key, version)

    @staticmethod
    def _of(counts: dict[Key, ArmReport], key: str, version: int) -> ArmReport:
        found = counts.get((key, version))
        if found is None:
            found = counts[key, version] = ArmReport(key, version)
        return found
