# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""The tensors of one iteration of an ensemble's request."""

from collections.abc import Iterable

from backends.api.request import Tensor
from deployments.ensembles.graph import Plan
from deployments.ensembles.step import Origin

_UNSET: tuple[Tensor | None, Origin] = (None, None)


class StepTensors:
    """Tensors by number; each is dropped after its last reading.

    Args:
        plan: The steps that run.

    Attributes:
        missing: Wanted outputs that are not set.
        open_uses: Readings to come of the tensors that are set.
    """

    __slots__ = ("_left", "_plan", "_slots", "_waiting", "missing", "open_uses")

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._slots: list[tuple[Tensor | None, Origin] | None] = [None] * len(plan.uses)
        self._left = list(plan.uses)
        self._waiting = list(plan.waiting)
        self.missing = len(plan.wanted)
        self.open_uses = 0

    def set(self, values: Iterable[tuple[int, Tensor | None]], origin: Origin) -> list[int]:
        """Set tensors and return the steps that have all they read now."""
        plan, waiting = self._plan, self._waiting
        ready: list[int] = []
        for number, tensor in values:
            uses = plan.uses[number]
            if not uses:
                continue
            self._slots[number] = (tensor, origin)
            self.open_uses += uses
            for index in plan.readers[number]:
                waiting[index] -= 1
                if waiting[index] == 0:
                    ready.append(index)
            if number in plan.wanted:
                self.missing -= 1
        return ready

    def use(self, number: int) -> tuple[Tensor | None, Origin]:
        """Return a tensor for one of its readings."""
        slot = self._slots[number] or _UNSET
        self._left[number] -= 1
        self.open_uses -= 1
        if self._left[number] == 0:
            self._slots[number] = None
        return slot
