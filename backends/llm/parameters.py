# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""What the parameters of a language model's config may be."""

from collections.abc import Callable
from typing import Final, TypeVar

from backends.api.errors import InvalidArgumentError
from backends.api.model_config import ModelConfig
from backends.api.quoting import quote_names, shorten
from backends.llm.chat.tools import PARSERS

TOOL_PARSER: Final = "tool_parser"

_Value = TypeVar("_Value")


def read_parameter(
    config: ModelConfig, name: str, read: Callable[[str], _Value | None], expected: str
) -> _Value | None:
    """Return a parameter's value; None when it is not set.

    Args:
        config: The model's config.
        name: The parameter's name.
        read: Makes the value of the text; None when it is none.
        expected: What the text must be, for the error.

    Raises:
        InvalidArgumentError: It is something else.
    """
    text = config.parameters.get(name, "").strip()
    if not text:
        return None
    value = read(text)
    if value is None:
        raise InvalidArgumentError(
            f"model '{config.name}' has parameter {name} '{shorten(text)}', expected {expected}"
        )
    return value


def tool_parser(config: ModelConfig) -> str:
    """Return the form in which the model writes calls of tools; empty when nobody says.

    Raises:
        InvalidArgumentError: It is none that is read here.
    """
    expected = f"one of {quote_names(sorted(PARSERS))}"
    found = read_parameter(
        config, TOOL_PARSER, lambda text: text if text in PARSERS else None, expected
    )
    return found or ""
