# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Why a request is refused at the door, what its client is told, and how often that was. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType
from typing import Final

from backends.api.errors import UnavailableError

_NS_PER_MS: Final = 1e6
_NS_PER_S: Final = 1e9
# What clients are told to wait at least, and at most.
_LEAST_RETRY_S: Final = 0.05
_MOST_RETRY_S: Final = 60.0


class Reason(StrEnum):
    """The values are a metric's label."""

    QUEUE = "queue_time"
    PRIORITY = "priority"
    DEADLINE = "deadline"
    PLACES = "places"


_WHY: Final[Mapping[Reason, str]] = {
    Reason.QUEUE: (
        "its requests would wait about {0:.1f} ms, the target is {1:.1f} ms; try again later, or"
        " give the model more instances"
    ),
    Reason.PRIORITY: (
        "requests of a higher priority take all it can do (they wait about {0:.1f} ms, the target"
        " is {1:.1f} ms); try again later, or with a higher priority"
    ),
    Reason.DEADLINE: (
        "the answer would take about {0:.1f} ms, the request's deadline is in {1:.1f} ms; try again"
        " later, or with a longer deadline"
    ),
    Reason.PLACES: (
        "{0:.0f} requests of all models are under way in this ingress, of which the model may have"
        " a place up to {1:.0f} (--admission-max-requests); try again later, or have more ingresses"
    ),
}


@dataclass(frozen=True, slots=True)
class Refusal:
    """One refusal.

    Attributes:
        model: The model's name.
        reason: Why.
        estimate: What was expected, nanoseconds or places.
        bound: What would have been allowed.
        retry_ns: After how long there may be room.
    """

    model: str
    reason: Reason
    estimate: float
    bound: float
    retry_ns: float

    def error(self) -> UnavailableError:
        """Return what the client is told."""
        # Places are counted, all else is time.
        unit = 1.0 if self.reason is Reason.PLACES else _NS_PER_MS
        why = _WHY[self.reason].format(self.estimate / unit, self.bound / unit)
        retry_s = min(max(self.retry_ns / _NS_PER_S, _LEAST_RETRY_S), _MOST_RETRY_S)
        return UnavailableError(f"model '{self.model}' is overloaded: {why}", retry_after_s=retry_s)


class Refusals:
    """Counts refusals by reason.

    Attributes:
        counts: How many there were, for those that there were.
    """

    __slots__ = ("_counts",)

    def __init__(self) -> None:
        self._counts: dict[Reason, int] = {}

    @property
    def counts(self) -> Mapping[Reason, int]:  # noqa: D102 - described above
        return MappingProxyType(self._counts)

    def count(self, reason: Reason) -> None:
        """Count one."""
        self._counts[reason] = self._counts.get(reason, 0) + 1
