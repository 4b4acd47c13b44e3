# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Fragments of config.pbtxt, and what validation says of them."""

import pytest

from backends.api.errors import InvalidArgumentError
from backends.config.normalisation import normalise
from backends.config.pbtxt import parse_pbtxt
from backends.config.validation.model import (
    validate,
)

INPUT = 'input { name: "input" data_type: TYPE_FP32 dims: [2] }'
OUTPUT = 'output { name: "OUTPUT" data_type: TYPE_FP32 dims: [2] }'
HEAD = 'name: "m" backend: "python"'


def complaint_of(text: str, gpu_ids: tuple[int, ...] = ()) -> str:
    config = normalise(parse_pbtxt(text, "p"), gpu_ids=gpu_ids)
    with pytest.raises(InvalidArgumentError) as caught:
        validate(config, gpu_ids=gpu_ids)
    return caught.value.message


def tensor(direction: str, rest: str) -> str:
    return f'{direction} {{ name: "{direction}" data_type: TYPE_FP32 {rest} }}'


def control(kind: str, rest: str, name: str = "C") -> str:
    return (
        f'sequence_batching {{ control_input {{ name: "{name}" control {{ '
        f"kind: CONTROL_SEQUENCE_{kind} {rest} }} }} }}"
    )
