# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Reports about arms that add up."""

from deployments.contracts.arm_report import ArmReport, decode_arms, encode_arms


def test_reports_of_routers_add_up() -> None:
    one = ArmReport("m", 1, 3, 1, {5: 2}, {1: 2})
    other = ArmReport("m", 1, 4, 0, {5: 1, 6: 3}, {2: 4}, mirrored=2, mismatches=1)
    total = ArmReport("m", 1)
    for row in decode_arms(encode_arms([one, other])):
        total.add(row)
    assert total == ArmReport("m", 1, 7, 1, {5: 3, 6: 3}, {1: 2, 2: 4}, mirrored=2, mismatches=1)


def test_what_was_taken_is_not_told_again_and_who_counts_goes_on() -> None:
    counts = ArmReport("m", 1, 3, 1, {5: 2})
    taken = counts.taken()
    assert (taken.requests, taken.errors, taken.latencies) == (3, 1, {5: 2})
    assert counts.is_empty
    counts.requests += 1
    assert taken.requests == 3


def test_a_report_without_requests_is_empty() -> None:
    assert ArmReport("m", 1).is_empty
    assert not ArmReport("m", 1, dropped=1).is_empty
