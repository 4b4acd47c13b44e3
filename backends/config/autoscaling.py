# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""The ``autoscaling.*`` parameters of a model: how many instances it may have, and what decides.

Triton has no such thing. The names and defaults are those of Ray Serve's ``AutoscalingConfig``
where it has the setting, with instances for replicas.
"""

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, fields
from enum import StrEnum
from typing import Any, Final

from backends.api.errors import InvalidArgumentError
from backends.api.model_config import ModelConfig
from backends.config.parameter_family import FamilyParameter, ParameterFamily

PREFIX: Final = "autoscaling."
_MAX_INSTANCES: Final = f"{PREFIX}max_instances"
_MIN_INSTANCES: Final = f"{PREFIX}min_instances"
_TO_ZERO: Final = f"{PREFIX}scale_to_zero_after_s"
# Of one version, by its groups or its load. The controller plans as many in 0.1 s, in which it does
# nothing else; millions would end it.
MOST_INSTANCES: Final = 4096


class Signal(StrEnum):
    """What is held at a target; the values are the parameters' names."""

    ONGOING_REQUESTS = "target_ongoing_requests"
    QUEUE_US = "target_queue_us"
    LATENCY_P95_US = "target_latency_p95_us"


@dataclass(frozen=True, slots=True)
class AutoscalingRules:
    """The bounds, the target and the delays of one model.

    Attributes:
        max_instances: Most instances of a version.
        min_instances: Fewest; 0 lets a version have none while nobody asks for it.
        signal: What is measured.
        target: What it shall be: requests per instance, or microseconds.
        upscale_delay_s: How long more instances have to be wanted before there are more.
        downscale_delay_s: How long fewer have to be wanted before there are fewer.
        scale_to_zero_after_s: How long nobody may have asked for a version that then has no
            instance any more; meaningless unless ``min_instances`` is 0.
        upscaling_factor: The part of the way up that one step goes.
        downscaling_factor: The part of the way down.
    """

    max_instances: int
    min_instances: int = 1
    signal: Signal = Signal.ONGOING_REQUESTS
    target: float = 2.0
    upscale_delay_s: float = 30.0
    downscale_delay_s: float = 600.0
    scale_to_zero_after_s: float = 600.0
    upscaling_factor: float = 1.0
    downscaling_factor: float = 1.0

    def within(self, count: int) -> int:
        """Return the count of instances, at least one, that is allowed and nearest to ``count``."""
        return min(max(count, self.min_instances, 1), self.max_instances)


def _number(
    convert: Callable[[str], float], is_allowed: Callable[[float], bool], expected: str
) -> FamilyParameter:
    def read(text: str) -> float:
        value = convert(text)
        if not is_allowed(value):
            raise ValueError(text)
        return value

    return FamilyParameter(read, expected)


def _from(smallest: float, largest: float = math.inf) -> Callable[[float], bool]:
    return lambda value: smallest <= value <= largest and value < math.inf


_SECONDS = _number(float, _from(0), "a number of seconds, 0 or more")
_FACTOR = _number(float, lambda value: 0 < value <= 1, "a number above 0 and up to 1")
_TARGET = _number(float, lambda value: 0 < value < math.inf, "a number above 0")
_PARAMETERS: Final[Mapping[str, FamilyParameter]] = {
    _MIN_INSTANCES: _number(
        int, _from(0, MOST_INSTANCES), f"a whole number from 0 to {MOST_INSTANCES}"
    ),
    _MAX_INSTANCES: _number(
        int, _from(1, MOST_INSTANCES), f"a whole number from 1 to {MOST_INSTANCES}"
    ),
    **{f"{PREFIX}{signal}": _TARGET for signal in Signal},
    f"{PREFIX}upscale_delay_s": _SECONDS,
    f"{PREFIX}downscale_delay_s": _SECONDS,
    _TO_ZERO: _SECONDS,
    f"{PREFIX}upscaling_factor": _FACTOR,
    f"{PREFIX}downscaling_factor": _FACTOR,
}
_FAMILY: Final = ParameterFamily(PREFIX, _PARAMETERS)


def is_autoscaled(config: ModelConfig) -> bool:
    """Whether the number of a model's instances follows its load."""
    return _MAX_INSTANCES in config.parameters


def scales_by_latency(config: ModelConfig) -> bool:
    """Whether the instances of a model have to note how long each request took."""
    return f"{PREFIX}{Signal.LATENCY_P95_US}" in config.parameters


def read_autoscaling(config: ModelConfig) -> AutoscalingRules | None:
    """Return the rules a config has; None when its instances are as many as its groups say.

    Raises:
        InvalidArgumentError: A parameter is unknown, malformed, out of range, or fits no other.
    """
    given = _FAMILY.given(config.parameters)
    if not given:
        return None
    for complaint in _complaints(config.name, given, is_ensemble=config.has_ensemble_scheduling):
        raise InvalidArgumentError(complaint)
    values = _FAMILY.values(given)
    for signal in Signal:
        if signal in values:
            values |= {"signal": signal, "target": values[signal]}
    values.setdefault("scale_to_zero_after_s", values.get("downscale_delay_s", 600.0))
    known = {field.name for field in fields(AutoscalingRules)}
    return AutoscalingRules(**{name: value for name, value in values.items() if name in known})


def autoscaling_complaints(message: Any) -> Iterator[str]:
    """Yield what is wrong with the ``autoscaling.*`` parameters of an `inference.ModelConfig`."""
    given = _FAMILY.given_in(message)
    is_ensemble = message.HasField("ensemble_scheduling")
    yield from _complaints(message.name, given, is_ensemble=is_ensemble)


def _complaints(name: str, given: Mapping[str, str], *, is_ensemble: bool) -> Iterator[str]:
    yield from _FAMILY.complaints(name, given, is_ensemble=is_ensemble)
    if given and not is_ensemble:
        values = {
            key: _PARAMETERS[key].read(text)
            for key, text in given.items()
            if key in _PARAMETERS and _PARAMETERS[key].is_readable(text)
        }
        yield from _misfits(name, given, values)


def _misfits(name: str, given: Mapping[str, str], values: Mapping[str, float]) -> Iterator[str]:
    """Yield what is wrong with parameters together that are right one by one."""
    if _MAX_INSTANCES not in given:
        yield (
            f"model '{name}' has parameter '{next(iter(given))}' without '{_MAX_INSTANCES}',"
            " expected the most instances it may have"
        )
    least, most = values.get(_MIN_INSTANCES, 1), values.get(_MAX_INSTANCES, math.inf)
    if least > most:
        yield (
            f"model '{name}' has parameter '{_MIN_INSTANCES}' with value {least:g}, expected at"
            f" most '{_MAX_INSTANCES}', which is {most:g}"
        )
    targets = [f"'{PREFIX}{signal}'" for signal in Signal if f"{PREFIX}{signal}" in given]
    if len(targets) > 1:
        yield f"model '{name}' has parameters {' and '.join(targets)}, expected one target"
    if _TO_ZERO in given and least:
        yield (f"model '{name}' has parameter '{_TO_ZERO}', which needs '{_MIN_INSTANCES}' to be 0")
