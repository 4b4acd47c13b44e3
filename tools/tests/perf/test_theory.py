# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0

"""What is measured of simulated servers is what queueing theory says of them.

M/M/1 and M/D/1: Kleinrock, Queueing Systems, volume 1. Seeds are fixed, so no test depends on luck.
"""

import itertools
import math

import pytest

from manta_tools.perf.load import schedules
from manta_tools.perf.load.loops import ClosedLoop, OpenLoop
from manta_tools.perf.measuring.confidence import latency_of, throughput_of
from manta_tools.perf.measuring.windows import objective, summarise
from tests.support.simulated_clock import Clock
from tests.support.simulated_queue import Rows, SimulatedQueue, exponential, fixed

SERVICE_NS = 1_000_000
TWO_PERCENT = 0.02


def measure_open(schedule, service_ns, count, *, limit_ms=1.0):
    clock = Clock()
    server = SimulatedQueue(lambda: clock.now_ns, clock.after, service_ns)
    loop = OpenLoop(
        server, Rows(), lambda: clock.now_ns, clock.after, schedule=schedule, limit=count
    )
    loop.start()
    clock.run()
    assert loop.is_done
    ended = loop.take()
    assert len(ended) == count
    return summarise(ended, 0, clock.now_ns, objectives=[objective("request_latency", limit_ms)])


def measure_closed(concurrency, service_ns, count, servers=1):
    clock = Clock()
    server = SimulatedQueue(lambda: clock.now_ns, clock.after, service_ns, servers)
    loop = ClosedLoop(server, Rows(), lambda: clock.now_ns, concurrency=concurrency, limit=count)
    loop.start()
    clock.run()
    return summarise(loop.take(), 0, clock.now_ns)


@pytest.mark.slow
@pytest.mark.parametrize("load", [0.3, 0.6])
def test_poisson_arrivals_at_exponential_service_are_m_m_1(load):
    rate = load * 1e9 / SERVICE_NS
    limit_ms = 2.0
    window = measure_open(
        schedules.poisson(rate, 1), exponential(SERVICE_NS, 4), 100_000, limit_ms=limit_ms
    )
    # The time in the system is exponential.
    mean_ns = SERVICE_NS / (1 - load)
    assert window.throughput == pytest.approx(rate, rel=TWO_PERCENT)
    assert window.latencies.mean_ns == pytest.approx(mean_ns, rel=TWO_PERCENT)
    assert window.latencies.deviation_ns == pytest.approx(mean_ns, rel=TWO_PERCENT)
    for percentile in (50, 90, 95, 99):
        expected_ns = -mean_ns * math.log(1 - percentile / 100)
        assert window.latencies.percentile_ns(percentile) == pytest.approx(
            expected_ns, rel=TWO_PERCENT
        )
    good = 1 - math.exp(-limit_ms * 1e6 / mean_ns)
    assert window.goodput == pytest.approx(rate * good, rel=TWO_PERCENT)
    assert latency_of(window).covers(mean_ns)
    assert throughput_of([window]).covers(rate)


@pytest.mark.slow
@pytest.mark.parametrize("load", [0.3, 0.6])
def test_poisson_arrivals_at_constant_service_are_m_d_1(load):
    rate = load * 1e9 / SERVICE_NS
    window = measure_open(schedules.poisson(rate, 1), fixed(SERVICE_NS), 100_000)
    mean_ns = SERVICE_NS * (1 + load / (2 * (1 - load)))
    assert window.throughput == pytest.approx(rate, rel=TWO_PERCENT)
    assert window.latencies.mean_ns == pytest.approx(mean_ns, rel=TWO_PERCENT)
    # Who finds the server idle has the service time, and nobody less.
    assert window.goodput == pytest.approx(rate * (1 - load), rel=TWO_PERCENT)
    for percentile in (90, 95, 99):
        expected_ns = SERVICE_NS * (1 + quantile_m_d_1(load, percentile / 100))
        assert window.latencies.percentile_ns(percentile) == pytest.approx(
            expected_ns, rel=TWO_PERCENT
        )
    assert latency_of(window).covers(mean_ns)


def waiting_m_d_1(load, waited):
    """The probability of waiting no longer than so many service times (Erlang)."""
    return (1 - load) * sum(
        (load * (k - waited)) ** k / math.factorial(k) * math.exp(-load * (k - waited))
        for k in range(int(waited) + 1)
    )


def quantile_m_d_1(load, share):
    """How many service times this share waits at most."""
    low, high = 0.0, 30.0
    while high - low > 1e-6:
        middle = (low + high) / 2
        if waiting_m_d_1(load, middle) < share:
            low = middle
        else:
            high = middle
    return low


def test_arrivals_in_bursts_wait_for_those_before_them():
    burst, distance_us = 10, 40_000
    intervals = (distance_us, *([0] * (burst - 1)))
    count = 2_000
    window = measure_open(schedules.replayed(intervals), fixed(SERVICE_NS), count, limit_ms=5.0)
    rate = schedules.mean_rate(intervals)
    assert rate == pytest.approx(burst * 1e6 / distance_us)
    assert window.throughput == pytest.approx(rate, rel=TWO_PERCENT)
    assert window.latencies.mean_ns == pytest.approx(SERVICE_NS * (burst + 1) / 2)
    assert window.latencies.percentile_ns(90) == pytest.approx(9 * SERVICE_NS, rel=0.001)
    assert window.good == count // 2


def test_an_overloaded_server_shows_the_latency_that_clients_would_have():
    count = 10_000
    window = measure_open(schedules.constant(2_000), fixed(SERVICE_NS), count)
    # Every request waits half a service time longer than the one before it.
    last_ns = SERVICE_NS + (count - 1) * SERVICE_NS / 2
    assert window.latencies.percentile_ns(100) == pytest.approx(last_ns, rel=0.002)
    assert window.latencies.mean_ns == pytest.approx((SERVICE_NS + last_ns) / 2, rel=0.001)
    assert window.throughput == pytest.approx(1_000, rel=TWO_PERCENT)


def test_a_client_that_stalls_does_not_hide_the_wait_it_caused():
    clock = Clock()
    server = SimulatedQueue(lambda: clock.now_ns, clock.after, fixed(SERVICE_NS), servers=1000)
    stall_ns = 100_000_000

    def stalling(wait_ns, call):
        # Its timer comes late once, as that of a busy process does.
        late = stall_ns if clock.now_ns == 0 else 0
        clock.after(wait_ns + late, call)

    loop = OpenLoop(
        server,
        Rows(),
        lambda: clock.now_ns,
        stalling,
        schedule=itertools.count(1, 1_000_000),
        limit=200,
    )
    loop.start()
    clock.run()
    window = summarise(loop.take(), 0, clock.now_ns)
    assert window.latencies.percentile_ns(100) == pytest.approx(SERVICE_NS + stall_ns, rel=0.001)
    assert window.delayed == 99


@pytest.mark.slow
@pytest.mark.parametrize(("concurrency", "servers"), [(1, 1), (4, 1), (4, 4), (8, 4)])
def test_a_closed_loop_keeps_little_s_law(concurrency, servers):
    window = measure_closed(concurrency, exponential(SERVICE_NS, 3), 60_000, servers)
    # Without arrivals from outside all that serve are busy all the time.
    busy = min(concurrency, servers)
    assert window.throughput == pytest.approx(busy * 1e9 / SERVICE_NS, rel=TWO_PERCENT)
    assert window.throughput * window.latencies.mean_ns / 1e9 == pytest.approx(
        concurrency, rel=TWO_PERCENT
    )


@pytest.mark.slow
def test_confidence_covers_the_truth_in_95_of_100_measurements():
    covered = [
        latency_of(measure_closed(1, exponential(SERVICE_NS, seed), 400)).covers(SERVICE_NS)
        for seed in range(400)
    ]
    assert 0.93 <= sum(covered) / len(covered) <= 0.97


@pytest.mark.slow
def test_throughput_s_confidence_covers_the_truth_as_often():
    rate = 500.0
    covered = [
        throughput_of([measure_open(schedules.poisson(rate, seed), fixed(1000), 400)]).covers(rate)
        for seed in range(400)
    ]
    assert 0.92 <= sum(covered) / len(covered) <= 0.98
