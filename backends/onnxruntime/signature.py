# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""What an ONNX model takes and gives, and whether a config agrees with it.

Triton: onnxruntime_backend/src/onnxruntime.cc ModelInstanceState::ValidateInputs, ValidateOutputs;
onnxruntime_utils.cc CompareDimsSupported
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from backends.api.errors import InternalError, InvalidArgumentError, UnsupportedError
from backends.api.model_config import ModelConfig, ModelInput, ModelOutput

_DATATYPE = {
    "tensor(bool)": "BOOL",
    "tensor(uint8)": "UINT8",
    "tensor(uint16)": "UINT16",
    "tensor(uint32)": "UINT32",
    "tensor(uint64)": "UINT64",
    "tensor(int8)": "INT8",
    "tensor(int16)": "INT16",
    "tensor(int32)": "INT32",
    "tensor(int64)": "INT64",
    "tensor(float16)": "FP16",
    "tensor(float)": "FP32",
    "tensor(double)": "FP64",
    "tensor(string)": "BYTES",
}

_ONNX_KIND = {
    "seq": "ONNX_TYPE_SEQUENCE",
    "map": "ONNX_TYPE_MAP",
    "opaque": "ONNX_TYPE_OPAQUE",
    "sparse_tensor": "ONNX_TYPE_SPARSETENSOR",
}


@dataclass(frozen=True, slots=True)
class TensorInfo:
    """One input or output of a model: ``shape`` is whole, with -1 for what may vary."""

    name: str
    datatype: str
    shape: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Signature:
    """A model's inputs and outputs, in its order."""

    inputs: tuple[TensorInfo, ...]
    outputs: tuple[TensorInfo, ...]

    @property
    def supports_batching(self) -> bool:
        """Whether the first dimension of every tensor may vary."""
        return all(info.shape[:1] == (-1,) for info in (*self.inputs, *self.outputs))


def read_signature(session: Any) -> Signature:
    """Read the signature of an `onnxruntime.InferenceSession`.

    Raises:
        UnsupportedError: The model has inputs or outputs that are no tensors, or of a datatype that
            V2 lacks.
    """
    return Signature(
        tuple(_tensor_info(node) for node in session.get_inputs()),
        tuple(_tensor_info(node) for node in session.get_outputs()),
    )


def _tensor_info(node: Any) -> TensorInfo:
    datatype = _DATATYPE.get(node.type)
    if datatype is None:
        kind = _ONNX_KIND.get(node.type.partition("(")[0])
        if kind is None:
            raise UnsupportedError(
                f"unsupported datatype {node.type} for I/O '{node.name}', supported are "
                f"{', '.join(_DATATYPE)}"
            )
        raise UnsupportedError(
            f"Unsupported ONNX Type '{kind}' for I/O '{node.name}', expected 'ONNX_TYPE_TENSOR'. "
            "Models converted from scikit-learn need the option zipmap=False"
        )
    shape = tuple(dim if isinstance(dim, int) and dim >= 0 else -1 for dim in node.shape)
    return TensorInfo(node.name, datatype, shape)


def validate(config: ModelConfig, signature: Signature) -> None:
    """Check that a complete config describes the model.

    Raises:
        InvalidArgumentError: Number, names, datatypes or shapes of tensors differ.
        InternalError: A datatype in the config is one ONNX lacks.
    """
    fed = len(config.input) + len(_fed_by_scheduler(config))
    if fed != len(signature.inputs):
        raise InvalidArgumentError(
            f"unable to load model '{config.name}', configuration expects {fed} inputs, model "
            f"provides {len(signature.inputs)}"
        )
    for given in config.input:
        info = _find(given.name, signature.inputs, "input")
        _check_datatype(config, given, info, "input")
        if given.optional and config.max_batch_size != 0:
            raise InvalidArgumentError(
                f"unable to load model '{config.name}', optional input '{given.name}' is not "
                "supported for models that support batching"
            )
        if given.allow_ragged_batch:
            _check_ragged(config, given, info)
        else:
            _check_dims(config, given, info, exact=False)
    split_otherwise = {name for output in config.batch_output for name in output.target_names}
    for output in config.output:
        info = _find(output.name, signature.outputs, "output")
        _check_datatype(config, output, info, "output")
        if output.name not in split_otherwise:
            _check_dims(config, output, info, exact=True)


def _fed_by_scheduler(config: ModelConfig) -> set[str]:
    """Return names of inputs that no client sends: controls, states and batch inputs."""
    names = {name for batch_input in config.batch_input for name in batch_input.target_names}
    if config.sequence_batching is not None:
        names.update(control.name for control in config.sequence_batching.controls)
        names.update(state.input_name for state in config.sequence_batching.states)
    return names


def _find(name: str, infos: Iterable[TensorInfo], direction: str) -> TensorInfo:
    by_name = {info.name: info for info in infos}
    if name not in by_name:
        raise InvalidArgumentError(
            f"unexpected inference {direction} '{name}', allowed {direction}s are: "
            f"{', '.join(sorted(by_name))}"
        )
    return by_name[name]


def _check_datatype(
    config: ModelConfig, entry: ModelInput | ModelOutput, info: TensorInfo, direction: str
) -> None:
    configured = _config_name(entry.datatype)
    if entry.datatype not in _DATATYPE.values():
        raise InternalError(
            f"unsupported datatype {configured} for {direction} '{entry.name}' for model "
            f"'{config.name}'"
        )
    if entry.datatype != info.datatype:
        raise InvalidArgumentError(
            f"unable to load model '{config.name}', configuration expects datatype {configured} "
            f"for {direction} '{entry.name}', model provides TYPE_{info.datatype}"
        )


def _config_name(datatype: str) -> str:
    if not datatype:
        return "TYPE_INVALID"
    return "TYPE_STRING" if datatype == "BYTES" else f"TYPE_{datatype}"


def _check_ragged(config: ModelConfig, given: ModelInput, info: TensorInfo) -> None:
    if info.shape != (-1,):
        raise InvalidArgumentError(
            f"unable to load model '{config.name}', configuration expects model provides input "
            f"with shape [-1]  for ragged input '{given.name}', model provides "
            f"{_text(info.shape)}"
        )


def _check_dims(
    config: ModelConfig, entry: ModelInput | ModelOutput, info: TensorInfo, *, exact: bool
) -> None:
    dims = entry.dims if entry.reshape is None else entry.reshape
    where = f"model '{config.name}', tensor '{entry.name}': "
    if not info.shape:
        if any(dim != 1 for dim in dims):
            raise InvalidArgumentError(
                f"unable to load model '{config.name}', scalar tensor '{entry.name}', should only "
                "provide 1 in the model configuration when the model doesn't support batching. "
                f"Model configuration provided: {_text(dims)}."
            )
        return
    batched = config.max_batch_size > 0
    if batched and info.shape[0] != -1:
        raise InvalidArgumentError(
            f"{where}for the model to support batching the shape should have at least 1 dimension "
            "and the first dimension must be -1; but shape expected by the model is "
            f"{_text(info.shape)}"
        )
    configured = (-1, *dims) if batched else dims
    if not _shapes_agree(info.shape, configured, exact=exact):
        explained = (
            "an initial batch dimension because max_batch_size > 0 followed by the explicit "
            f"tensor shape, making complete shape {_text(configured)}"
            if batched
            else f"shape {_text(configured)}"
        )
        raise InvalidArgumentError(
            f"{where}the model expects {len(info.shape)} dimensions (shape {_text(info.shape)}) "
            f"but the model configuration specifies {len(configured)} dimensions ({explained})"
        )


def _shapes_agree(model: Sequence[int], configured: Sequence[int], *, exact: bool) -> bool:
    return len(model) == len(configured) and all(
        given == expected or (expected == -1 and not exact)
        for expected, given in zip(model, configured, strict=True)
    )


def _text(shape: Sequence[int]) -> str:
    return f"[{','.join(map(str, shape))}]"
