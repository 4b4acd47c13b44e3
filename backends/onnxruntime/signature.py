# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""What an ONNX model takes and gives.

Triton: onnxruntime_backend/src/onnxruntime_utils.cc ConvertFromOnnxDataType, InputOutputInfos
"""

from typing import Any

from backends.api.errors import UnsupportedError
from backends.framework.signature import Signature, TensorInfo
from backends.framework.validation import Rules

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

RULES = Rules(frozenset(_DATATYPE.values()))


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
