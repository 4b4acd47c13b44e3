# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Reads a rollout from the JSON of the API; strict, bounded, with errors that say what to do. Pure.

The fields of the body are those of `deployments.rollouts.spec`, weights in percent.
"""

import math
from collections.abc import Mapping
from itertools import pairwise
from typing import Annotated, Any, ClassVar, Final, Self

from msgspec import UNSET, Meta, UnsetType, field

from deployments.rollouts.spec import (
    DEFAULT_METRICS,
    MOST_ARMS,
    MOST_CONDITIONS,
    MOST_DURATION_S,
    MOST_METRICS,
    MOST_NAME_CHARS,
    MOST_RULES,
    MOST_STEPS,
    MOST_VALUE_CHARS,
    MOST_VALUES,
    STABLE,
    TOTAL_WEIGHT,
    Analysis,
    Arm,
    AtTimeout,
    Condition,
    How,
    Kind,
    Metric,
    MetricKind,
    RampPoint,
    Rollout,
    Rule,
    Shadow,
    Source,
    Step,
    Sticky,
)
from deployments.settings.documents import (
    Part,
    Section,
    SectionError,
    several,
    without_nulls,
)

_PERCENT: Final = 100
_NAMED: Final = frozenset((Source.HEADER, Source.PARAMETER))
_DEFAULT_TOLERANCE: Final[Mapping[MetricKind, float]] = {
    MetricKind.ERRORS: 0.01,
    MetricKind.P50: 0.1,
    MetricKind.P95: 0.1,
    MetricKind.P99: 0.25,
    MetricKind.QUEUE: 0.5,
    MetricKind.CUSTOM: 0.01,
}

_Version = Annotated[int, Meta(ge=1, le=(1 << 63) - 1)]
_Count = Annotated[int, Meta(ge=0, le=1_000_000_000)]
_Seconds = Annotated[float, Meta(ge=0, le=MOST_DURATION_S)]
_Period = Annotated[float, Meta(ge=1, le=MOST_DURATION_S)]
_Name = Annotated[str, Meta(min_length=1, max_length=MOST_NAME_CHARS)]
_Text = Annotated[str, Meta(max_length=MOST_VALUE_CHARS)]


class _Weight(int):
    """Basis points, given as a percentage."""

    expected: ClassVar[str] = "a percentage from 0 to 100 with at most two decimals"

    @classmethod
    def read(cls, value: Any) -> Self:
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        if is_number and 0 <= value <= _PERCENT:
            points = value * (TOTAL_WEIGHT // _PERCENT)
            if math.isclose(points, round(points), abs_tol=1e-6):
                return cls(round(points))
        raise ValueError(cls.expected)


class _Place(Section, frozen=True):
    """Where in a request a value is found."""

    source: Annotated[Source, Meta(title="source")]
    name: _Name = ""

    def check(self) -> None:
        if self.source in _NAMED and not self.name:
            raise SectionError("'name' is missing", f"say which {self.source.value}")
        if self.source not in _NAMED and self.name:
            raise SectionError(f"a {self.source.value} has no name", "remove it", "name")

    @property
    def key(self) -> str:
        """The name as it is compared."""
        return self.name.lower() if self.source is Source.HEADER else self.name


class _Condition(_Place, frozen=True):
    any_texts: ClassVar[frozenset[str]] = frozenset(("values",))

    how: Annotated[How, Meta(title="comparison")] = How.EXACT
    values: _Text | Annotated[tuple[_Text, ...], Meta(min_length=1, max_length=MOST_VALUES)] = ()

    def check(self) -> None:
        super().check()
        if self.how is How.PRESENT and self.values != ():
            raise SectionError("'present' compares with nothing", "remove it", "values")
        if self.how is not How.PRESENT and self.values == ():
            raise SectionError("'values' is missing", "say which values are meant")


class _Rule(Section, frozen=True):
    arm: _Name
    conditions: Annotated[tuple[_Condition, ...], Meta(min_length=1, max_length=MOST_CONDITIONS)]

    def rule(self) -> Rule:
        found = [Condition(x.source, x.key, x.how, several(x.values)) for x in self.conditions]
        return Rule(self.arm, tuple(found))


class _Step(Section, frozen=True):
    weight: _Weight
    hold_s: _Seconds = 300.0
    min_samples: _Count = 500


class _Point(Section, frozen=True):
    at_s: _Seconds
    weight: _Weight


class _Arm(Section, frozen=True):
    name: _Name
    version: _Version
    weight: _Weight


class _Metric(Section, frozen=True):
    kind: Annotated[MetricKind, Meta(title="kind")]
    tolerance: float | UnsetType = UNSET
    floor_us: _Count | UnsetType = UNSET
    family: _Name = ""
    is_good: bool | UnsetType = UNSET

    @property
    def is_custom(self) -> bool:
        return self.kind is MetricKind.CUSTOM

    @property
    def is_share(self) -> bool:
        return self.is_custom or self.kind is MetricKind.ERRORS

    def check(self) -> None:
        least, most = (0.0001, 0.5) if self.is_share else (0.01, 10)
        if not isinstance(self.tolerance, UnsetType) and not least <= self.tolerance <= most:
            raise SectionError(
                f"a number from {least:g} to {most:g}", field="tolerance", shows_value=True
            )
        if self.is_custom and not self.family:
            raise SectionError("'family' is missing", "say which counter of the model is compared")
        fields = {"floor_us": self.is_share, "family": not self.is_custom}
        for name, is_foreign in (fields | {"is_good": not self.is_custom}).items():
            if is_foreign and getattr(self, name) not in (UNSET, ""):
                raise SectionError(f"metric '{self.kind.value}' has no '{name}'", "remove it", name)

    def metric(self) -> Metric:
        tolerance, floor_us = self.tolerance, self.floor_us
        return Metric(
            self.kind,
            _DEFAULT_TOLERANCE[self.kind] if isinstance(tolerance, UnsetType) else tolerance,
            0 if isinstance(floor_us, UnsetType) else floor_us,
            self.family,
            self.is_good is True,
        )


class _Analysis(Section, frozen=True):
    metrics: Annotated[tuple[_Metric, ...], Meta(max_length=MOST_METRICS)] = ()
    period_s: _Period = 10.0
    error_rate: Annotated[float, Meta(ge=1e-6, le=0.2)] = 0.005
    timeout_s: _Period = 3600.0
    at_timeout: Annotated[AtTimeout, Meta(title="end")] = AtTimeout.ROLL_BACK

    def check(self) -> None:
        if len({each.family or each.kind.value for each in self.metrics}) < len(self.metrics):
            raise SectionError("each metric may stand once", "remove the others", "metrics")

    def analysis(self) -> Analysis:
        metrics = tuple(each.metric() for each in self.metrics) or DEFAULT_METRICS
        return Analysis(metrics, self.period_s, self.error_rate, self.timeout_s, self.at_timeout)


class _Shadow(Section, frozen=True):
    version: _Version
    weight: _Weight = _Weight(TOTAL_WEIGHT)
    rtol: Annotated[float, Meta(ge=0, le=1e6)] = 1e-3
    atol: Annotated[float, Meta(ge=0, le=1e300)] = 1e-5
    mismatches_per_minute: Annotated[int, Meta(ge=0, le=10_000)] = 60
    max_pending: Annotated[int, Meta(ge=1, le=10_000)] = 256


class _Rollout(Section, frozen=True, kw_only=True, tag_field="kind"):
    """What all kinds have."""

    rules: Annotated[tuple[_Rule, ...], Meta(max_length=MOST_RULES)] = ()
    sticky: _Place | UnsetType = UNSET
    salt: _Name = ""

    @property
    def arms(self) -> tuple[Arm, ...]:
        """The stable one first."""
        raise NotImplementedError

    @property
    def own(self) -> dict[str, Any]:
        """Fields of the rollout that this kind alone has."""
        raise NotImplementedError

    def check(self) -> None:
        known = [arm.name for arm in self.arms]
        for at, rule in enumerate(self.rules):
            if rule.arm not in known:
                raise SectionError(
                    f"the name of an arm ({', '.join(known)})",
                    field=f"rules[{at}].arm",
                    shows_value=True,
                )
        versions = self.rollout().versions
        if len(set(versions)) < len(versions):
            given = ", ".join(map(str, versions))
            raise SectionError(f"the versions of a rollout must differ, got {given}")

    def rollout(self) -> Rollout:
        """Return what is asked for."""
        sticky = self.sticky
        return Rollout(
            kind=Kind(str(self.__struct_config__.tag)),
            arms=self.arms,
            rules=tuple(each.rule() for each in self.rules),
            sticky=None if isinstance(sticky, UnsetType) else Sticky(sticky.source, sticky.key),
            salt=self.salt,
            **self.own,
        )


class _TwoArms(_Rollout, frozen=True, kw_only=True):
    """A rollout of a candidate beside a stable version."""

    candidate_name: ClassVar[str]

    stable: _Version
    candidate: _Version

    @property
    def arms(self) -> tuple[Arm, ...]:
        stable = Arm(STABLE, self.stable, TOTAL_WEIGHT)
        return stable, Arm(self.candidate_name, self.candidate, 0)


class _Canary(_TwoArms, frozen=True, kw_only=True, tag=Kind.CANARY.value):
    candidate_name: ClassVar[str] = "canary"

    steps: Annotated[tuple[_Step, ...], Meta(min_length=1, max_length=MOST_STEPS)] = (
        _Step(_Weight(500)),
        _Step(_Weight(2500)),
        _Step(_Weight(5000)),
    )
    analysis: _Analysis = _Analysis()

    @property
    def own(self) -> dict[str, Any]:
        steps = tuple(Step(int(x.weight), x.hold_s, x.min_samples) for x in self.steps)
        return {"steps": steps, "analysis": self.analysis.analysis()}

    def check(self) -> None:
        super().check()
        if any(after.weight <= before.weight for before, after in pairwise(self.steps)):
            raise SectionError("the weights must grow from step to step", field="steps")
        if not self.steps[0].weight:
            raise SectionError("it must be more than 0", field="steps[0].weight")
        hold_s = sum(step.hold_s for step in self.steps)
        if hold_s >= self.analysis.timeout_s:
            raise SectionError(
                "analysis.timeout_s must be longer than all steps are held together, got "
                f"{self.analysis.timeout_s:g} for {hold_s:g} s of steps"
            )


class _Ramp(_TwoArms, frozen=True, kw_only=True, tag=Kind.RAMP.value):
    candidate_name: ClassVar[str] = "ramp"

    points: Annotated[tuple[_Point, ...], Meta(min_length=1, max_length=MOST_STEPS)]
    analysis: _Analysis | UnsetType = UNSET

    @property
    def own(self) -> dict[str, Any]:
        analysis = self.analysis
        return {
            "points": tuple(RampPoint(x.at_s, int(x.weight)) for x in self.points),
            "analysis": None if isinstance(analysis, UnsetType) else analysis.analysis(),
        }

    def check(self) -> None:
        super().check()
        if any(after.at_s <= before.at_s for before, after in pairwise(self.points)):
            raise SectionError("they must be in the order of their times", field="points")
        if any(after.weight < before.weight for before, after in pairwise(self.points)):
            raise SectionError("the weights must not fall", field="points")


class _BlueGreen(_TwoArms, frozen=True, kw_only=True, tag=Kind.BLUE_GREEN.value):
    candidate_name: ClassVar[str] = "green"

    warm_s: _Seconds = 10.0
    keep_s: _Seconds = 600.0

    @property
    def own(self) -> dict[str, Any]:
        return {"warm_s": self.warm_s, "keep_s": self.keep_s}


class _Mirrored(_Rollout, frozen=True, kw_only=True, tag=Kind.SHADOW.value):
    stable: _Version
    shadow: _Shadow

    @property
    def arms(self) -> tuple[Arm, ...]:
        return (Arm(STABLE, self.stable, TOTAL_WEIGHT),)

    @property
    def own(self) -> dict[str, Any]:
        given = self.shadow
        weight, tolerances = int(given.weight), (given.rtol, given.atol)
        bounds = given.mismatches_per_minute, given.max_pending
        return {"shadow": Shadow(given.version, weight, *tolerances, *bounds)}


class _Split(_Rollout, frozen=True, kw_only=True, tag=Kind.AB.value):
    given: Annotated[tuple[_Arm, ...], Meta(min_length=1, max_length=MOST_ARMS)] = field(
        name="arms"
    )

    @property
    def arms(self) -> tuple[Arm, ...]:
        return tuple(Arm(each.name, each.version, int(each.weight)) for each in self.given)

    @property
    def own(self) -> dict[str, Any]:
        return {}

    def check(self) -> None:
        if len({each.name for each in self.given}) < len(self.given):
            raise SectionError("their names must differ", field="arms")
        total = sum(each.weight for each in self.given)
        if total != TOTAL_WEIGHT:
            raise SectionError(
                f"the weights must be 100 together, got {total / 100:g}", field="arms"
            )
        super().check()


_Body = _Canary | _Ramp | _BlueGreen | _Mirrored | _Split


def read_rollout(body: object) -> Rollout:
    """Read a rollout.

    Args:
        body: What a JSON parser made of the request's body; fields that are null are not given.

    Raises:
        InvalidArgumentError: A field is missing, unknown or out of bounds, or fields do not fit
            each other.
    """
    given: _Rollout = Part(without_nulls(body), "", "rollout").read(_Body)  # type: ignore[arg-type]
    return given.rollout()
