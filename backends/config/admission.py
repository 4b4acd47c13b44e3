# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""The ``admission.*`` parameters of a model: what of it is refused under overload.

Triton has no such thing.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from backends.api.errors import InvalidArgumentError
from backends.api.model_config import ModelConfig
from backends.config.parameter_family import FamilyParameter, ParameterFamily

PREFIX: Final = "admission."
_SWITCH: Final = {"on": True, "off": False}
_MOST_US: Final = 3_600_000_000
_MOST_PRIORITY: Final = 100


@dataclass(frozen=True, slots=True)
class ModelAdmission:
    """What one model says; None where the server's options count.

    Attributes:
        is_on: Whether its requests are admitted by queue time.
        target_queue_us: Mean queue time that is kept under overload; 0 is what a request takes
            that does not wait.
        burst_us: Queue time up to which nothing is refused, at least.
        priority: Of the model among others; 1 is the highest, and higher ones are refused first
            where an ingress runs out of places.
    """

    is_on: bool | None = None
    target_queue_us: int | None = None
    burst_us: int | None = None
    priority: int = 1


def _whole(text: str, least: int, most: int) -> int:
    value = int(text)
    if not least <= value <= most:
        raise ValueError(text)
    return value


def _switch(text: str) -> bool:
    if text not in _SWITCH:
        raise ValueError(text)
    return _SWITCH[text]


_PARAMETERS: Final[Mapping[str, FamilyParameter]] = {
    f"{PREFIX}mode": FamilyParameter(_switch, "on or off"),
    f"{PREFIX}target_queue_us": FamilyParameter(
        lambda text: _whole(text, 0, _MOST_US), f"a whole number from 0 to {_MOST_US}"
    ),
    f"{PREFIX}burst_us": FamilyParameter(
        lambda text: _whole(text, 1, _MOST_US), f"a whole number from 1 to {_MOST_US}"
    ),
    f"{PREFIX}priority": FamilyParameter(
        lambda text: _whole(text, 1, _MOST_PRIORITY), f"a whole number from 1 to {_MOST_PRIORITY}"
    ),
}
_FAMILY: Final = ParameterFamily(PREFIX, _PARAMETERS)


def read_admission(config: ModelConfig) -> ModelAdmission | None:
    """Return what a config says; None when it says nothing.

    Raises:
        InvalidArgumentError: A parameter is unknown, malformed or out of range.
    """
    given = _FAMILY.given(config.parameters)
    if not given:
        return None
    for complaint in _FAMILY.complaints(config.name, given, is_ensemble=False):
        raise InvalidArgumentError(complaint)
    values = _FAMILY.values(given)
    if "mode" in values:
        values["is_on"] = values.pop("mode")
    return ModelAdmission(**values)


def admission_complaints(message: Any) -> Iterator[str]:
    """Yield what is wrong with the ``admission.*`` parameters of an `inference.ModelConfig`."""
    # An ensemble has a queue time too: that of its steps.
    yield from _FAMILY.complaints(message.name, _FAMILY.given_in(message), is_ensemble=False)
