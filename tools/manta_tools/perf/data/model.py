# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""What the server says of a model, as far as requests for it depend on it.

Triton: perf_analyzer/src/model_parser.cc InitTriton @263c5f6
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import Any

from backends.api.datatypes import SIZE_BYTES
from backends.api.errors import InvalidArgumentError

Shape = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Tensor:
    """An input or output of the model.

    Attributes:
        name: Its name.
        datatype: A datatype of the V2 protocol.
        shape: Without the batch dimension; -1 where it may vary.
        is_optional: Whether requests may leave it out.
        is_shape_tensor: Whether its contents are a shape, so that nothing can be made up for it.
    """

    name: str
    datatype: str
    shape: Shape
    is_optional: bool = False
    is_shape_tensor: bool = False

    @property
    def element_count(self) -> int:
        """Elements of one inference.

        Raises:
            InvalidArgumentError: A dimension varies.
        """
        if any(dim < 0 for dim in self.shape):
            raise InvalidArgumentError(
                f"input {self.name} contains dynamic shape, provide shapes to send along with the "
                f"request: its shape is {list(self.shape)}, give --shape {self.name}:<dim>,<dim>"
            )
        return prod(self.shape)

    @property
    def size_bytes(self) -> int:
        """Bytes of one inference; of BYTES 0.

        Raises:
            InvalidArgumentError: A dimension varies.
        """
        return self.element_count * SIZE_BYTES[self.datatype]


@dataclass(frozen=True, slots=True)
class Model:
    """A model as the load generator needs it.

    Attributes:
        name: Its name.
        version: The version asked for; empty when the server chooses.
        inputs: Its inputs.
        outputs: Its outputs.
        max_batch_size: 0 when its shapes have no batch dimension.
        is_sequence: Whether requests belong to sequences.
        is_decoupled: Whether a request has any number of responses.
        is_cached: Whether answers may come from the response cache.
        composing: Name and version of the models that it is composed of; a version left out is
            the one that works.
    """

    name: str
    version: str
    inputs: tuple[Tensor, ...]
    outputs: tuple[Tensor, ...]
    max_batch_size: int = 0
    is_sequence: bool = False
    is_decoupled: bool = False
    is_cached: bool = False
    composing: tuple[tuple[str, str], ...] = ()


def read_model(metadata: Mapping[str, Any], config: Mapping[str, Any], version: str = "") -> Model:
    """Read a model from its metadata and config, in the forms of the HTTP API.

    Args:
        metadata: Answer of the metadata endpoint.
        config: Answer of the config endpoint.
        version: The version asked for.

    Raises:
        InvalidArgumentError: A tensor has a datatype that is none.
    """
    max_batch_size = int(config.get("max_batch_size", 0))
    settings = {row["name"]: row for row in config.get("input", ())}
    steps = config.get("ensemble_scheduling", {}).get("step", ())
    return Model(
        metadata["name"],
        version,
        tuple(
            _tensor(row, settings.get(row["name"], {}), max_batch_size)
            for row in metadata.get("inputs", ())
        ),
        tuple(_tensor(row, {}, max_batch_size) for row in metadata.get("outputs", ())),
        max_batch_size,
        is_sequence="sequence_batching" in config,
        is_decoupled=bool(config.get("model_transaction_policy", {}).get("decoupled", False)),
        is_cached=bool(config.get("response_cache", {}).get("enable", False)),
        composing=tuple((step["model_name"], _version(step)) for step in steps),
    )


def with_shapes(model: Model, shapes: Sequence[tuple[str, Shape]], batch_size: int) -> Model:
    """Return the model with variable dimensions fixed.

    Raises:
        InvalidArgumentError: A shape is of no input or does not fit it, or the batch is too large.
    """
    given = dict(shapes)
    if unknown := sorted(given.keys() - {each.name for each in model.inputs}):
        raise InvalidArgumentError(
            f"--shape names '{unknown[0]}', which is no input of model '{model.name}'; its inputs "
            f"are {', '.join(each.name for each in model.inputs)}"
        )
    if model.max_batch_size == 0 and batch_size > 1:
        raise InvalidArgumentError(
            f"can not specify batch size > 1 as the model does not support batching: model "
            f"'{model.name}' has max_batch_size 0, got -b {batch_size}"
        )
    if 0 < model.max_batch_size < batch_size:
        raise InvalidArgumentError(
            f"got batch size {batch_size}, but model '{model.name}' has max_batch_size "
            f"{model.max_batch_size}; give a smaller -b"
        )
    return replace(
        model,
        inputs=tuple(
            _with_shape(each, given[each.name]) if each.name in given else each
            for each in model.inputs
        ),
    )


def fits(shape: Sequence[int], tensor: Tensor) -> bool:
    """Whether a shape is one of those that a tensor may have."""
    return len(shape) == len(tensor.shape) and all(
        allowed in (-1, dim) for dim, allowed in zip(shape, tensor.shape, strict=True)
    )


def _with_shape(tensor: Tensor, shape: Shape) -> Tensor:
    if not fits(shape, tensor):
        raise InvalidArgumentError(
            f"--shape {tensor.name}:{','.join(map(str, shape))} does not fit the model's shape "
            f"{list(tensor.shape)}; only dimensions of -1 can be chosen"
        )
    return replace(tensor, shape=shape)


def _tensor(row: Mapping[str, Any], settings: Mapping[str, Any], max_batch_size: int) -> Tensor:
    if row["datatype"] not in SIZE_BYTES:
        raise InvalidArgumentError(
            f"tensor '{row['name']}' has the datatype '{row['datatype']}', expected one of "
            f"{', '.join(SIZE_BYTES)}"
        )
    shape = tuple(int(dim) for dim in row["shape"])
    return Tensor(
        row["name"],
        row["datatype"],
        shape[1:] if max_batch_size else shape,
        is_optional=bool(settings.get("optional", False)),
        is_shape_tensor=bool(settings.get("is_shape_tensor", False)),
    )


def _version(step: Mapping[str, Any]) -> str:
    version = int(step.get("model_version", -1))
    return "" if version < 0 else str(version)
