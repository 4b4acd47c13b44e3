# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Trace files as Triton writes them, by any number of processes of a node.

A file is a JSON array at any time: each write replaces the closing bracket, under a lock that all
writers take. What an earlier server left is overwritten, as in Triton; it is older than the
server's start.

Triton: server/src/tracer.cc TraceManager::TraceFile, TraceActivity, TraceTensorActivity @e1db8a6
"""

import fcntl
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np
import orjson

from backends.api.bytes_tensor import deserialize_bytes
from backends.api.request import Tensor, tensor_as_numpy
from deployments.tracing.record import Activity, TracedModel

_FILE_MODE: Final = 0o644
# What Triton records no values of.
_UNSHOWN: Final = frozenset(("FP16", "BF16"))


def tensor_text(tensor: Tensor) -> str:
    """Return a tensor's elements as Triton's traces show them, separated by commas.

    Empty for FP16 and BF16, as in Triton, and for tensors whose bytes are not here or do not fit.
    """
    if not tensor.data or tensor.datatype in _UNSHOWN:
        return ""
    try:
        return _elements_text(tensor)
    except ValueError:
        return ""


def _elements_text(tensor: Tensor) -> str:
    if tensor.datatype == "BYTES":
        return ",".join(
            f'"{element.decode("utf-8", "replace")}"' for element in deserialize_bytes(tensor.data)
        )
    array = tensor_as_numpy(tensor).ravel()
    if tensor.datatype == "BOOL":
        return ",".join("1" if element else "0" for element in array.tolist())
    if np.issubdtype(array.dtype, np.floating):
        return ",".join(f"{element:g}" for element in array.tolist())
    return ",".join(map(str, array.tolist()))


def trace_json(
    models: Sequence[TracedModel], front: Sequence[Activity], *, has_timestamps: bool
) -> bytes:
    """Return the elements of a trace, separated by commas.

    Args:
        models: The records; the first is that of the client's request.
        front: What the protocol's end noted; belongs to the first record.
        has_timestamps: Whether activities are part of the trace.
    """
    elements = [*_elements(models, front, has_timestamps=has_timestamps)]
    return orjson.dumps(elements)[1:-1]


def _elements(
    models: Sequence[TracedModel], front: Sequence[Activity], *, has_timestamps: bool
) -> Iterator[dict[str, Any]]:
    for index, model in enumerate(models):
        if has_timestamps:
            activities = [*model.activities, *(() if index else front)]
            yield _head(model)
            for name, ns in sorted(activities, key=lambda activity: activity[1]):
                yield {"id": model.id, "timestamps": [{"name": name, "ns": ns}]}
        for tensor in model.tensors:
            shown = {
                "name": tensor.name,
                "data": tensor.data,
                "shape": ",".join(map(str, tensor.shape)),
                "dtype": tensor.datatype,
            }
            yield {"id": model.id, "activity": tensor.activity, "tensor": shown}


def _head(model: TracedModel) -> dict[str, Any]:
    head: dict[str, Any] = {
        "id": model.id,
        "model_name": model.model_name,
        "model_version": model.model_version,
    }
    if model.request_id:
        head["request_id"] = model.request_id
    if model.parent_id:
        head["parent_id"] = model.parent_id
    return head


def append_traces(path: str, elements: bytes, started_s: float) -> None:
    """Add elements to the array in a file, which is made if need be.

    Args:
        path: The file.
        elements: JSON values, separated by commas.
        started_s: A file last written before this is overwritten, seconds since the epoch.

    Raises:
        OSError: The file cannot be written.
    """
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, _FILE_MODE)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        found = os.fstat(descriptor)
        is_ours = found.st_size > 1 and found.st_mtime >= started_s
        if not is_ours:
            os.ftruncate(descriptor, 0)
        start, opening = (found.st_size - 1, b",") if is_ours else (0, b"[")
        _write_at(descriptor, b"%s%s]" % (opening, elements), start)
    finally:
        os.close(descriptor)


def write_indexed_traces(path: str, elements: bytes, started_s: float, from_index: int = 0) -> int:
    """Write elements as an array to the next file ``<path>.<index>`` and return its index.

    Args:
        path: What the names begin with.
        elements: JSON values, separated by commas.
        started_s: A file last written before this counts as not there.
        from_index: The first index that may be free.

    Raises:
        OSError: The file cannot be written.
    """
    folder = os.open(Path(path).parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        fcntl.flock(folder, fcntl.LOCK_EX)
        index = from_index
        while _is_written(f"{path}.{index}", started_s):
            index += 1
        Path(f"{path}.{index}").write_bytes(b"[%s]" % elements)
        return index
    finally:
        os.close(folder)


def _is_written(name: str, started_s: float) -> bool:
    try:
        return Path(name).stat().st_mtime >= started_s
    except FileNotFoundError:
        return False


def _write_at(descriptor: int, data: bytes, offset: int) -> None:
    view = memoryview(data)
    while view:
        written = os.pwrite(descriptor, view, offset)
        view, offset = view[written:], offset + written
