# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Which optimization profile a batch runs with.

Triton: tensorrt_backend/src/instance_state.cc ModelInstanceState::GetMostOptimizedProfile,
EvaluateTensorRTContext; src/tensorrt_utils.cc ValidateDimension
"""

import logging
from collections.abc import Mapping, Sequence

from backends.api.errors import InvalidArgumentError
from backends.tensorrt.engine import Limits

logger = logging.getLogger(__name__)

# Dimensions of what is fed, or the values of shape tensors, by the name of the input.
Given = Mapping[str, Sequence[int]]
Profile = Mapping[str, Limits]


def choose(profiles: Mapping[int, Profile], given: Given, instance: str) -> int:
    """Return the index of the profile whose best shapes are nearest, among those that fit.

    Args:
        profiles: Those the instance may use, by index, in its order.
        given: What is fed.
        instance: Name of the instance, for the log.
    """
    fitting = {
        index: sum(_distance(limits.best, given[name]) for name, limits in profile.items())
        for index, profile in profiles.items()
        if all(
            name in given and misfit(limits, given[name]) is None
            for name, limits in profile.items()
        )
    }
    if fitting:
        return min(fitting, key=lambda index: fitting[index])
    first = next(iter(profiles))
    logger.warning(
        "unable to find a TensorRT optimization profile of '%s' for %s; profile %d is tried",
        instance,
        dict(given),
        first,
    )
    return first


def check(profile: Profile, given: Given, instance: str) -> None:
    """Check that what is fed lies within a profile.

    Raises:
        InvalidArgumentError: It does not, or an input is missing.
    """
    for name, limits in profile.items():
        if name not in given:
            raise InvalidArgumentError(
                "failed to specify the dimensions of all input tensors or values of all input "
                f"shape tensors: '{instance}' got no input '{name}'"
            )
        details = misfit(limits, given[name])
        if details is not None:
            raise InvalidArgumentError(
                f"request specifies invalid shape for input '{name}' for {instance}. Error "
                f"details: {details}"
            )


def misfit(limits: Limits, given: Sequence[int]) -> str | None:
    """Return in Triton's words why dimensions, or values, are not within limits; None if so."""
    if len(given) != len(limits.least):
        return f"model expected {len(limits.least)} dimensions but received {len(given)} dimensions"
    for index, (least, value, greatest) in enumerate(
        zip(limits.least, given, limits.greatest, strict=True)
    ):
        if not least <= value <= greatest:
            return (
                f"model expected the shape of dimension {index} to be between {least} and "
                f"{greatest} but received {value}"
            )
    return None


def _distance(best: Sequence[int], given: Sequence[int]) -> int:
    return sum(abs(one - other) for one, other in zip(best, given, strict=True))
