# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Every request of a run as JSON, in perf_analyzer's schema; times are nanoseconds since 1970.

Outputs are not kept, so ``response_outputs`` has an empty object for each response. A request at a
rate also says when it was to be sent, in ``intended_timestamp``.

Triton: perf_analyzer/src/profile_data_exporter.cc ConvertToJson @263c5f6
"""

import json
from collections.abc import Sequence
from typing import Any

import numpy as np

from backends.api.bytes_tensor import deserialize_bytes
from backends.api.datatypes import numpy_dtype
from manta_tools.perf.data.rows import Content, DataSet
from manta_tools.perf.options.checks import is_rate
from manta_tools.perf.options.table import PerfOptions
from manta_tools.perf.profiler import Measurement
from manta_tools.perf.records import Request


def profile_export(
    options: PerfOptions,
    data: DataSet,
    measurements: Sequence[Measurement],
    release: str,
    epoch_ns: int,
) -> str:
    """Return the export.

    Args:
        options: Of the run.
        data: What its requests carried.
        measurements: Its levels, with their requests.
        release: Of Manta.
        epoch_ns: When the run's clock was at 0, since 1970.
    """
    inputs = [
        [{name: _values(each) for name, each in row.inputs.items()} for row in stream]
        for stream in data.streams
    ]
    document = {
        "experiments": [
            {
                "experiment": {
                    "mode": "request_rate" if is_rate(options) else "concurrency",
                    "value": float(each.level) if is_rate(options) else int(each.level),
                },
                "requests": [
                    _request(request, inputs[request.data[0]][request.data[1]], epoch_ns)
                    for request in each.requests
                    if not request.error
                ],
                "window_boundaries": [epoch_ns + instant for instant in each.boundaries_ns],
            }
            for each in measurements
        ],
        "version": release,
        "service_kind": options.service_kind,
        "endpoint": options.endpoint,
    }
    return json.dumps(document, separators=(",", ":"))


def _request(request: Request, inputs: dict[str, Any], epoch_ns: int) -> dict[str, Any]:
    row: dict[str, Any] = {"timestamp": epoch_ns + request.start_ns}
    if request.intended_ns != request.start_ns:
        row["intended_timestamp"] = epoch_ns + request.intended_ns
    if request.sequence_id:
        row["sequence_id"] = request.sequence_id
    row["request_inputs"] = inputs
    row["response_timestamps"] = [epoch_ns + instant for instant in request.responses_ns]
    row["response_outputs"] = [{} for _ in request.responses_ns]
    return row


def _values(content: Content) -> Any:
    """Return a tensor's contents; one element stands alone, as perf_analyzer has it."""
    if content.datatype == "JSON":
        return content.raw.decode()
    if content.datatype == "BYTES":
        elements = deserialize_bytes(memoryview(content.raw))
        values: list[Any] = [each.decode(errors="replace") for each in elements]
    else:
        array = np.frombuffer(content.raw, numpy_dtype(content.datatype))
        if content.datatype == "BF16":
            array = array.astype(np.float32)
        values = [_number(each) for each in array.tolist()]
    return values[0] if len(values) == 1 else values


def _number(value: Any) -> Any:
    """Return a number as JSON can have it: infinity and NaN are null."""
    return None if isinstance(value, float) and not np.isfinite(value) else value
