# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Data made up for a model: random or zero, made once and sent with every request.

Triton: perf_analyzer/src/data_loader.cc GenerateData @263c5f6
"""

import string
from dataclasses import dataclass

import numpy as np

from backends.api.bytes_tensor import serialize_bytes
from backends.api.datatypes import numpy_dtype
from backends.api.errors import InvalidArgumentError
from manta_tools.perf.data.model import Model, Tensor
from manta_tools.perf.data.rows import Content, DataSet, Row

_LETTERS = string.ascii_letters + string.digits


@dataclass(frozen=True, slots=True)
class Recipe:
    """How contents are made.

    Attributes:
        is_zero: Whether all is zero, and BYTES elements have no contents.
        string_data: Contents of all BYTES elements; empty for random ones.
        string_length: Length of random BYTES elements, in characters.
        seed: The same seed makes the same data.
    """

    is_zero: bool = False
    string_data: str = ""
    string_length: int = 128
    seed: int = 0


def generate(model: Model, batch_size: int, recipe: Recipe) -> DataSet:
    """Make the data of a model: one stream of one step.

    Args:
        model: The model; its inputs have no variable dimensions any more.
        batch_size: Inferences of a request; each has contents of its own.
        recipe: How contents are made.

    Raises:
        InvalidArgumentError: An input has variable dimensions or is a shape tensor.
    """
    draws = np.random.default_rng(recipe.seed)
    inputs = {
        tensor.name: batched(
            model, tensor, tensor.shape, [_made(tensor, recipe, draws) for _ in range(batch_size)]
        )
        for tensor in model.inputs
        if not tensor.is_optional
    }
    return DataSet(((Row(inputs),),))


def batched(model: Model, tensor: Tensor, shape: tuple[int, ...], parts: list[bytes]) -> Content:
    """Return a tensor made of the contents of each inference."""
    whole = (len(parts), *shape) if model.max_batch_size else shape
    return Content(tensor.datatype, whole, b"".join(parts))


def _made(tensor: Tensor, recipe: Recipe, draws: np.random.Generator) -> bytes:
    if tensor.is_shape_tensor:
        raise InvalidArgumentError(
            f"can not generate data for shape tensor '{tensor.name}', user-provided data is needed."
        )
    count = tensor.element_count
    if tensor.datatype == "BYTES":
        return serialize_bytes([_text(recipe, draws) for _ in range(count)])
    if recipe.is_zero:
        return bytes(tensor.size_bytes)
    dtype = numpy_dtype(tensor.datatype)
    if tensor.datatype == "BOOL":
        return draws.integers(0, 2, count).astype(np.bool_).tobytes()
    if np.issubdtype(dtype, np.integer):
        return draws.bytes(tensor.size_bytes)
    # Random bits would be NaN and infinity too, which make some models slow, and no JSON.
    return draws.random(count).astype(dtype).tobytes()


def _text(recipe: Recipe, draws: np.random.Generator) -> str:
    if recipe.string_data:
        return recipe.string_data
    if recipe.is_zero:
        return ""
    return "".join(draws.choice(list(_LETTERS), recipe.string_length))
