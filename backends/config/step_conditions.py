# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Steps of an ensemble that run on a condition.

Triton has no such thing; an ensemble opts in by ``parameters`` of its config. The key
``condition.<index of the step>`` has one of four values: ``<tensor>``, a BOOL tensor of the
ensemble that has to be true, ``!<tensor>``, which has to be false, and the same with
``parameter:<name>``, a parameter of the request that counts as false when it is not given.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

PREFIX: Final = "condition."
_PARAMETER: Final = "parameter:"


@dataclass(frozen=True, slots=True)
class StepCondition:
    """When a step runs.

    Attributes:
        tensor: Ensemble tensor that decides; empty when a parameter does.
        parameter: Request parameter that decides; empty when a tensor does.
        expected: What it has to be.
    """

    tensor: str
    parameter: str
    expected: bool


def condition_of(parameters: Mapping[str, str], step: int) -> StepCondition | None:
    """Return the condition of a step, or None when it always runs."""
    text = parameters.get(f"{PREFIX}{step}")
    return None if text is None else parse_condition(text)


def parse_condition(text: str) -> StepCondition:
    """Return the condition that a parameter's value stands for."""
    name = text.removeprefix("!")
    expected = name == text
    if name.startswith(_PARAMETER):
        return StepCondition("", name.removeprefix(_PARAMETER), expected)
    return StepCondition(name, "", expected)


def condition_complaints(
    ensemble: str, parameters: Mapping[str, str], step_count: int
) -> Iterator[str]:
    """Yield what is wrong with the parameters that ask for conditions, apart from tensors."""
    for key, text in parameters.items():
        if not key.startswith(PREFIX):
            continue
        index = key.removeprefix(PREFIX)
        if not index.isdecimal() or str(int(index)) != index or int(index) >= step_count:
            yield (
                f"parameter '{key}' of ensemble '{ensemble}' names no step; expected "
                f"'{PREFIX}<index>' with an index from 0 to {step_count - 1}"
            )
        elif text.removeprefix("!") in {"", _PARAMETER}:
            yield (
                f"parameter '{key}' of ensemble '{ensemble}' has value '{text}'; expected a tensor "
                f"of the ensemble or '{_PARAMETER}<name>', with '!' in front to negate it"
            )
