# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Whether a tenant may have one more request, in virtual time."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from backends.api.errors import InvalidArgumentError, ResourceExhaustedError
from backends.api.request import InferenceRequest
from deployments.metrics.tenants import render_tenants
from deployments.tenants.desk import MAX_COUNTED, TenantDesk
from deployments.tenants.limits import TenantLimits, read_tenants


def desk(**limits: object) -> TenantDesk:
    return TenantDesk({"t": TenantLimits(**limits)})


def refusal(asked: TenantDesk, now_s: float, size_bytes: int = 0) -> ResourceExhaustedError:
    with pytest.raises(ResourceExhaustedError) as caught:
        asked.admit("t", "m", size_bytes, now_s)
    return caught.value


def test_requests_over_the_rate_are_told_tenant_quota_limit_and_when_to_try_again():
    asked = desk(requests_per_s=10.0, burst=2.0)
    asked.admit("t", "m", 0, 5.0)
    asked.admit("t", "m", 0, 5.0)
    error = refusal(asked, 5.0)
    assert error.message == (
        "tenant 't' has used its quota requests_per_s: 10 requests per second; try again in 0.1 s"
    )
    assert error.retry_after_s == pytest.approx(0.1)
    asked.admit("t", "m", 0, 5.0 + error.retry_after_s)
    refusal(asked, 5.1)


def test_concurrent_requests_are_counted_out_once():
    asked = desk(concurrent_requests=2)
    first = asked.admit("t", "m", 0, 0.0)
    asked.admit("t", "m", 0, 0.0)
    assert "2 concurrent requests" in refusal(asked, 0.0).message
    first()
    first()
    asked.admit("t", "m", 0, 0.0)
    refusal(asked, 0.0)


def test_bytes_are_a_debt_that_is_paid_back():
    asked = desk(bytes_per_s=1000.0)
    asked.admit("t", "m", 3000, 0.0)
    assert "bytes_per_s: 1000 bytes of input per second" in refusal(asked, 1.0).message
    assert refusal(asked, 1.0).retry_after_s == pytest.approx(1.0)
    asked.admit("t", "m", 1, 2.001)


def test_seconds_of_execution_are_a_debt_measured_afterwards():
    asked = desk(gpu_seconds_per_s=0.5)
    release = asked.admit("t", "m", 0, 0.0)
    asked.admit("t", "m", 0, 0.0)
    release(compute_ns=2_000_000_000)
    error = refusal(asked, 0.0)
    assert "gpu_seconds_per_s: 0.5 seconds of execution per second" in error.message
    # Half a second was there.
    assert error.retry_after_s == pytest.approx(3.0)
    asked.admit("t", "m", 0, 3.001)


def test_a_refused_request_costs_nothing():
    asked = desk(requests_per_s=10.0, burst=5.0, concurrent_requests=1, bytes_per_s=100.0)
    release = asked.admit("t", "m", 10, 0.0)
    for _ in range(20):
        refusal(asked, 0.0)
    release()
    for _ in range(4):
        asked.admit("t", "m", 10, 0.0)()
    assert "requests_per_s" in refusal(asked, 0.0).message


def test_tenants_that_are_not_named_have_the_default_each_for_itself():
    asked = TenantDesk({"default": TenantLimits(concurrent_requests=1)})
    asked.admit("a", "m", 0, 0.0)
    asked.admit("b", "m", 0, 0.0)
    with pytest.raises(ResourceExhaustedError, match=r"tenant 'a' .* concurrent_requests"):
        asked.admit("a", "m", 0, 0.0)


def test_without_a_default_they_have_no_limits():
    asked = desk(concurrent_requests=1)
    for _ in range(1000):
        asked.admit("other", "m", 1 << 30, 0.0)


def test_idle_tenants_are_forgotten_the_longest_unused_first_and_their_counts_kept():
    asked = TenantDesk({"default": TenantLimits(concurrent_requests=1)}, max_tenants=3)
    asked.admit("held", "m", 0, 0.0)
    for at in range(10):
        asked.admit(f"t{at}", "m", 0, 0.0)(compute_ns=5)
    assert set(asked._accounts) == {"held", "t8", "t9"}
    assert asked.counts["t0"].compute_ns == 5
    with pytest.raises(ResourceExhaustedError):
        asked.admit("held", "m", 0, 0.0)


def test_rows_of_the_metrics_page_are_bounded_and_the_policys_tenants_have_theirs():
    asked = TenantDesk({"named": TenantLimits(), "default": TenantLimits()})
    for at in range(1000):
        asked.admit(f"t{at}", "m", 0, 0.0)()
    asked.admit("named", "m", 0, 0.0)
    assert len(asked.counts) == MAX_COUNTED + 1
    assert asked.counts["named"].admitted == 1
    assert sum(each.admitted for each in asked.counts.values()) == 1001
    page = render_tenants(asked.counts).decode()
    assert 'manta_tenant_requests_total{tenant="named"} 1' in page
    assert 'tenant="other"' in page
    assert page.count("manta_tenant_requests_total{") == MAX_COUNTED + 1


def test_the_page_tells_refusals_by_quota_and_seconds():
    asked = desk(concurrent_requests=1)
    release = asked.admit("t", "m", 0, 0.0)
    refusal(asked, 0.0)
    release(compute_ns=1_500_000_000, queue_ns=250_000_000)
    page = render_tenants(asked.counts).decode().splitlines()
    assert 'manta_tenant_refused_total{quota="concurrent_requests",tenant="t"} 1' in page
    assert 'manta_tenant_compute_seconds_total{tenant="t"} 1.500000' in page
    assert 'manta_tenant_queue_seconds_total{tenant="t"} 0.250000' in page
    assert 'manta_tenant_requests_ongoing{tenant="t"} 0' in page
    assert render_tenants({}) == b""


def test_a_request_is_marked_with_its_tenant_and_weight():
    request = InferenceRequest("m")
    desk(weight=3.0).admit("t", "m", 0, 0.0).mark(request)
    assert (request.tenant, request.weight, request.wants_times) == ("t", 3.0, True)


def test_a_new_policy_counts_at_once_and_what_is_under_way_goes_on():
    asked = desk(concurrent_requests=2, requests_per_s=1.0, burst=5.0)
    release = asked.admit("t", "m", 0, 0.0)
    asked.replace({"t": TenantLimits(concurrent_requests=1)}, 1.0)
    assert "1 concurrent requests" in refusal(asked, 1.0).message
    release()
    asked.admit("t", "m", 0, 1.0)()
    asked.replace({}, 1.0)
    for _ in range(100):
        asked.admit("t", "m", 0, 1.0)


@given(
    st.floats(0.5, 50),
    st.floats(1, 20),
    st.lists(st.floats(0, 0.5), min_size=1, max_size=200),
)
def test_what_is_admitted_never_exceeds_rate_and_burst(rate, burst, gaps):
    asked = desk(requests_per_s=rate, burst=burst)
    now_s, admitted = 0.0, 0
    for gap in gaps:
        now_s += gap
        try:
            asked.admit("t", "m", 0, now_s)()
        except ResourceExhaustedError:
            continue
        admitted += 1
        assert admitted <= burst + rate * now_s + 1e-6


def test_rows_of_a_policy_are_read():
    read = read_tenants(
        {
            "a": {"requests_per_s": 10, "weight": 3, "scope": "cluster", "concurrent_requests": 4},
            "b": {"requests_per_s": 0.5, "burst": 7, "scope": "node"},
            "default": None,
        }
    )
    assert read["a"] == TenantLimits(
        requests_per_s=10.0,
        burst=10.0,
        concurrent_requests=4,
        weight=3.0,
        is_cluster_wide=True,
    )
    assert read["b"].burst == 7.0
    assert read["default"] == TenantLimits()


@pytest.mark.parametrize(
    ("row", "text"),
    [
        (5, "tenant 't' is 5, expected a mapping"),
        ({"rate": 5}, "field 'rate', expected some of requests_per_s"),
        ({"requests_per_s": 0}, "'requests_per_s' is 0, expected a number above 0"),
        ({"requests_per_s": True}, "expected a number above 0"),
        ({"bytes_per_s": float("nan")}, "expected a number above 0"),
        ({"bytes_per_s": "1GB"}, "is '1GB', expected a number"),
        ({"burst": 5}, "a burst of no rate"),
        ({"concurrent_requests": 1.5}, "expected a whole number above 0"),
        ({"weight": 1e9}, "expected a number from 0.001 to 1000000"),
        ({"scope": "galaxy"}, "expected 'node' or 'cluster'"),
    ],
)
def test_a_wrong_row_is_told_tenant_and_field(row, text):
    with pytest.raises(InvalidArgumentError, match=r"tenant 't'") as caught:
        read_tenants({"t": row})
    assert text in caught.value.message
