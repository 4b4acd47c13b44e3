# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Parameters of a ModelInferRequest; texts are those a running Triton answers with."""

import pytest

from backends.api.errors import UnsupportedError
from backends.api.request import SEQUENCE_END, SEQUENCE_START
from deployments.grpc.codec.request import RequestDecoder
from tests.support.grpc_infer_requests import build, message, refusal


def test_request_parameters_become_fields():
    request = build(
        message(
            {
                "sequence_id": 5,
                "sequence_start": True,
                "sequence_end": True,
                "priority": ("uint64_param", 2),
                "timeout": 9000,
                "text": "x",
                "flag": True,
                "number": 1.5,
            }
        )
    )
    assert request.correlation_id == 5
    assert request.flags == SEQUENCE_START | SEQUENCE_END
    assert (request.priority, request.timeout_us) == (2, 9000)
    assert request.parameters == {"text": "x", "flag": True, "number": 1.5}


def test_a_long_sequence_id_is_not_supported():
    assert build(message({"sequence_id": "x" * 128})).correlation_id == "x" * 128
    with pytest.raises(UnsupportedError) as caught:
        build(message({"sequence_id": "ö" * 65}))
    assert caught.value.message == "string correlation ID cannot be longer than 128 characters"


def test_negative_sequence_id_wraps_and_text_stays_text():
    assert build(message({"sequence_id": -3})).correlation_id == 2**64 - 3
    assert build(message({"sequence_id": "abc"})).correlation_id == "abc"


@pytest.mark.parametrize("wish", [True, False])
def test_empty_final_wish_is_no_custom_parameter(wish):
    data = message({"triton_enable_empty_final_response": wish}).SerializeToString()
    decoded = RequestDecoder().decode(data)
    assert decoded.wants_empty_final is wish
    assert decoded.build(1).parameters == {}


SEQUENCE_ID = (
    "invalid value type for 'sequence_id' parameter, expected int64_param or string_param."
)
PRIORITY = "invalid value type for 'priority' parameter, expected int64_param or uint64_param."
CUSTOM = "invalid value type for 'u' parameter, expected int64_param, bool_param, or string_param."
RESERVED = (
    "parameter keys starting with 'triton_' are reserved for Triton usage. Only the following "
    "keys starting with 'triton_' are allowed: triton_enable_empty_final_response"
)


@pytest.mark.parametrize(
    ("key", "value", "text"),
    [
        ("sequence_id", True, SEQUENCE_ID),
        ("sequence_id", ("uint64_param", 9), SEQUENCE_ID),
        ("sequence_id", None, SEQUENCE_ID),
        (
            "sequence_start",
            1,
            "invalid value type for 'sequence_start' parameter, expected bool_param.",
        ),
        (
            "sequence_end",
            "x",
            "invalid value type for 'sequence_end' parameter, expected bool_param.",
        ),
        ("priority", "1", PRIORITY),
        ("priority", True, PRIORITY),
        ("priority", -1, "invalid value for 'priority', expected value >= 0."),
        ("timeout", "1", "invalid value type for 'timeout' parameter, expected int64_param."),
        (
            "timeout",
            ("uint64_param", 5),
            "invalid value type for 'timeout' parameter, expected int64_param.",
        ),
        ("u", ("uint64_param", 5), CUSTOM),
        ("u", None, CUSTOM),
        ("triton_foo", 1, RESERVED),
        (
            "triton_enable_empty_final_response",
            "x",
            "invalid value type for 'triton_enable_empty_final_response' parameter, "
            "expected bool_param.",
        ),
    ],
)
def test_wrong_request_parameter_is_refused(key, value, text):
    assert refusal(message({key: value})) == text


def test_a_flag_that_is_false_and_the_lowest_priority_are_taken():
    parameters = {"sequence_id": 3, "sequence_start": False, "sequence_end": False, "priority": 0}
    request = build(message(parameters))
    assert (request.correlation_id, request.flags, request.priority) == (3, 0, 0)
    assert request.parameters == {}
