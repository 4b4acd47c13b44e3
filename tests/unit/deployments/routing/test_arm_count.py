# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""What counts for a version that a rollout has chosen."""

import pytest

from backends.api.errors import (
    InternalError,
    InvalidArgumentError,
    RequestCancelledError,
    TritonError,
    UnavailableError,
)
from backends.api.request import InferenceResponse
from deployments.contracts.arm_report import ArmReport
from deployments.routing.arm_count import ArmCount


@pytest.mark.parametrize(
    ("error", "is_refusal", "expected"),
    [
        (None, False, (1, 0)),
        (InternalError("broken"), False, (1, 1)),
        (UnavailableError("full"), True, (1, 1)),
        (InvalidArgumentError("wrong"), False, (1, 0)),
        (InvalidArgumentError("wrong"), True, (0, 0)),
        (RequestCancelledError(""), False, (0, 0)),
    ],
)
def test_the_end_of_a_request_counts(
    error: TritonError | None, is_refusal: bool, expected: tuple[int, int]
) -> None:
    counts = ArmReport("m", 2)
    ArmCount(counts).ended(error, is_refusal=is_refusal)
    assert (counts.requests, counts.errors) == expected
    assert sum(counts.latencies.values()) == expected[0] - expected[1]


def test_a_stream_with_a_fault_in_it_has_failed() -> None:
    counts = ArmReport("m", 2)
    count = ArmCount(counts)
    count.failed(InternalError("one of several"))
    count.ended(None, is_refusal=False)
    assert (counts.requests, counts.errors) == (1, 1)


def test_what_was_not_execution_is_counted_as_the_queue_of_the_last_response() -> None:
    counts = ArmReport("m", 2)
    count = ArmCount(counts)
    count.responded(InferenceResponse("m", "2", compute_ns=(1, 2, 3)), final=False)
    count.ended(None, is_refusal=False)
    assert not counts.queue
    count = ArmCount(counts)
    count.responded(InferenceResponse("m", "2", compute_ns=(1, 2, 3)), final=True)
    count.ended(None, is_refusal=False)
    assert sum(counts.queue.values()) == 1
