# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Plans of the stand-in for TensorRT, and configs for them."""

from collections.abc import Sequence
from typing import Any

from tests.support.tensorrt_standin import plan_of, tensor

BARE = 'name: "m" platform: "tensorrt_plan" '
FULL = (
    BARE
    + "max_batch_size: 8 "
    + "".join(
        f'{kind} {{ name: "{kind.upper()}{index}" data_type: TYPE_FP32 dims: [ 4 ] }} '
        for kind in ("input", "output")
        for index in (0, 1)
    )
)


def limits(*batches: int, dim: int = 4) -> dict[str, list[list[int]]]:
    return {name: [[batch, dim] for batch in batches] for name in ("INPUT0", "INPUT1")}


USUAL = limits(1, 4, 8)


def add_sub(
    dtype: str = "FLOAT",
    shape: Sequence[int] = (-1, 4),
    profiles: Sequence[dict[str, list[list[int]]]] = (USUAL,),
    **more: Any,
) -> bytes:
    tensors = [tensor(name, list(shape), dtype) for name in ("INPUT0", "INPUT1")]
    tensors += [tensor(name, list(shape), dtype, is_input=False) for name in ("OUTPUT0", "OUTPUT1")]
    return plan_of("add_sub", tensors, *profiles, **more)


RESIZE = (
    BARE
    + "max_batch_size: 4 "
    + 'input { name: "S" data_type: TYPE_INT32 dims: [ 1 ] is_shape_tensor: true } '
    + 'input { name: "X" data_type: TYPE_FP32 dims: [ -1 ] } '
    + 'output { name: "Y" data_type: TYPE_FP32 dims: [ -1 ] } '
    + 'output { name: "MADE" data_type: TYPE_INT32 dims: [ 1 ] is_shape_tensor: true } '
)
RESIZE_PLAN = plan_of(
    "resize",
    [
        tensor("X", [-1, -1]),
        tensor("S", [2], "INT32", is_shape=True),
        tensor("Y", [-1, -1], is_input=False),
        tensor("MADE", [2], "INT32", is_input=False, is_shape=True),
    ],
    {"X": [[1, 1], [2, 2], [4, 9]], "S": [[1, 1], [2, 2], [4, 9]]},
)
