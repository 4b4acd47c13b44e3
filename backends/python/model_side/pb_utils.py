# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""The module models import as ``triton_python_backend_utils``.

Triton: python_backend/src/resources/triton_python_backend_utils.py
"""

import re
from typing import Any

import numpy as np
import numpy.typing as npt

from backends.api.bytes_tensor import deserialize_bytes, serialize_bytes
from backends.api.custom_metrics import MetricKind
from backends.api.datatypes import DATATYPES
from backends.api.errors import TritonError as ApiError
from backends.python.model_side import calls
from backends.python.model_side.calls import ResponseIterator
from backends.python.model_side.current_model import CURRENT, refused
from backends.python.model_side.failure import TritonError, TritonModelException
from backends.python.model_side.logger import Logger
from backends.python.model_side.metrics import Metric, MetricFamily
from backends.python.model_side.model_config import ModelConfig
from backends.python.model_side.request import (
    RELEASE_ALL,
    RELEASE_RESCHEDULE,
    InferenceRequest,
    InferenceTrace,
    MemoryType,
    PreferredMemory,
)
from backends.python.model_side.response import (
    COMPLETE_FINAL,
    InferenceResponse,
    InferenceResponseSender,
)
from backends.python.model_side.tensor import Tensor

__all__ = [
    "TRITONSERVER_MEMORY_CPU",
    "TRITONSERVER_MEMORY_GPU",
    "TRITONSERVER_REQUEST_FLAG_SEQUENCE_END",
    "TRITONSERVER_REQUEST_FLAG_SEQUENCE_START",
    "TRITONSERVER_REQUEST_RELEASE_ALL",
    "TRITONSERVER_REQUEST_RELEASE_RESCHEDULE",
    "TRITONSERVER_RESPONSE_COMPLETE_FINAL",
    "TRITON_STRING_TO_NUMPY",
    "InferenceRequest",
    "InferenceResponse",
    "InferenceResponseSender",
    "InferenceTrace",
    "Logger",
    "MemoryType",
    "Metric",
    "MetricFamily",
    "MetricKind",
    "ModelConfig",
    "PreferredMemory",
    "ResponseIterator",
    "Tensor",
    "TritonError",
    "TritonModelException",
    "deserialize_bytes_tensor",
    "get_input_config_by_name",
    "get_input_tensor_by_name",
    "get_model_dir",
    "get_output_config_by_name",
    "get_output_tensor_by_name",
    "is_model_ready",
    "load_model",
    "numpy_to_triton_type",
    "serialize_byte_tensor",
    "triton_string_to_numpy",
    "triton_to_numpy_type",
    "unload_model",
    "using_decoupled_model_transaction_policy",
]

TRITONSERVER_REQUEST_FLAG_SEQUENCE_START = 1
TRITONSERVER_REQUEST_FLAG_SEQUENCE_END = 2
TRITONSERVER_RESPONSE_COMPLETE_FINAL = COMPLETE_FINAL
TRITONSERVER_REQUEST_RELEASE_ALL = RELEASE_ALL
TRITONSERVER_REQUEST_RELEASE_RESCHEDULE = RELEASE_RESCHEDULE
TRITONSERVER_MEMORY_CPU = MemoryType.TRITONSERVER_MEMORY_CPU
TRITONSERVER_MEMORY_GPU = MemoryType.TRITONSERVER_MEMORY_GPU

_BFLOAT16_ROWS = {"BF16"}

TRITON_STRING_TO_NUMPY: dict[str, Any] = {
    row.config_name: bool if row.name == "BOOL" else np.dtype(row.numpy_name).type
    for row in DATATYPES.values()
    if row.name not in _BFLOAT16_ROWS
}
_NUMPY_OF_NUMBER: dict[int, Any] = {
    number: np.dtype(row.numpy_name).type
    for number, row in enumerate(DATATYPES.values(), start=1)
    if row.name not in _BFLOAT16_ROWS
}
_NUMBER_OF_NUMPY: dict[Any, int] = {
    np.dtype(numpy_type): number for number, numpy_type in _NUMPY_OF_NUMBER.items()
}


def get_input_tensor_by_name(inference_request: InferenceRequest, name: str) -> Tensor | None:
    """Return a request's input of this name, or None."""
    for tensor in inference_request.inputs():
        if tensor._name == name:  # noqa: SLF001 - called for every input of every request
            return tensor
    return None


def get_output_tensor_by_name(inference_response: InferenceResponse, name: str) -> Tensor | None:
    """Return a response's output of this name, or None."""
    for tensor in inference_response.output_tensors():
        if tensor.name() == name:
            return tensor
    return None


def get_input_config_by_name(model_config: dict[str, Any], name: str) -> dict[str, Any] | None:
    """Return the properties of an input in a config given as a dict, or None."""
    return _named(model_config.get("input", ()), name)


def get_output_config_by_name(model_config: dict[str, Any], name: str) -> dict[str, Any] | None:
    """Return the properties of an output in a config given as a dict, or None."""
    return _named(model_config.get("output", ()), name)


def using_decoupled_model_transaction_policy(model_config: dict[str, Any]) -> bool:
    """Whether a config given as a dict makes its model decoupled."""
    return bool(model_config.get("model_transaction_policy", {}).get("decoupled", False))


def triton_to_numpy_type(data_type: int) -> Any:
    """Return the numpy type of a datatype's number, or None."""
    return _NUMPY_OF_NUMBER.get(data_type)


def numpy_to_triton_type(data_type: Any) -> int | None:
    """Return the number of the datatype of a numpy type, or None."""
    dtype = np.dtype(data_type)
    return _NUMBER_OF_NUMPY[np.dtype(object)] if dtype.kind == "S" else _NUMBER_OF_NUMPY.get(dtype)


def triton_string_to_numpy(triton_type_string: str) -> Any:
    """Return the numpy type of a datatype's name in a config, for example TYPE_FP32."""
    return TRITON_STRING_TO_NUMPY[triton_type_string]


def serialize_byte_tensor(input_tensor: npt.NDArray[Any]) -> Any:
    """Serialise an array of bytes objects to wire form; None for arrays of other datatypes."""
    if input_tensor.size == 0:
        return ()
    if input_tensor.dtype.kind not in "OS":
        return None
    return serialize_bytes(input_tensor.ravel())


def deserialize_bytes_tensor(encoded_tensor: bytes) -> npt.NDArray[Any]:
    """Read wire form into a flat array of bytes objects."""
    return np.array(deserialize_bytes(memoryview(encoded_tensor)), dtype=np.object_)


def get_model_dir() -> str:
    """Return the path of the version directory of the model this process runs."""
    return CURRENT.version_dir


def load_model(model_name: str, config: str = "", files: dict[Any, Any] | None = None) -> None:
    """Load or reload a model and wait until it is ready.

    Args:
        model_name: Model.
        config: Its config as JSON, in place of the repository's.
        files: By ``file:<path in the version's parent>``: contents, in place of the repository's.

    Raises:
        TritonModelException: It could not be loaded.
    """
    if files is not None and not isinstance(files, dict):
        raise TritonModelException(
            f"failed to load model '{model_name}', files should be a dictionary of file paths and "
            "file contents"
        )
    parameters: dict[str, Any] = {"config": config} if config else {}
    for path, contents in (files or {}).items():
        if not isinstance(path, str) or not isinstance(contents, bytes):
            raise TypeError(
                f"load_model('{model_name}', ..) takes files as bytes by str, got "
                f"{type(contents).__name__} by {type(path).__name__}"
            )
        parameters[path] = contents
    try:
        with calls.paused():
            calls.controller().load_model(model_name, parameters)
    except ApiError as error:
        raise refused("Failed to load model", error.message) from error


def unload_model(model_name: str, unload_dependents: bool = False) -> None:
    """Unload a model and wait until that is done.

    Raises:
        TritonModelException: It could not be unloaded.
    """
    try:
        with calls.paused():
            calls.controller().unload_model(model_name, unload_dependents=unload_dependents)
    except ApiError as error:
        raise refused("Failed to unload model", error.message) from error


def is_model_ready(model_name: str, model_version: str = "") -> bool:
    """Whether a version of a model, or with no version the newest, takes requests.

    Raises:
        TritonModelException: The version is no integer above 0.
    """
    what = "Failed to check model readiness"
    version = -1
    if model_version:
        # std::stol takes a sign and leading blanks, and ignores what follows the digits.
        digits = re.match(r"\s*[+-]?\d+", model_version)
        version = int(digits[0]) if digits else -1
        if version < 0:
            details = "" if digits else " (details: stol)"
            raise refused(
                what,
                f"failed to get model version from specified version string '{model_version}'"
                f"{details}, version should be an integral value > 0",
            )
    try:
        return calls.controller().is_model_ready(model_name, version)
    except ApiError as error:
        raise refused(what, error.message) from error


def _named(entries: Any, name: str) -> dict[str, Any] | None:
    for entry in entries:
        if entry["name"] == name:
            found: dict[str, Any] = entry
            return found
    return None
