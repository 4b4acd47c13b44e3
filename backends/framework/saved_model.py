# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Reads what a TensorFlow SavedModel tells of its signatures, without TensorFlow.

Importing TensorFlow takes seconds and half a gigabyte, and `saved_model.pb` is a protobuf message
of which only a few fields are asked for: the rest, graph and weights, is skipped unread.

Triton: tensorflow_backend/src/mirror/tensorflow_backend_tf.cc TRITONTF_ModelCreateFromSavedModel
"""

import logging
import mmap
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from backends.api.errors import InternalError
from backends.framework.signature import Signature, TensorInfo
from backends.framework.wire import entries, last_signed, messages, numbers, text

logger = logging.getLogger(__name__)

MODEL_FILE = "saved_model.pb"
DEFAULT_SIGNATURE = "serving_default"

_DEFAULT_TAG = "serve"
_NO_SIGNATURES = frozenset({"__saved_model_init_op", "__saved_model_train_op"})

# By number of TensorFlow's DataType.
_DATATYPES = {
    1: "FP32",
    2: "FP64",
    3: "INT32",
    4: "UINT8",
    5: "INT16",
    6: "INT8",
    7: "BYTES",
    9: "INT64",
    10: "BOOL",
    14: "BF16",
    17: "UINT16",
    19: "FP16",
    22: "UINT32",
    23: "UINT64",
}

# Field numbers of SavedModel, MetaGraphDef, MetaInfoDef, SignatureDef, TensorInfo and
# TensorShapeProto.
_META_GRAPHS = 2
_META_INFO, _SIGNATURES = 1, 5
_TAGS = 4
_INPUTS, _OUTPUTS = 1, 2
_TENSOR_NAME, _TENSOR_TYPE, _TENSOR_SHAPE = 1, 2, 3
_DIMS, _UNKNOWN_RANK = 2, 3
_SIZE = 1


@dataclass(frozen=True, slots=True)
class SavedSignature:
    """One way to call a model.

    Attributes:
        name: Its key.
        signature: Its tensors, by the names that clients use.
        tensors: By those, the names they have in the graph, ``x:0`` for instance.
    """

    name: str
    signature: Signature
    tensors: Mapping[str, str]


def read_signature(directory: str, model: str, tag: str, signature: str) -> SavedSignature:
    """Return the signature that a model of a SavedModel is called by.

    Args:
        directory: The SavedModel.
        model: The model's name, for errors.
        tag: Tag of the graph; empty for ``serve``.
        signature: Its key; empty for ``serving_default``, or else the first there is.

    Raises:
        InternalError: The file cannot be read, or has no such graph or signature.
    """
    path = Path(directory, MODEL_FILE)
    try:
        with path.open("rb") as file:
            graphs = _graphs(memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)))
    # An empty file cannot be mapped, which is a ValueError, too.
    except (OSError, ValueError) as error:
        raise InternalError(
            f"failed to load model '{model}': '{path}' cannot be read as a SavedModel: {error}"
        ) from None
    tags = tag or _DEFAULT_TAG
    for own, signatures in graphs:
        if own == (tags,):
            return _chosen(signatures, model, signature)
    available = ", ".join("{ " + ", ".join(own) + " }" for own, _ in graphs)
    raise InternalError(
        f"failed to load model '{model}': Could not find meta graph def matching supplied tags: "
        f"{{ {tags} }}; '{path}' has {available}. Set the parameter TF_GRAPH_TAG"
    )


def _chosen(signatures: Mapping[str, SavedSignature], model: str, wanted: str) -> SavedSignature:
    if wanted and wanted not in signatures:
        raise InternalError(
            f"unable to load model '{model}', expected '{wanted}' signature; there are "
            f"{', '.join(sorted(signatures))}"
        )
    name = wanted or DEFAULT_SIGNATURE
    if name not in signatures:
        others = sorted(signatures.keys() - _NO_SIGNATURES)
        if not others:
            raise InternalError(f"unable to load model '{model}', expected '{name}' signature")
        logger.warning(
            "unable to find '%s' signature of model '%s', using signature '%s' instead",
            name,
            model,
            others[0],
        )
        name = others[0]
    return signatures[name]


_Graph = tuple[tuple[str, ...], dict[str, SavedSignature]]


def _graphs(data: memoryview) -> list[_Graph]:
    return [_graph(graph) for graph in messages(data, _META_GRAPHS)]


def _graph(data: memoryview) -> _Graph:
    tags = [text(tag) for info in messages(data, _META_INFO) for tag in messages(info, _TAGS)]
    signatures = {key: _signature(key, value) for key, value in entries(data, _SIGNATURES)}
    return tuple(sorted(tags)), signatures


def _signature(name: str, data: memoryview) -> SavedSignature:
    sides = [sorted(entries(data, field), key=_key) for field in (_INPUTS, _OUTPUTS)]
    inputs, outputs = (tuple(_tensor_info(key, value) for key, value in rows) for rows in sides)
    tensors = {
        key: "".join(map(text, messages(value, _TENSOR_NAME)))
        for rows in sides
        for key, value in rows
    }
    return SavedSignature(name, Signature(inputs, outputs), tensors)


def _tensor_info(name: str, data: memoryview) -> TensorInfo:
    types = list(numbers(data, _TENSOR_TYPE))
    datatype = _DATATYPES.get(types[-1]) if types else None
    for shape in messages(data, _TENSOR_SHAPE):
        if any(numbers(shape, _UNKNOWN_RANK)):
            return TensorInfo(name, datatype)
        return TensorInfo(name, datatype, tuple(_dim(dim) for dim in messages(shape, _DIMS)))
    return TensorInfo(name, datatype)


def _dim(data: memoryview) -> int:
    return max(last_signed(data, _SIZE), -1)


def _key(entry: tuple[str, memoryview]) -> str:
    return entry[0]
