# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""One dimension of a space: what a model's config may have in one place."""

from collections.abc import Iterable
from dataclasses import dataclass

from manta_tools.analyze.records import Value

# Fields that are chosen together, each with its value.
Choice = tuple[tuple[str, Value], ...]


@dataclass(frozen=True, slots=True)
class Dimension:
    """What one model may have in one place; choices next to each other are neighbours.

    Attributes:
        model: The model's name.
        name: The field, or what a user calls several of them.
        choices: At least one; a single one is what every candidate has.
    """

    model: str
    name: str
    choices: tuple[Choice, ...]


def of_values(model: str, field: str, values: Iterable[Value]) -> Dimension:
    """Return a dimension whose choices are values of one field."""
    return Dimension(model, field, tuple(((field, value),) for value in values))


def powers_of_two(least: int, most: int) -> tuple[int, ...]:
    """Return the powers of two in a range, both ends included; its start where there are none."""
    found = []
    power = 1
    while power <= most:
        if power >= least:
            found.append(power)
        power *= 2
    return tuple(found) or (least,)


def numbers(start: int, stop: int, step: int = 1) -> tuple[int, ...]:
    """Return whole numbers from a start up to a stop that is included."""
    return tuple(range(start, stop + 1, step))
