# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Requests with far more inputs than their model has, refused before the inputs are looked at.

A megabyte holds tens of thousands of inputs, and each costs some microseconds to read. What has
just a few too many is for the core checks, which tell what is missing.
"""

from typing import Final

from backends.api.errors import InvalidArgumentError
from backends.api.model_config import ModelConfig
from backends.api.request import id_prefix

_SURPLUS: Final = 64


def check_input_count(count: int, config: ModelConfig, request_id: str) -> None:
    """Refuse a request whose number of inputs has nothing to do with its model.

    Args:
        count: How many inputs it has.
        config: The model's.
        request_id: The client's id.

    Raises:
        InvalidArgumentError: There are too many.
    """
    most = len(config.input)
    if count <= 2 * most + _SURPLUS:
        return
    least = sum(not each.optional for each in config.input)
    expects = f"number of inputs between {least} and {most}" if least < most else f"{most} inputs"
    raise InvalidArgumentError(
        f"{id_prefix(request_id)}expected {expects} but got {count} inputs for model "
        f"'{config.name}'. Please send each input of the model once"
    )
