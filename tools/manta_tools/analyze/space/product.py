# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""The space of candidates: every choice of every dimension with every other."""

import itertools
import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

from manta_tools.analyze.records import Candidate, Setting, Value
from manta_tools.analyze.space.dimensions import Dimension

# The index of a choice, for each dimension.
Point = tuple[int, ...]

MAX_BATCH_SIZE: Final = "max_batch_size"
INSTANCES: Final = "instance_group.count"
_GROUP_COUNT: Final = re.compile(r"instance_group\.\d+\.count")


@dataclass(frozen=True, slots=True)
class Served:
    """What a model's config says before anything is changed.

    Attributes:
        max_batch_size: 0 for no batching.
        instances: Of all groups together, at least 1.
        groups: How many instance groups there are, at least 1.
        composing: Models that it calls: the steps of an ensemble, or those of a BLS model.
        is_ensemble: Whether it has no instances of its own, and its batches are its steps'.
    """

    max_batch_size: int = 0
    instances: int = 1
    groups: int = 1
    composing: tuple[str, ...] = ()
    is_ensemble: bool = False


@dataclass(frozen=True, slots=True)
class Space:
    """All candidates.

    Attributes:
        dimensions: In the order in which they are walked through, the slowest first.
        served: Every model that has a setting, by name.
    """

    dimensions: tuple[Dimension, ...]
    served: Mapping[str, Served] = field(default_factory=dict)

    @property
    def size(self) -> int:
        """How many candidates there are, without the default."""
        return math.prod(self.shape)

    @property
    def shape(self) -> Point:
        """How many choices each dimension has."""
        return tuple(len(each.choices) for each in self.dimensions)

    def points(self) -> Iterator[Point]:
        """Yield all points, the last dimension first."""
        return itertools.product(*map(range, self.shape))

    def neighbours(self, point: Point, distance: int = 1) -> Iterator[Point]:
        """Yield the points that differ in one dimension, by so many choices."""
        for index, length in enumerate(self.shape):
            for step in (distance, -distance):
                moved = point[index] + step
                if 0 <= moved < length:
                    yield (*point[:index], moved, *point[index + 1 :])

    def default(self) -> Candidate:
        """Return the candidate that changes nothing."""
        return Candidate(tuple(Setting(model) for model in sorted(self.served)))

    def candidate(self, point: Point) -> Candidate:
        """Return the candidate at a point.

        An ensemble that has a step whose batches change takes the smallest of its steps': a larger
        one would not load.
        """
        values: dict[str, dict[str, Value]] = {model: {} for model in self.served}
        for dimension, index in zip(self.dimensions, point, strict=True):
            values[dimension.model] |= dict(dimension.choices[index])
        for model, served in self.served.items():
            is_batched_ensemble = served.is_ensemble and served.max_batch_size > 0
            if is_batched_ensemble and any(
                MAX_BATCH_SIZE in values.get(step, {}) for step in served.composing
            ):
                values[model][MAX_BATCH_SIZE] = self._batch_of_steps(served, values)
        return Candidate(
            tuple(Setting(model, tuple(sorted(values[model].items()))) for model in sorted(values))
        )

    def max_batch_size(self, candidate: Candidate, model: str) -> int:
        """Return the largest batch of a model, at least 1."""
        value = _value(candidate, model, MAX_BATCH_SIZE)
        return max(1, self.served[model].max_batch_size if value is None else int(value))

    def instances(self, candidate: Candidate, model: str) -> int:
        """Return the instances of a model, at least 1."""
        served = self.served[model]
        of_each = _value(candidate, model, INSTANCES)
        if of_each is not None:
            return max(1, int(of_each) * served.groups)
        return sum(_counts(candidate, model)) or served.instances

    def appetite(self, candidate: Candidate, model: str) -> int:
        """Return how many requests of one inference a model and those it calls execute at once.

        Of a pipeline it is that of its widest part.
        """
        parts = [model, *self.served[model].composing]
        return max(
            self.max_batch_size(candidate, part) * self.instances(candidate, part)
            for part in parts
            if part in self.served
        )

    def _batch_of_steps(self, served: Served, values: Mapping[str, Mapping[str, Value]]) -> int:
        return min(
            int(values[step].get(MAX_BATCH_SIZE, self.served[step].max_batch_size))
            for step in served.composing
            if step in self.served
        )


def _values(candidate: Candidate, model: str) -> dict[str, Value]:
    for setting in candidate.settings:
        if setting.model == model:
            return dict(setting.values)
    return {}


def _value(candidate: Candidate, model: str, name: str) -> Value | None:
    return _values(candidate, model).get(name)


def _counts(candidate: Candidate, model: str) -> Iterator[int]:
    """Yield the instances of groups that are given one by one."""
    for name, value in _values(candidate, model).items():
        if _GROUP_COUNT.fullmatch(name):
            yield int(value)
