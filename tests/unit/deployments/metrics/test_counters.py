# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Counters, their sum, and Triton's JSON."""

import pytest
from google.protobuf import json_format
from hypothesis import given
from hypothesis import strategies as st
from tritonclient.grpc import service_pb2

from deployments.metrics.counters import (
    LAST_RESPONSE_POSITION,
    BatchStatistics,
    ExecutionTimes,
    FailureReason,
    InstanceStatistics,
    ResponseOutcome,
    ResponseStatistics,
    Snapshot,
    decode,
    encode,
    merge,
)
from deployments.metrics.statistics_json import to_json

TIMES = ExecutionTimes(start_ns=1000, input_end_ns=1010, output_start_ns=1110, end_ns=1115)


def recorded(decoupled: bool = False) -> Snapshot:
    """One batch of sizes 1 and 2, received at 400 and 600, and one failure."""
    statistics = InstanceStatistics()
    statistics.record_start()
    statistics.record_execution(3, TIMES, wall_ms=77)
    statistics.record_success(2, 3, 400 + 600, TIMES)
    statistics.record_failure(FailureReason.BACKEND, 50)
    if decoupled:
        statistics.record_response(0, ResponseOutcome.SUCCESS, 30)
        statistics.record_response(1, ResponseOutcome.EMPTY, 40)
    return statistics.snapshot(pending_count=4)


def test_every_request_is_charged_the_times_of_its_batch():
    totals = recorded()
    assert totals.queue_ns == 600 + 400
    assert totals.compute_input_ns == 2 * 10
    assert totals.compute_infer_ns == 2 * 100
    assert totals.compute_output_ns == 2 * 5
    assert totals.success_ns == 715 + 515


def test_a_snapshot_does_not_change_when_counting_goes_on():
    statistics = InstanceStatistics()
    statistics.record_start()
    statistics.record_execution(1, TIMES, wall_ms=1)
    before = statistics.snapshot(0)
    statistics.record_start()
    statistics.record_execution(1, TIMES, wall_ms=2)
    statistics.record_failure(FailureReason.OTHER, 1)
    assert before.batches[1].count == 1
    assert before.fail_count["OTHER"] == 0


def test_a_snapshot_survives_the_lane():
    totals = recorded(decoupled=True)
    assert decode(memoryview(encode(totals))) == totals


def test_json_has_the_fields_and_order_of_triton():
    row = to_json("m", "1", recorded())
    assert row == {
        "name": "m",
        "version": "1",
        "last_inference": 77,
        "inference_count": 3,
        "execution_count": 1,
        "inference_stats": {
            "success": {"count": 2, "ns": 1230},
            "fail": {"count": 1, "ns": 50},
            "queue": {"count": 2, "ns": 1000},
            "compute_input": {"count": 2, "ns": 20},
            "compute_infer": {"count": 2, "ns": 200},
            "compute_output": {"count": 2, "ns": 10},
            "cache_hit": {"count": 0, "ns": 0},
            "cache_miss": {"count": 0, "ns": 0},
        },
        "response_stats": {},
        "batch_stats": [
            {
                "batch_size": 3,
                "compute_input": {"count": 1, "ns": 10},
                "compute_infer": {"count": 1, "ns": 100},
                "compute_output": {"count": 1, "ns": 5},
            }
        ],
        "memory_usage": [],
    }
    assert list(row["inference_stats"])[:3] == ["success", "fail", "queue"]


def test_json_keys_are_the_fields_of_the_grpc_message():
    row = to_json("m", "1", recorded(decoupled=True))
    message = json_format.ParseDict(row, service_pb2.ModelStatistics())
    assert message.inference_stats.queue.ns == 1000
    assert message.response_stats["0"].success.ns == 30
    assert message.response_stats["1"].empty_response.count == 1
    assert message.batch_stats[0].batch_size == 3


SNAPSHOTS = st.lists(
    st.builds(
        lambda sizes, failures, wall_ms: (sizes, failures, wall_ms),
        st.lists(st.integers(1, 3), max_size=4),
        st.lists(st.sampled_from(list(FailureReason)), max_size=3),
        st.integers(0, 100),
    ),
    max_size=4,
)


@given(SNAPSHOTS)
def test_merging_instances_equals_counting_in_one(parts):
    together = InstanceStatistics()
    snapshots = []
    for sizes, failures, wall_ms in parts:
        alone = InstanceStatistics()
        for statistics in (together, alone):
            for size in sizes:
                statistics.record_start()
                statistics.record_execution(size, TIMES, wall_ms)
                statistics.record_success(1, size, 500, TIMES)
                statistics.record_response(size, ResponseOutcome.FAIL, 5)
            for reason in failures:
                statistics.record_failure(reason, 9)
        snapshots.append(alone.snapshot(0))
    merged, whole = merge(snapshots), together.snapshot(0)
    assert merged.last_inference_ms == max((s.last_inference_ms for s in snapshots), default=0)
    merged.last_inference_ms = whole.last_inference_ms
    assert merged == whole


def test_a_request_of_an_ensemble_counts_what_its_steps_took():
    statistics = InstanceStatistics()
    statistics.record_steps(3, 100, (1, 20, 3), 5)
    row = to_json("e", "1", statistics.snapshot(0))
    assert (row["inference_count"], row["execution_count"], row["last_inference"]) == (3, 1, 5)
    assert row["inference_stats"]["success"] == {"count": 1, "ns": 100}
    assert row["inference_stats"]["queue"] == {"count": 1, "ns": 0}
    assert row["inference_stats"]["compute_infer"] == {"count": 1, "ns": 20}
    assert row["batch_stats"] == [
        {
            "batch_size": 3,
            "compute_input": {"count": 1, "ns": 1},
            "compute_infer": {"count": 1, "ns": 20},
            "compute_output": {"count": 1, "ns": 3},
        }
    ]


def test_responses_beyond_the_last_position_share_its_row():
    statistics = InstanceStatistics()
    for position in range(LAST_RESPONSE_POSITION + 5000):
        statistics.record_response(position, ResponseOutcome.SUCCESS, 2)
    totals = statistics.snapshot(0)
    assert len(totals.responses) == LAST_RESPONSE_POSITION + 1
    assert totals.responses[LAST_RESPONSE_POSITION].success_count == 5000
    assert totals.responses[LAST_RESPONSE_POSITION].success_ns == 10_000
    assert totals.responses[0].success_count == 1


@pytest.mark.parametrize("outcome", list(ResponseOutcome))
def test_each_outcome_of_a_response_has_a_column_of_its_own(outcome):
    statistics = InstanceStatistics()
    statistics.record_response(0, outcome, 7)
    row = statistics.snapshot(0).responses[0]
    counted = {name for name in row.__struct_fields__ if getattr(row, name)}
    assert counted == {f"{outcome}_count", f"{outcome}_ns"}


def filled(struct, by_name):
    """Return an instance of a struct whose every plain number is 1."""
    numbers = {name: 1 for name in struct.__struct_fields__ if name not in by_name}
    return struct(**numbers, **by_name)


def test_merging_forgets_no_field():
    one = filled(
        Snapshot,
        {
            "fail_count": dict.fromkeys(FailureReason, 1),
            "batches": {1: filled(BatchStatistics, {})},
            "responses": {0: filled(ResponseStatistics, {})},
            "latencies": [{3: 1}],
            "bucket_counts": [1],
            "custom": [],
        },
    )
    total = merge((one, one))
    for name in Snapshot.__struct_fields__:
        value = getattr(total, name)
        if isinstance(value, int):
            assert value == (1 if name == "last_inference_ms" else 2), name
    assert total.fail_count == dict.fromkeys(FailureReason, 2)
    for row in (total.batches[1], total.responses[0]):
        assert {getattr(row, name) for name in row.__struct_fields__} == {2}
    assert (total.latencies, total.bucket_counts) == ([{3: 2}], [2])
