# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Writes small SavedModels and GraphDefs without TensorFlow, which takes seconds to import."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

TYPES = {"FP32": 1, "FP64": 2, "INT32": 3, "BYTES": 7, "COMPLEX64": 8, "INT64": 9, "BOOL": 10}


def varint(value: int) -> bytes:
    """Encode a number; negative ones as 64 bits."""
    value &= (1 << 64) - 1
    found = bytearray()
    while value > 0x7F:
        found.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*found, value])


def field(number: int, value: int | bytes | str) -> bytes:
    """Encode one field of a protobuf message."""
    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    content = value.encode() if isinstance(value, str) else value
    return varint(number << 3 | 2) + varint(len(content)) + content


def entry(number: int, key: str, value: bytes) -> bytes:
    """Encode one entry of a map from strings to messages."""
    return field(number, field(1, key) + field(2, value))


def shape(dims: Sequence[int] | None) -> bytes:
    """Encode a TensorShapeProto; None is an unknown rank."""
    if dims is None:
        return field(3, 1)
    return b"".join(field(2, field(1, dim)) for dim in dims)


def node(name: str, operation: str, *inputs: str, **attributes: bytes) -> bytes:
    """Encode a NodeDef; attributes are encoded AttrValues."""
    return (
        field(1, name)
        + field(2, operation)
        + b"".join(field(3, each) for each in inputs)
        + b"".join(entry(5, key, value) for key, value in attributes.items())
    )


def placeholder(name: str, datatype: str, dims: Sequence[int] | None) -> bytes:
    """Encode an input."""
    return node(name, "Placeholder", dtype=field(6, TYPES[datatype]), shape=field(7, shape(dims)))


def binary(name: str, operation: str, left: str, right: str, datatype: str) -> bytes:
    """Encode an operation of two inputs of one type."""
    return node(name, operation, left, right, T=field(6, TYPES[datatype]))


def constant(name: str, array: np.ndarray, datatype: str) -> bytes:
    """Encode a constant."""
    tensor = field(1, TYPES[datatype]) + field(2, shape(array.shape)) + field(4, array.tobytes())
    return node(name, "Const", dtype=field(6, TYPES[datatype]), value=field(8, tensor))


def graph(*nodes: bytes) -> bytes:
    """Encode a GraphDef."""
    return b"".join(field(1, each) for each in nodes) + field(4, field(1, 1087))


@dataclass(frozen=True)
class Named:
    """A tensor of a signature: its name in the graph, its datatype and its shape."""

    tensor: str
    datatype: str
    dims: Sequence[int] | None

    def encoded(self) -> bytes:
        """Encode as TensorInfo."""
        return field(1, self.tensor) + field(2, TYPES[self.datatype]) + field(3, shape(self.dims))


def signature(inputs: Mapping[str, Named], outputs: Mapping[str, Named]) -> bytes:
    """Encode a SignatureDef."""
    return (
        b"".join(entry(1, key, value.encoded()) for key, value in inputs.items())
        + b"".join(entry(2, key, value.encoded()) for key, value in outputs.items())
        + field(3, "tensorflow/serving/predict")
    )


def save(
    directory: str,
    definition: bytes,
    signatures: Mapping[str, bytes],
    tags: Sequence[str] = ("serve",),
) -> None:
    """Write a SavedModel with one graph and no variables."""
    info = b"".join(field(4, tag) for tag in tags) + field(5, "2.21.0")
    meta = field(1, info) + field(2, definition)
    meta += b"".join(entry(5, key, value) for key, value in signatures.items())
    Path(directory).mkdir(parents=True, exist_ok=True)
    Path(directory, "saved_model.pb").write_bytes(field(1, 1) + field(2, meta))


def add_sub_graph(dims: Sequence[int] | None, datatype: str = "INT32") -> bytes:
    """Return the graph of sum = a + b, difference = a - b."""
    return graph(
        placeholder("a", datatype, dims),
        placeholder("b", datatype, dims),
        binary("sum", "AddV2", "a", "b", datatype),
        binary("difference", "Sub", "a", "b", datatype),
    )


def save_add_sub(
    directory: str,
    dims: Sequence[int] | None = (-1, 4),
    *,
    datatype: str = "INT32",
    key: str = "serving_default",
    tags: Sequence[str] = ("serve",),
) -> None:
    """OUTPUT0 = INPUT0 + INPUT1, OUTPUT1 = INPUT0 - INPUT1."""
    both = signature(
        {"INPUT0": Named("a:0", datatype, dims), "INPUT1": Named("b:0", datatype, dims)},
        {
            "OUTPUT0": Named("sum:0", datatype, dims),
            "OUTPUT1": Named("difference:0", datatype, dims),
        },
    )
    save(directory, add_sub_graph(dims, datatype), {key: both}, tags)


def save_linear(directory: str) -> None:
    """P = X [n, 8] @ W [8, 3], seeded."""
    weights = np.random.default_rng(0).standard_normal((8, 3)).astype(np.float32)
    definition = graph(
        placeholder("x", "FP32", (-1, 8)),
        constant("w", weights, "FP32"),
        binary("p", "MatMul", "x", "w", "FP32"),
    )
    both = signature({"X": Named("x:0", "FP32", (-1, 8))}, {"P": Named("p:0", "FP32", (-1, 3))})
    save(directory, definition, {"serving_default": both})
