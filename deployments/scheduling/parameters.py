# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Settings that Triton has no field for, given through a config's ``parameters``."""

from backends.api.errors import InvalidArgumentError
from backends.api.model_config import ModelConfig


def whole_number(config: ModelConfig, key: str) -> int:
    """Return a parameter's number; 0 where the config has no such parameter.

    Raises:
        InvalidArgumentError: The parameter is not a whole number.
    """
    text = config.parameters.get(key, "0")
    if not text.isdecimal():
        raise InvalidArgumentError(
            f"model '{config.name}' has parameter '{key}' with value '{text}', expected a whole "
            f"number, 0 for none"
        )
    return int(text)
