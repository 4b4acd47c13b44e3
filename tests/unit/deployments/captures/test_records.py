# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from backends.api.errors import InvalidArgumentError
from backends.api.request import (
    Extent,
    InferenceRequest,
    InferenceResponse,
    Tensor,
    tensor_from_numpy,
)
from deployments.captures.records import (
    REDACTED,
    TOO_LARGE,
    CaptureRecord,
    KeptTensor,
    from_line,
    to_line,
)
from deployments.captures.rules import CaptureLimits, Redaction, read_rules

LIMITS = CaptureLimits(tensor_bytes=64, record_bytes=100)


def _record() -> CaptureRecord:
    return CaptureRecord("one", 1700000000.25, "m", "3", "d1", "canary", "team")


def _tensor(name: str, count: int) -> Tensor:
    return tensor_from_numpy(name, np.arange(count, dtype=np.float32))


def test_a_record_is_the_same_after_its_line() -> None:
    record = _record()
    request = InferenceRequest(
        "m", id="7", inputs=[_tensor("X", 3)], outputs=["Y"], parameters={"a": 1, "b": "x"}
    )
    request.priority, request.timeout_us, request.correlation_id, request.flags = 2, 9, "s", 3
    record.keep_request(request, Redaction(), LIMITS)
    response = InferenceResponse("m", "3", outputs=[_tensor("Y", 2)], parameters={"c": True})
    record.keep_response(response, Redaction(), LIMITS)
    record.latency_us = 12
    again = from_line(to_line(record))
    again.size_bytes = record.size_bytes
    assert again == record
    assert len(to_line(record).splitlines()) == 1


def test_what_is_redacted_is_in_no_line() -> None:
    record = _record()
    request = InferenceRequest("m", id="secret-id", parameters={"user": "secret-name", "a": 1})
    request.inputs = [tensor_from_numpy("PIN", np.array([b"secret-pin"], dtype=object))]
    request.correlation_id = "secret-sequence"
    hidden = Redaction(("P*",), ("*",), ("user",), has_ids=False)
    record.keep_request(request, hidden, LIMITS)
    output = tensor_from_numpy("Y", np.array([b"secret-answer"], dtype=object))
    record.keep_response(InferenceResponse("m", "3", outputs=[output]), hidden, LIMITS)
    line = to_line(record)
    assert b"secret" not in line
    assert b"c2Vjcm" not in line  # base64 of it
    shown = json.loads(line)
    assert shown["request"]["parameters"] == {"user": REDACTED, "a": 1}
    assert shown["request"]["inputs"][0]["omitted"] == REDACTED
    assert shown["request"]["inputs"][0]["shape"] == [1]


def test_large_tensors_are_named_and_not_kept() -> None:
    record = _record()
    inputs = [_tensor("A", 17), _tensor("B", 16), _tensor("C", 16)]
    record.keep_request(InferenceRequest("m", inputs=inputs), Redaction(), LIMITS)
    assert record.request is not None
    assert [each.omitted for each in record.request.inputs] == [TOO_LARGE, "", TOO_LARGE]
    assert record.size_bytes == 64


def test_tensors_in_shared_memory_are_named_and_not_kept() -> None:
    record = _record()
    tensor = Tensor("A", "FP32", (4,), extent=Extent("region", 0, 16))
    record.keep_request(InferenceRequest("m", inputs=[tensor]), Redaction(), LIMITS)
    assert record.request is not None
    kept = record.request.inputs[0]
    assert (kept.omitted, kept.size_bytes, kept.data) == ("shared memory", 16, b"")


def test_a_long_stream_is_cut_and_says_so() -> None:
    record = _record()
    for _ in range(5):
        response = InferenceResponse("m", "3", outputs=[_tensor("Y", 16)])
        record.keep_response(response, Redaction(), LIMITS)
    record.size_bytes = LIMITS.record_bytes
    record.keep_response(InferenceResponse("m", "3"), Redaction(), LIMITS)
    assert record.is_truncated
    assert len(record.responses) == 5


def test_memory_of_a_request_may_change_afterwards() -> None:
    record = _record()
    memory = bytearray(b"\1\2\3\4")
    tensor = Tensor("A", "UINT8", (4,), memoryview(memory))
    record.keep_request(InferenceRequest("m", inputs=[tensor]), Redaction(), LIMITS)
    memory[:] = b"\0\0\0\0"
    assert record.request is not None
    assert record.request.inputs == (KeptTensor("A", "UINT8", (4,), b"\1\2\3\4", "", 4),)


@given(st.binary(max_size=40) | st.text(max_size=20).map(lambda text: json.dumps(text).encode()))
def test_what_is_no_record_is_refused(line: bytes) -> None:
    with pytest.raises(InvalidArgumentError):
        from_line(line)


def test_a_record_of_another_form_is_refused() -> None:
    line = to_line(_record()).replace(b'"manta_capture":1', b'"manta_capture":2')
    with pytest.raises(InvalidArgumentError, match="form 2, expected 1"):
        from_line(line)


def test_credentials_that_are_forwarded_as_parameters_are_in_no_line() -> None:
    document = {"store": "/x", "captures": [{"models": ["*"]}]}
    rule = read_rules(document).hiding({"x-restricted"}).rule_of("m")
    assert rule is not None
    parameters = {"Authorization": "hush", "cookie": "hush", "X-Restricted": "hush", "a": 1}
    record = CaptureRecord("id", 0.0, "m", "1")
    request = InferenceRequest("m", parameters=parameters)
    record.keep_request(request, rule.redaction, LIMITS)
    line = to_line(record)
    assert b"hush" not in line
    assert json.loads(line)["request"]["parameters"]["a"] == 1
    assert request.parameters["cookie"] == "hush"
