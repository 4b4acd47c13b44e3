# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Questions as both protocols have them, and what their answers say."""

import json
from collections.abc import Mapping
from typing import Any, Final

import grpc
import numpy as np
from tritonclient.grpc import service_pb2

from tests.chaos.questions import Arrays, Question
from tests.chaos.records import ERROR, HUNG, LOST, OK, REFUSED, WRONG
from tests.chaos.shared_region import SharedRegion

_DATATYPES: Final = {"int32": "INT32", "int64": "INT64"}
_DTYPES: Final = {"INT32": np.int32, "INT64": np.int64}
_CODES: Final = {
    400: "INVALID_ARGUMENT",
    404: "NOT_FOUND",
    409: "ALREADY_EXISTS",
    429: "RESOURCE_EXHAUSTED",
    499: "CANCELLED",
    500: "INTERNAL",
    501: "UNIMPLEMENTED",
    503: "UNAVAILABLE",
    504: "DEADLINE_EXCEEDED",
}
# What gRPC's core says of a connection, in place of what a server says of a request.
_TRANSPORT_TEXTS: Final = (
    "Socket closed",
    "Connection reset",
    "Broken pipe",
    "Stream removed",
    "recvmsg",
    "sendmsg",
    "GOAWAY",
    "Transport closed",
    "keepalive",
    "connections to all backends failing",
)
_REFUSED_TEXTS: Final = ("failed to connect to all addresses",)

# Kind, code and detail of a record.
Outcome = tuple[str, str, str]
_FINE: Final[Outcome] = (OK, "", "")


def http_body(question: Question, region: SharedRegion | None) -> bytes:
    """Return a question as JSON."""
    inputs = []
    for name, array in question.inputs.items():
        tensor: dict[str, Any] = {
            "name": name,
            "datatype": _DATATYPES[str(array.dtype)],
            "shape": list(array.shape),
        }
        if region is None:
            tensor["data"] = array.reshape(-1).tolist()
        else:
            tensor["parameters"] = region.parameters(name, array.nbytes)
        inputs.append(tensor)
    body: dict[str, Any] = {"id": str(question.number), "inputs": inputs}
    if question.parameters:
        body["parameters"] = dict(question.parameters)
    if region is not None:
        (expected,) = question.expected
        body["outputs"] = [
            {"name": name, "parameters": region.parameters(name, array.nbytes)}
            for name, array in expected.items()
        ]
    return json.dumps(body).encode()


def of_http(question: Question, region: SharedRegion | None, status: int, answer: bytes) -> Outcome:
    """Say what an answer over HTTP is."""
    if status != 200:
        code = _CODES.get(status, str(status))
        return ERROR, code, answer[:300].decode(errors="replace")
    try:
        found = json.loads(answer)
        outputs = {
            each["name"]: None
            if region is not None
            else np.array(each["data"], _DTYPES[each["datatype"]]).reshape(each["shape"])
            for each in found["outputs"]
        }
        return compare(question, str(found["id"]), [_in(region, question, outputs)])
    except (ValueError, LookupError, TypeError) as error:
        return WRONG, "", f"malformed answer: {type(error).__name__}: {error}: {answer[:200]!r}"


def grpc_request(question: Question, region: SharedRegion | None) -> service_pb2.ModelInferRequest:
    """Return a question as a message."""
    request = service_pb2.ModelInferRequest(model_name=question.model, id=str(question.number))
    _set(request.parameters, question.parameters)
    for name, array in question.inputs.items():
        tensor = request.inputs.add(
            name=name, datatype=_DATATYPES[str(array.dtype)], shape=array.shape
        )
        if region is None:
            request.raw_input_contents.append(array.tobytes())
        else:
            _set(tensor.parameters, region.parameters(name, array.nbytes))
    if region is not None:
        (expected,) = question.expected
        for name, array in expected.items():
            output = request.outputs.add(name=name)
            _set(output.parameters, region.parameters(name, array.nbytes))
    return request


def of_grpc(
    question: Question,
    region: SharedRegion | None,
    answers: list[service_pb2.ModelInferResponse],
) -> Outcome:
    """Say what the responses over gRPC are."""
    responses = []
    for answer in answers:
        outputs: dict[str, np.ndarray | None]
        if region is not None:
            outputs = {each.name: None for each in answer.outputs}
        else:
            outputs = {
                each.name: np.frombuffer(raw, _DTYPES[each.datatype]).reshape(tuple(each.shape))
                for each, raw in zip(answer.outputs, answer.raw_output_contents, strict=True)
            }
        responses.append(_in(region, question, outputs))
    ids = {answer.id for answer in answers} or {str(question.number)}
    return compare(question, ",".join(sorted(ids)), responses)


def of_rpc_error(error: grpc.RpcError) -> Outcome:
    """Say what kind of an end a failed call is."""
    code, text = error.code(), error.details() or ""
    if code is grpc.StatusCode.UNAVAILABLE:
        if any(each in text for each in _REFUSED_TEXTS):
            return REFUSED, "", text[-200:]
        if any(each in text for each in _TRANSPORT_TEXTS):
            return LOST, "", text[-200:]
    if code is grpc.StatusCode.DEADLINE_EXCEEDED:
        return HUNG, "", "no answer within the deadline"
    return ERROR, code.name, text[:300]


def of_stream_error(text: str) -> Outcome:
    """Say what an error on a stream is: streams have texts in place of codes."""
    # UNAVAILABLE is what another attempt may mend, and says so.
    return ERROR, "UNAVAILABLE" if "again" in text else "", text[:300]


def compare(question: Question, answered_id: str, responses: list[Arrays]) -> Outcome:
    """Hold the responses against those that the question expects."""
    if answered_id != str(question.number):
        return WRONG, "", f"the answer has the id {answered_id}"
    if len(responses) != len(question.expected):
        return WRONG, "", f"{len(responses)} responses in place of {len(question.expected)}"
    for found, expected in zip(responses, question.expected, strict=True):
        if found.keys() != expected.keys():
            return WRONG, "", f"outputs {sorted(found)} in place of {sorted(expected)}"
        for name, array in expected.items():
            if not np.array_equal(found[name], array):
                shown, wanted = found[name].reshape(-1)[:4], array.reshape(-1)[:4]
                return WRONG, "", f"{name} begins {shown} in place of {wanted}"
    return _FINE


def _in(
    region: SharedRegion | None, question: Question, outputs: Mapping[str, np.ndarray | None]
) -> Arrays:
    """Return the outputs with those that lie in the region."""
    if region is None:
        return {name: array for name, array in outputs.items() if array is not None}
    (expected,) = question.expected
    return {name: region.get(expected[name]) for name in outputs}


def _set(parameters: Any, values: Mapping[str, str | int | bool]) -> None:
    for name, value in values.items():
        if isinstance(value, bool):
            parameters[name].bool_param = value
        elif isinstance(value, int):
            parameters[name].int64_param = value
        else:
            parameters[name].string_param = value
