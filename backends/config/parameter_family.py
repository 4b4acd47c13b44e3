# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Parameters of a model whose names begin alike (``autoscaling.*``), and how each is read."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class FamilyParameter:
    """How one parameter is read; ``read`` raises ValueError or TypeError for what is amiss."""

    read: Callable[[str], Any]
    expected: str

    def is_readable(self, text: str) -> bool:
        """Whether a value is as expected."""
        try:
            self.read(text)
        except (ValueError, TypeError):
            return False
        return True


@dataclass(frozen=True, slots=True)
class ParameterFamily:
    """All parameters that begin with a prefix.

    Attributes:
        prefix: What their names begin with, the dot included.
        members: They, by whole name.
    """

    prefix: str
    members: Mapping[str, FamilyParameter]

    def given(self, parameters: Mapping[str, str]) -> dict[str, str]:
        """Return those of a model's parameters that are of this family, by name in order."""
        return {name: text for name, text in sorted(parameters.items()) if self.has(name)}

    def given_in(self, message: Any) -> dict[str, str]:
        """Return those of an `inference.ModelConfig`."""
        return self.given({name: each.string_value for name, each in message.parameters.items()})

    def has(self, name: str) -> bool:
        """Whether a parameter is of this family, be it a known one or not."""
        return name.startswith(self.prefix)

    def values(self, given: Mapping[str, str]) -> dict[str, Any]:
        """Return what was given without complaint, read, by name without the prefix."""
        return {
            name.removeprefix(self.prefix): self.members[name].read(text)
            for name, text in given.items()
        }

    def complaints(
        self, model: str, given: Mapping[str, str], *, is_ensemble: bool
    ) -> Iterator[str]:
        """Yield what is wrong with the parameters one by one."""
        if given and is_ensemble:
            yield (
                f"model '{model}' has parameter '{next(iter(given))}', but an ensemble has no"
                " instances; give the parameter to the models it is made of"
            )
            return
        for name, text in given.items():
            parameter = self.members.get(name)
            if parameter is None:
                known = ", ".join(sorted(self.members))
                yield f"model '{model}' has unknown parameter '{name}', expected one of: {known}"
            elif not parameter.is_readable(text):
                yield (
                    f"model '{model}' has parameter '{name}' with value '{text}', expected"
                    f" {parameter.expected}"
                )
