# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""What an engine takes and gives, as plain data.

Triton: tensorrt_backend/src/model_state.cc ModelState::GetMaxSupportedBatchSize,
src/tensorrt_utils.cc ConvertTrtTypeToConfigDataType
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from backends.api.errors import UnsupportedError
from backends.framework.signature import Signature, TensorInfo

DATATYPES: Final = {
    "FLOAT": "FP32",
    "HALF": "FP16",
    "BF16": "BF16",
    "INT8": "INT8",
    "UINT8": "UINT8",
    "INT32": "INT32",
    "INT64": "INT64",
    "BOOL": "BOOL",
}


@dataclass(frozen=True, slots=True)
class Limits:
    """Of an input's dimensions, or of a shape tensor's values: least, best and greatest."""

    least: tuple[int, ...]
    best: tuple[int, ...]
    greatest: tuple[int, ...]

    def within(self, dims: Sequence[int]) -> tuple[int, ...]:
        """Return dims with what may vary, -1, at its least."""
        if len(dims) != len(self.least):
            return tuple(dims)
        return tuple(
            least if dim == -1 else dim for dim, least in zip(dims, self.least, strict=True)
        )


@dataclass(frozen=True, slots=True)
class EngineTensor:
    """One input or output.

    Attributes:
        name: Its name.
        datatype: V2 name.
        shape: Whole; -1 for what may vary.
        is_input: Whether it is one.
        is_shape: Whether its values are shapes. They do not batch: the first one is the batch size.
        on_host: Whether its values lie in host memory.
        is_linear: Whether its elements lie in the usual order.
    """

    name: str
    datatype: str
    shape: tuple[int, ...]
    is_input: bool
    is_shape: bool = False
    on_host: bool = False
    is_linear: bool = True


@dataclass(frozen=True, slots=True)
class Engine:
    """What an engine tells of itself.

    Attributes:
        tensors: Inputs and outputs, in its order.
        profiles: Of each optimization profile, the limits of each input's dimensions, and of each
            shape tensor's values.
    """

    tensors: tuple[EngineTensor, ...]
    profiles: tuple[dict[str, Limits], ...]

    @property
    def inputs(self) -> tuple[EngineTensor, ...]:
        """The inputs."""
        return tuple(each for each in self.tensors if each.is_input)

    @property
    def outputs(self) -> tuple[EngineTensor, ...]:
        """The outputs."""
        return tuple(each for each in self.tensors if not each.is_input)

    def max_batch(self, indices: Sequence[int] | None = None) -> int:
        """Return the largest batch that a profile allows; 0 when the engine does not batch.

        Args:
            indices: Of the profiles to look at; None for all.
        """
        executed = [each for each in self.tensors if not each.is_shape]
        if not all(each.shape[:1] == (-1,) for each in executed):
            return 0
        chosen = range(len(self.profiles)) if indices is None else indices
        return max(
            (
                min(
                    (each.greatest[0] for each in self.profiles[index].values() if each.greatest),
                    default=0,
                )
                for index in chosen
            ),
            default=0,
        )

    def signature(self, *, batched: bool) -> Signature:
        """Return the engine's tensors as configs describe them.

        Args:
            batched: Whether the first dimension, and a shape tensor's first value, is the batch's.
        """
        return Signature(
            tuple(self._info(each, batched) for each in self.inputs),
            tuple(self._info(each, batched) for each in self.outputs),
        )

    def _info(self, tensor: EngineTensor, batched: bool) -> TensorInfo:
        shape = tensor.shape
        if tensor.is_shape and batched:
            # Configs leave out the first value.
            count = shape[0] if shape else 1
            shape = (-1, count - 1 if count > 0 else -1)
        return TensorInfo(tensor.name, tensor.datatype, shape)


def read_engine(module: Any, engine: Any) -> Engine:
    """Return what an ``ICudaEngine`` tells.

    Raises:
        UnsupportedError: A tensor has a datatype that V2 lacks.
    """
    names = [engine.get_tensor_name(index) for index in range(engine.num_io_tensors)]
    tensors = tuple(_tensor(module, engine, name) for name in names)
    profiles = tuple(
        {
            each.name: _limits(
                engine.get_tensor_profile_values(index, each.name)
                if each.is_shape
                else engine.get_tensor_profile_shape(each.name, index)
            )
            for each in tensors
            if each.is_input
        }
        for index in range(engine.num_optimization_profiles)
    )
    return Engine(tensors, profiles)


def _tensor(module: Any, engine: Any, name: str) -> EngineTensor:
    kind = engine.get_tensor_dtype(name).name
    if kind not in DATATYPES:
        raise UnsupportedError(
            f"unsupported datatype {kind} for I/O '{name}', supported are {', '.join(DATATYPES)}"
        )
    return EngineTensor(
        name,
        DATATYPES[kind],
        tuple(engine.get_tensor_shape(name)),
        engine.get_tensor_mode(name) == module.TensorIOMode.INPUT,
        engine.is_shape_inference_io(name),
        engine.get_tensor_location(name) == module.TensorLocation.HOST,
        engine.get_tensor_format(name) == module.TensorFormat.LINEAR,
    )


def _limits(given: Iterable[Iterable[int]]) -> Limits:
    least, best, greatest = (tuple(each) for each in given)
    return Limits(least, best, greatest)
