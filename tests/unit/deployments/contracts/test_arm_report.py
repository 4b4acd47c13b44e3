# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Latencies in buckets, and reports that add up."""

from hypothesis import given
from hypothesis import strategies as st

from deployments.contracts.arm_report import (
    ArmReport,
    bucket_of,
    decode_arms,
    encode_arms,
    merged,
    quantile_us,
    value_us,
)

_LATENCIES = st.integers(0, 2**32 - 1)


@given(_LATENCIES)
def test_a_latency_is_known_to_three_per_cent(latency_us: int) -> None:
    assert abs(value_us(bucket_of(latency_us)) - latency_us) <= latency_us / 32


@given(_LATENCIES, _LATENCIES)
def test_buckets_have_the_order_of_latencies(one: int, other: int) -> None:
    assert (bucket_of(one) <= bucket_of(other)) or one > other


@given(st.lists(_LATENCIES, min_size=1), st.sampled_from((0.5, 0.95, 0.99)))
def test_a_quantile_is_that_of_the_latencies(latencies: list[int], fraction: float) -> None:
    report = ArmReport("m", 1)
    for each in latencies:
        bucket = bucket_of(each)
        report.latencies[bucket] = report.latencies.get(bucket, 0) + 1
    rank = max(1, -(-int(fraction * 1000) * len(latencies) // 1000))
    exact = sorted(latencies)[min(rank, len(latencies)) - 1]
    assert bucket_of(int(quantile_us(report.latencies, fraction))) == bucket_of(exact)


def test_reports_of_routers_add_up_by_version() -> None:
    one = ArmReport("m", 1, 3, 1, {5: 2})
    other = ArmReport("m", 1, 4, 0, {5: 1, 6: 3}, mirrored=2, mismatches=1)
    third = ArmReport("m", 2, 1)
    rows = merged(decode_arms(encode_arms([one, other, third])))
    assert rows[0] == ArmReport("m", 1, 7, 1, {5: 3, 6: 3}, mirrored=2, mismatches=1)
    assert rows[1] == third


def test_a_report_without_requests_is_empty() -> None:
    assert ArmReport("m", 1).is_empty
    assert not ArmReport("m", 1, dropped=1).is_empty
