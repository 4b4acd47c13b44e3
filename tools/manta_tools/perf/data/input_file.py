# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Data from files: perf_analyzer's JSON, or a directory with a file for each input.

Triton: perf_analyzer/src/data_loader.cc ParseData, ReadTensorData, ReadDataFromDir @263c5f6
"""

import base64
import binascii
from collections.abc import Mapping, Sequence
from math import prod
from pathlib import Path
from typing import Any, Final

import numpy as np

from backends.api.bytes_tensor import count_elements, serialize_bytes
from backends.api.datatypes import SIZE_BYTES, numpy_dtype
from backends.api.errors import InvalidArgumentError
from manta_tools.perf.data.document import read_document
from manta_tools.perf.data.generated import batched
from manta_tools.perf.data.model import Model, Shape, Tensor, fits
from manta_tools.perf.data.rows import Content, DataSet, Row

# Beside tensors a step may name a model, which servers of language models read.
_OTHER_KEYS: Final = frozenset({"model"})

Step = Mapping[str, Any]
# Shape and bytes of one inference.
_Part = tuple[Shape, bytes]


def read_inputs(paths: Sequence[Path], model: Model, batch_size: int) -> DataSet:
    """Read files and directories; what several hold is one data set.

    Args:
        paths: Files in JSON, or directories.
        model: The model.
        batch_size: Inferences of a request; they all have the row's contents.

    Raises:
        InvalidArgumentError: A file cannot be read or is not such JSON, a tensor is unknown or
            missing, or its contents do not fit its datatype and shape.
    """
    streams: list[list[Row]] = []
    for path in paths:
        if path.is_dir():
            streams.append([_directory(path, model, batch_size)])
            continue
        document = read_document(path)
        steps, outputs, are_streams = _streams(document)
        for index, stream in enumerate(steps):
            rows = [
                _row(model, batch_size, step, outputs[index][number], (index, number))
                for number, step in enumerate(stream)
            ]
            if are_streams or not streams:
                streams.append(rows)
            else:
                # Files without streams are one stream together.
                streams[0] += rows
    if not streams or not all(streams):
        raise InvalidArgumentError(f"{paths[0]}: the data has no steps; give at least one")
    return DataSet(tuple(map(tuple, streams)), is_read=True)


def _streams(
    document: Mapping[str, Any],
) -> tuple[list[list[Step]], list[list[Step]], bool]:
    """Return the steps of each stream, what each is to answer, and whether there were streams."""
    data = document["data"]
    are_streams = bool(data) and isinstance(data[0], list)
    if any(isinstance(each, list) is not are_streams for each in data):
        raise InvalidArgumentError(
            "Inconsistency in input-data provided. Can not have a combination of objects and "
            "arrays inside of the Data array."
        )
    outputs = document.get("validation_data")
    steps = data if are_streams else [data]
    if outputs is None:
        return steps, [[{}] * len(stream) for stream in steps], are_streams
    validated = outputs if are_streams else [outputs]
    if _lengths(validated) != _lengths(steps):
        raise InvalidArgumentError(
            "The 'validation_data' field doesn't align with 'data' field in the json file"
        )
    return steps, validated, are_streams


def _lengths(streams: Any) -> list[int] | None:
    if not isinstance(streams, list) or not all(isinstance(each, list) for each in streams):
        return None
    return [len(each) for each in streams]


def _row(model: Model, batch_size: int, step: Any, outputs: Any, place: tuple[int, int]) -> Row:
    given = _parts(model.inputs, step, place)
    inputs = {
        tensor.name: batched(
            model, tensor, given[tensor.name][0], [given[tensor.name][1]] * batch_size
        )
        for tensor in model.inputs
        if tensor.name in given
    }
    if not outputs:
        return Row(inputs)
    expected = _parts(model.outputs, outputs, place, all_needed=False)
    return Row(inputs, {name: part[1] * batch_size for name, part in expected.items()})


def _parts(
    tensors: Sequence[Tensor], step: Any, place: tuple[int, int], *, all_needed: bool = True
) -> dict[str, _Part]:
    """Return the tensors of a step, by name."""
    where = f" ( Location stream id: {place[0]}, step id: {place[1]})"
    if not isinstance(step, dict):
        raise InvalidArgumentError(f"Input data file is malformed.{where}")
    known = {tensor.name for tensor in tensors}
    if unknown := sorted(step.keys() - known - _OTHER_KEYS):
        raise InvalidArgumentError(
            f"The input or output '{unknown[0]}' is not found in the model configuration{where}"
        )
    parts = {}
    for tensor in tensors:
        if tensor.name in step:
            parts[tensor.name] = _part(tensor, step[tensor.name], where)
        elif all_needed and not tensor.is_optional:
            raise InvalidArgumentError(f"missing tensor {tensor.name}{where}")
    return parts


def _part(tensor: Tensor, given: Any, where: str) -> _Part:
    shape = tensor.shape
    content = given
    if isinstance(given, dict) and "b64" not in given:
        if "content" not in given:
            raise InvalidArgumentError(f"missing content field of tensor {tensor.name}{where}")
        content = given["content"]
    if isinstance(given, dict) and "shape" in given:
        shape = _shape(given["shape"], where)
    raw = _raw(tensor, content, where)
    _check_shape(tensor, shape, where)
    _check_size(tensor, shape, raw, where)
    return shape, raw


def _shape(given: Any, where: str) -> Shape:
    if not isinstance(given, list) or not all(type(dim) is int for dim in given):
        raise InvalidArgumentError(f"shape values must be integers{where}")
    return tuple(given)


def _raw(tensor: Tensor, content: Any, where: str) -> bytes:
    if isinstance(content, list):
        return _of_values(tensor, content, where)
    if isinstance(content, dict) and "b64" in content:
        text = content["b64"]
        if not isinstance(text, str):
            raise InvalidArgumentError(f"the value of b64 field should be of type string{where}")
        try:
            return base64.b64decode(text, validate=True)
        except binascii.Error as error:
            raise InvalidArgumentError(
                f"the b64 field of tensor {tensor.name} is not base64: {error}{where}"
            ) from None
    raise InvalidArgumentError(
        f"The tensor values are not supported. Expected an array or b64 string{where}"
    )


def _of_values(tensor: Tensor, values: list[Any], where: str) -> bytes:
    try:
        if tensor.datatype == "BYTES":
            return serialize_bytes(_flat_texts(values))
        dtype = numpy_dtype(tensor.datatype)
        if np.issubdtype(dtype, np.integer):
            # From Python's integers: by way of floats large ones would change.
            return np.array(values, dtype=dtype).tobytes()
        return np.array(values, dtype=np.float64).astype(dtype).tobytes()
    except (ValueError, TypeError, OverflowError) as error:
        raise InvalidArgumentError(
            f"the values of tensor {tensor.name} are not of datatype {tensor.datatype}: "
            f"{error}{where}"
        ) from None


def _flat_texts(values: list[Any]) -> list[str]:
    found: list[str] = []
    for each in values:
        if isinstance(each, list):
            found += _flat_texts(each)
        elif isinstance(each, str):
            found.append(each)
        else:
            raise TypeError(f"expected strings, got {each!r}")
    return found


def _check_shape(tensor: Tensor, shape: Shape, where: str) -> None:
    if any(dim < 0 for dim in shape):
        raise InvalidArgumentError(
            f'The variable-sized tensor "{tensor.name}" with model shape {_listed(tensor.shape)} '
            "needs to have its shape fully defined. See the --shape option."
        )
    if not fits(shape, tensor):
        raise InvalidArgumentError(
            f'The supplied shape of {_listed(shape)} for input "{tensor.name}" is incompatible '
            f"with the model's input shape of {_listed(tensor.shape)}{where}"
        )


def _check_size(tensor: Tensor, shape: Shape, raw: bytes, where: str) -> None:
    if tensor.datatype == "BYTES":
        count, expected = count_elements(memoryview(raw)), prod(shape)
        if count != expected:
            raise InvalidArgumentError(
                f"provided data for input {tensor.name} has {count} elements, expect "
                f"{expected}{where}"
            )
        return
    size_bytes = prod(shape) * SIZE_BYTES[tensor.datatype]
    if len(raw) != size_bytes:
        raise InvalidArgumentError(
            f"mismatch in the data provided for {tensor.name}. Expected: {size_bytes} bytes, "
            f"Got: {len(raw)} bytes{where}"
        )


def _listed(shape: Shape) -> str:
    return "[" + ",".join(map(str, shape)) + "]"


def _directory(path: Path, model: Model, batch_size: int) -> Row:
    """Read a directory: a file for each tensor, raw, or of BYTES a line for each element."""
    known = {tensor.name for tensor in (*model.inputs, *model.outputs)}
    for file in sorted(path.iterdir()):
        if file.name not in known:
            raise InvalidArgumentError(
                f"Provided data file '{file.name}' does not correspond to a valid model input or "
                "output."
            )
    inputs: dict[str, Content] = {}
    for tensor in model.inputs:
        if tensor.is_optional and not (path / tensor.name).exists():
            continue
        raw = _file(path / tensor.name, tensor)
        _check_shape(tensor, tensor.shape, "")
        _check_size(tensor, tensor.shape, raw, "")
        inputs[tensor.name] = batched(model, tensor, tensor.shape, [raw] * batch_size)
    expected = {
        tensor.name: _file(path / tensor.name, tensor) * batch_size
        for tensor in model.outputs
        if (path / tensor.name).exists()
    }
    return Row(inputs, expected)


def _file(path: Path, tensor: Tensor) -> bytes:
    try:
        raw = path.read_bytes()
    except OSError:
        raise InvalidArgumentError(f"failed to open file '{path}'") from None
    if not raw:
        raise InvalidArgumentError(f"file '{path}' is empty")
    return serialize_bytes(raw.splitlines()) if tensor.datatype == "BYTES" else raw
