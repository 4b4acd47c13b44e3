# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Whether a conditional step of an ensemble runs.

The outputs of a step that does not are `SKIPPED`: steps that need one of them are skipped too,
those whose input is optional run without it, and outputs of the ensemble are left out.
"""

from typing import Final

from backends.api.errors import InvalidArgumentError
from backends.api.request import InferenceRequest, Tensor
from backends.config.step_conditions import StepCondition

SKIPPED: Final = Tensor("", "", ())


def is_met(condition: StepCondition, decider: Tensor | None, request: InferenceRequest) -> bool:
    """Tell whether a step runs.

    Args:
        condition: The step's condition.
        decider: The tensor it is about; None for a parameter, or when it was left out.
        request: The ensemble's request.

    Raises:
        InvalidArgumentError: The tensor's elements differ or there is none, or the parameter is no
            bool.
    """
    if condition.parameter:
        value = request.parameters.get(condition.parameter, False)
        if not isinstance(value, bool):
            raise InvalidArgumentError(
                f"parameter '{condition.parameter}' decides whether a step runs and has value "
                f"'{value}', expected a bool"
            )
        return value is condition.expected
    if decider is None or decider is SKIPPED:
        return False
    values = set(bytes(decider.data))
    if len(values) != 1:
        raise InvalidArgumentError(
            f"ensemble tensor '{condition.tensor}' decides whether a step runs and has shape "
            f"{list(decider.shape)} with {'both values' if values else 'no element'}, expected the "
            f"same value in all elements; send such rows in requests of their own"
        )
    return bool(values.pop()) is condition.expected
