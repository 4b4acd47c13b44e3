# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Parameters of a config as values, with the texts of Triton for what is none.

Triton: backend/src/backend_common.cc ParseBoolValue, ParseIntValue, ParseDoubleValue
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeVar

from backends.api.backend import LoadContext
from backends.api.errors import InvalidArgumentError
from backends.api.model_config import ModelConfig

_FLAGS = {"true": True, "on": True, "1": True, "false": False, "off": False, "0": False}

Value = TypeVar("Value")


@dataclass(frozen=True, slots=True)
class Parameters:
    """The ``parameters`` of a model's config; every reader returns ``default`` for what is unset.

    All readers raise InvalidArgumentError for a value they do not understand.
    """

    config: ModelConfig

    def flag(self, key: str, default: Value) -> bool | Value:
        """Return a parameter that is ``true``, ``on``, ``1``, ``false``, ``off`` or ``0``."""
        text = self.config.parameters.get(key)
        if text is None:
            return default
        value = _FLAGS.get(text.lower())
        if value is None:
            raise self.refused(
                key, f"failed to convert '{text}' to boolean", "true, on, 1, false, off or 0"
            )
        return value

    def integer(self, key: str, default: Value, *, least: int | None = None) -> int | Value:
        """Return a parameter that is an integer, not below ``least``."""
        text = self.config.parameters.get(key)
        if text is None:
            return default
        refusal = f"failed to convert '{text}' to integral number"
        try:
            value = int(text)
        except ValueError:
            raise self.refused(key, refusal, "an integer") from None
        if least is not None and value < least:
            raise self.refused(key, refusal, f"an integer of at least {least}")
        return value

    def number(self, key: str, default: Value) -> float | Value:
        """Return a parameter that is a number."""
        text = self.config.parameters.get(key)
        if text is None:
            return default
        try:
            return float(text)
        except ValueError:
            raise self.refused(key, f"failed to convert '{text}' to double", "a number") from None

    def choice(self, key: str, table: Mapping[str, Value], default: Value) -> Value:
        """Return what ``table`` has for a parameter, whose case does not matter.

        Args:
            key: The parameter.
            table: What each text means, by its lower case.
            default: What is returned when it is not set.
        """
        text = self.config.parameters.get(key)
        if text is None:
            return default
        if text.lower() not in table:
            raise self.refused(key, f"unknown value '{text}'", " or ".join(table))
        return table[text.lower()]

    def refused(self, key: str, text: str, expected: str) -> InvalidArgumentError:
        """Return the error of a value: ``text``, and where it stands and what was expected."""
        return InvalidArgumentError(
            f"{text}: parameter {key} of model '{self.config.name}' must be {expected}"
        )


def thread_count(context: LoadContext, key: str) -> int:
    """Return how many threads an instance computes with: its parameter ``key``, else its share.

    Raises:
        InvalidArgumentError: The parameter is no integer, or negative.
    """
    own = Parameters(context.config).integer(key, 0, least=0)
    return own or max(1, context.thread_count)
