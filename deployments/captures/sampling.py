# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Which requests are sampled. Pure."""


class EvenSampler:
    """Takes a fraction of all requests, evenly spread, model by model.

    Args:
        phase: Between 0 and 1: where this process begins, so that several do not all take the same.
    """

    __slots__ = ("_due", "_phase")

    def __init__(self, phase: float = 0.0) -> None:
        self._phase = phase
        self._due: dict[str, float] = {}

    def takes(self, model: str, fraction: float) -> bool:
        """Whether the next request of a model is sampled."""
        due = self._due.get(model, self._phase) + fraction
        if due < 1:
            self._due[model] = due
            return False
        self._due[model] = due - 1
        return True

    def take_back(self, model: str, fraction: float, *, was_taken: bool) -> None:
        """Have a request not count after all; the next ones are sampled as if it had not come."""
        self._due[model] = self._due.get(model, self._phase) - fraction + was_taken
