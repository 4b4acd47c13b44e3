# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Whether tensors have the shapes that an exported program was made for.

What PyTorch generates for this costs several times what a small model does.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch

from backends.api.errors import InvalidArgumentError

# A program is made for what holds from 2 on, and takes 0 and 1 as well.
_LEAST_THAT_BINDS = 3


@dataclass(frozen=True, slots=True)
class Bounds:
    """What a dimension may be; None is open."""

    least: int | None = None
    most: int | None = None

    def allow(self, size: int) -> bool:
        """Whether a size is within."""
        too_small = self.least is not None and self.least >= _LEAST_THAT_BINDS and size < self.least
        return not too_small and (self.most is None or size <= self.most)

    def __str__(self) -> str:
        return f"{self.least or 0} to {'any' if self.most is None else self.most}"


@dataclass(frozen=True, slots=True)
class ShapeGuards:
    """The shapes of a program's arguments.

    Attributes:
        model: Name of the model.
        names: Names of the arguments in its config.
        shapes: Their shapes; a dimension that varies is the name of what it is.
        bounds: By such a name what it may be.
    """

    model: str
    names: Sequence[str]
    shapes: Sequence[Sequence[int | str]]
    bounds: Mapping[str, Bounds]

    def check(self, tensors: Sequence[torch.Tensor]) -> None:
        """Check the shapes of a call's arguments.

        Raises:
            InvalidArgumentError: One is another, or two that must be the same size differ.
        """
        sizes: dict[str, int] = {}
        for place, (expected, tensor) in enumerate(zip(self.shapes, tensors, strict=True)):
            shape = tensor.shape
            if len(shape) != len(expected):
                raise self._refused(place, shape, f"{len(expected)} dimensions")
            for axis, (wanted, size) in enumerate(zip(expected, shape, strict=True)):
                if isinstance(wanted, int):
                    if size != wanted:
                        raise self._refused(place, shape, f"{wanted} in dimension {axis}")
                elif wanted not in sizes:
                    if not self.bounds[wanted].allow(size):
                        raise self._refused(
                            place, shape, f"{self.bounds[wanted]} in dimension {axis}"
                        )
                    sizes[wanted] = size
                elif sizes[wanted] != size:
                    raise self._refused(
                        place, shape, f"{sizes[wanted]} in dimension {axis}, as in other inputs"
                    )

    def _refused(self, place: int, shape: Sequence[int], expected: str) -> InvalidArgumentError:
        return InvalidArgumentError(
            f"input '{self.names[place]}' of model '{self.model}' has shape {list(shape)}, but its "
            f"exported program takes {expected}"
        )
