# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""A captured request and its answers, and their form in a file: one JSON object a line. Pure.

Tensors are in the V2 wire form, base64 of it. What is not kept says so (``omitted``), with the size
it had.
"""

import base64
import binascii
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Final

import orjson

from backends.api.errors import InvalidArgumentError
from backends.api.request import InferenceRequest, InferenceResponse, ParameterValue, Tensor
from deployments.captures.rules import CaptureLimits, Redaction, matches

FORM: Final = 1
REDACTED: Final = "redacted"
TOO_LARGE: Final = "size"
ELSEWHERE: Final = "shared memory"

Parameters = Mapping[str, ParameterValue]


@dataclass(frozen=True, slots=True)
class KeptTensor:
    """A tensor of a record.

    Attributes:
        name: Its name.
        datatype: V2 datatype name.
        shape: Full shape.
        data: Wire bytes; empty when it was not kept.
        omitted: Why it was not kept; empty for one that was.
        size_bytes: What it took.
    """

    name: str
    datatype: str
    shape: tuple[int, ...]
    data: bytes = b""
    omitted: str = ""
    size_bytes: int = 0


@dataclass(frozen=True, slots=True)
class KeptRequest:
    """What is kept of a request; see `backends.api.request.InferenceRequest`."""

    id: str
    inputs: tuple[KeptTensor, ...]
    outputs: tuple[str, ...]
    parameters: Parameters
    priority: int
    timeout_us: int
    correlation_id: int | str
    flags: int


@dataclass(frozen=True, slots=True)
class KeptResponse:
    """What is kept of a response."""

    outputs: tuple[KeptTensor, ...]
    parameters: Parameters


@dataclass(slots=True)
class CaptureRecord:
    """One inference.

    Attributes:
        id: Of this record, unique.
        time_s: When the request came, seconds of the wall clock.
        model: Name of the model that was asked.
        version: The version that answered, or was to.
        digest: Of what that version was loaded from; may be empty.
        arm: Of a rollout; empty without one.
        tenant: Whom the request counted for; empty for none.
        request: None when that half is not kept.
        responses: Empty when that half is not kept.
        is_truncated: Whether further responses were not kept.
        outcome: ``ok``, or the TRITONSERVER code of the error.
        message: The error's.
        latency_us: From the request to its last outcome.
        size_bytes: Of the tensors that are kept.
    """

    id: str
    time_s: float
    model: str
    version: str
    digest: str = ""
    arm: str = ""
    tenant: str = ""
    request: KeptRequest | None = None
    responses: list[KeptResponse] = field(default_factory=list)
    is_truncated: bool = False
    outcome: str = "ok"
    message: str = ""
    latency_us: int = 0
    size_bytes: int = 0

    def keep_request(
        self, request: InferenceRequest, redaction: Redaction, limits: CaptureLimits
    ) -> None:
        """Copy what is kept of a request; to be called before the request is sent on."""
        self.request = KeptRequest(
            request.id if redaction.has_ids else "",
            self._tensors(request.inputs, redaction.inputs, limits),
            tuple(request.outputs),
            _parameters(request.parameters, redaction),
            request.priority,
            request.timeout_us,
            request.correlation_id if redaction.has_ids else 0,
            request.flags,
        )

    def keep_response(
        self, response: InferenceResponse, redaction: Redaction, limits: CaptureLimits
    ) -> None:
        """Copy what is kept of a response."""
        if self.is_truncated or self.size_bytes >= limits.record_bytes:
            self.is_truncated = True
            return
        self.responses.append(
            KeptResponse(
                self._tensors(response.outputs, redaction.outputs, limits),
                _parameters(response.parameters, redaction),
            )
        )

    def _tensors(
        self, tensors: Sequence[Tensor], hidden: Sequence[str], limits: CaptureLimits
    ) -> tuple[KeptTensor, ...]:
        return tuple(self._tensor(each, hidden, limits) for each in tensors)

    def _tensor(self, tensor: Tensor, hidden: Sequence[str], limits: CaptureLimits) -> KeptTensor:
        size = tensor.data.nbytes
        omitted = ""
        if tensor.extent is not None:
            omitted, size = ELSEWHERE, tensor.extent.size_bytes
        elif matches(tensor.name, hidden):
            omitted = REDACTED
        elif size > limits.tensor_bytes or self.size_bytes + size > limits.record_bytes:
            omitted = TOO_LARGE
        if omitted:
            return KeptTensor(tensor.name, tensor.datatype, tensor.shape, b"", omitted, size)
        self.size_bytes += size
        return KeptTensor(tensor.name, tensor.datatype, tensor.shape, bytes(tensor.data), "", size)


def _parameters(given: Parameters, redaction: Redaction) -> Parameters:
    return {key: REDACTED if _is_hidden(key, redaction) else value for key, value in given.items()}


def _is_hidden(parameter: str, redaction: Redaction) -> bool:
    return parameter.lower() in redaction.credentials or matches(parameter, redaction.parameters)


def to_line(record: CaptureRecord) -> bytes:
    """Return a record as a line of a file, its end included."""
    asked, document = record.request, _head(record)
    if asked is not None:
        document["request"] = {
            "id": asked.id,
            "inputs": [_shown(each) for each in asked.inputs],
            "outputs": list(asked.outputs),
            "parameters": dict(asked.parameters),
            "priority": asked.priority,
            "timeout_us": asked.timeout_us,
            "correlation_id": asked.correlation_id,
            "flags": asked.flags,
        }
    document["responses"] = [
        {
            "outputs": [_shown(each) for each in response.outputs],
            "parameters": dict(response.parameters),
        }
        for response in record.responses
    ]
    return orjson.dumps(document, option=orjson.OPT_APPEND_NEWLINE)


def _head(record: CaptureRecord) -> dict[str, Any]:
    return {
        "manta_capture": FORM,
        "id": record.id,
        "time": datetime.fromtimestamp(record.time_s, UTC).isoformat(),
        "model": record.model,
        "version": record.version,
        "digest": record.digest,
        "arm": record.arm,
        "tenant": record.tenant,
        "outcome": record.outcome,
        "message": record.message,
        "latency_us": record.latency_us,
        "is_truncated": record.is_truncated,
    }


def _shown(tensor: KeptTensor) -> dict[str, Any]:
    shown: dict[str, Any] = {
        "name": tensor.name,
        "datatype": tensor.datatype,
        "shape": list(tensor.shape),
    }
    if tensor.omitted:
        return shown | {"omitted": tensor.omitted, "size_bytes": tensor.size_bytes}
    return shown | {"data": base64.b64encode(tensor.data).decode()}


def from_line(line: bytes) -> CaptureRecord:
    """Read a line that `to_line` has written.

    Raises:
        InvalidArgumentError: It is none.
    """
    try:
        document = orjson.loads(line)
        if document["manta_capture"] != FORM:
            raise InvalidArgumentError(
                f"a record of form {document['manta_capture']}, expected {FORM}: it was written by"
                " another release"
            )
        asked = document.get("request")
        return CaptureRecord(
            id=str(document["id"]),
            time_s=datetime.fromisoformat(document["time"]).timestamp(),
            model=str(document["model"]),
            version=str(document["version"]),
            digest=str(document["digest"]),
            arm=str(document["arm"]),
            tenant=str(document["tenant"]),
            request=None if asked is None else _read_request(asked),
            responses=[
                KeptResponse(tuple(map(_read_tensor, row["outputs"])), dict(row["parameters"]))
                for row in document["responses"]
            ],
            is_truncated=bool(document["is_truncated"]),
            outcome=str(document["outcome"]),
            message=str(document["message"]),
            latency_us=int(document["latency_us"]),
        )
    except (ValueError, KeyError, TypeError, AttributeError, binascii.Error) as error:
        raise InvalidArgumentError(
            f"{line[:60]!r} is no record of a capture: {type(error).__name__}: {error}"
        ) from None


def _read_request(row: Mapping[str, Any]) -> KeptRequest:
    return KeptRequest(
        str(row["id"]),
        tuple(map(_read_tensor, row["inputs"])),
        tuple(map(str, row["outputs"])),
        dict(row["parameters"]),
        int(row["priority"]),
        int(row["timeout_us"]),
        row["correlation_id"],
        int(row["flags"]),
    )


def _read_tensor(row: Mapping[str, Any]) -> KeptTensor:
    data = base64.b64decode(row.get("data", ""), validate=True)
    return KeptTensor(
        str(row["name"]),
        str(row["datatype"]),
        tuple(map(int, row["shape"])),
        data,
        str(row.get("omitted", "")),
        int(row.get("size_bytes", len(data))),
    )
