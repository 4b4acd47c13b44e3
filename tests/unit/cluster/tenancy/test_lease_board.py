# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Cluster-wide limits: what all ingresses let in together, in virtual time."""

import random
from dataclasses import dataclass, field

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from backends.api.errors import ResourceExhaustedError
from cluster.tenancy.lease_board import LeaseBoard, divide, divide_whole
from deployments.tenants.desk import Admission, TenantDesk
from deployments.tenants.leases import (
    RENEW_S,
    STARTING_SHARE,
    LeaseAsk,
    LeaseReport,
    Quota,
    decode_leases,
    encode,
)
from deployments.tenants.limits import TenantLimits
from tests.support.examples import examples

RATE = 80.0
LIMITS = {"t": TenantLimits(requests_per_s=RATE, burst=RATE, is_cluster_wide=True)}


@dataclass
class Ingress:
    name: str
    desk: TenantDesk = field(default_factory=lambda: TenantDesk(LIMITS))
    is_dead: bool = False
    number: int = 0
    admitted: list[float] = field(default_factory=list)

    def offer(self, now_s: float) -> None:
        try:
            self.desk.admit("t", "m", 0, now_s)()
        except ResourceExhaustedError:
            return
        self.admitted.append(now_s)

    def report(self, now_s: float) -> bytes:
        self.number += 1
        return encode(LeaseReport(self.number, self.desk.asks(now_s)))


@dataclass
class Cluster:
    """Ingresses and a board; a step is a tenth of a second."""

    ingresses: list[Ingress]
    board: LeaseBoard = field(default_factory=lambda: LeaseBoard(0.0))
    now_s: float = 1.0
    is_reachable: bool = True

    def step(self, demands: list[float], chance: random.Random | None = None) -> None:
        at = round(self.now_s * 10)
        for ingress, demand in zip(self.ingresses, demands, strict=True):
            if ingress.is_dead:
                continue
            for each in range(int(demand / 10)):
                ingress.offer(self.now_s + each / 1000)
            if at % 10 == self.ingresses.index(ingress) % 10 and self.is_reachable:
                self._renew(ingress, chance)
        self.now_s += 0.1

    def _renew(self, ingress: Ingress, chance: random.Random | None) -> None:
        asked_s, report = self.now_s, ingress.report(self.now_s)
        lost = "" if chance is None else chance.choice(["", "", "", "report", "answer"])
        if lost == "report":
            return
        delay_s = 0.0 if chance is None else chance.uniform(0, 0.05)
        answer = self.board.renewed(ingress.name, report, asked_s + delay_s)
        if lost != "answer":
            ingress.desk.take(decode_leases(answer), asked_s, asked_s + 2 * delay_s)

    def run(self, seconds: float, demands: list[float]) -> None:
        for _ in range(round(seconds * 10)):
            self.step(demands)

    def admitted(self, from_s: float, until_s: float) -> int:
        return sum(from_s <= at < until_s for each in self.ingresses for at in each.admitted)


def cluster(count: int) -> Cluster:
    return Cluster([Ingress(f"i{at}") for at in range(count)])


def test_the_rate_of_all_ingresses_is_the_limit():
    running = cluster(4)
    running.run(30, [60, 60, 60, 60])
    assert running.admitted(15, 31) / 16 == pytest.approx(RATE, rel=0.05)


def test_an_unused_share_is_lent_to_whoever_needs_it_within_seconds():
    running = cluster(4)
    running.run(15, [100, 100, 100, 100])
    start_s = running.now_s
    running.run(10, [200, 0, 0, 0])
    got = running.admitted(start_s + 4, start_s + 10) / 6
    # A tenth of each equal part stays where it is.
    assert got >= 0.85 * RATE


def test_demand_that_moves_is_followed_within_seconds():
    running = cluster(2)
    running.run(15, [200, 0])
    start_s = running.now_s
    running.run(10, [0, 200])
    moved = [at for at in running.ingresses[1].admitted if start_s + 4 <= at < start_s + 10]
    assert len(moved) / 6 >= 0.85 * RATE


def test_without_the_controller_leases_go_on_and_shrink_to_what_is_fair():
    running = cluster(2)
    running.run(15, [200, 10])
    start_s, running.is_reachable = running.now_s, False
    running.run(20, [200, 200])
    by_ingress = [
        len([at for at in each.admitted if start_s + 8 <= at < start_s + 20]) / 12
        for each in running.ingresses
    ]
    assert by_ingress[0] == pytest.approx(RATE / 2, rel=0.06)
    assert sum(by_ingress) <= RATE * 1.02
    assert by_ingress[1] > 0


def test_a_dead_ingress_share_is_lent_in_the_end():
    running = cluster(2)
    running.run(15, [100, 100])
    running.ingresses[0].is_dead = True
    running.run(70, [0, 200])
    assert running.admitted(78, 86) / 8 == pytest.approx(RATE, rel=0.06)


def test_a_new_board_grants_nobody_more_than_it_holds_until_old_leases_are_over():
    running = cluster(2)
    running.run(15, [100, 100])
    start_s = running.now_s
    running.board = LeaseBoard(start_s)
    running.run(10, [300, 300])
    assert running.admitted(start_s, start_s + 10) <= RATE * 10 + RATE


@settings(max_examples=examples(25), deadline=None)
@given(
    st.integers(2, 4),
    st.lists(st.tuples(st.lists(st.integers(0, 200), min_size=4, max_size=4), st.integers(0, 5)),
             min_size=3, max_size=8),
    st.integers(0, 2**16),
)  # fmt: skip
def test_the_admitted_rate_never_exceeds_the_limit_and_the_slack(count, phases, seed):
    """Slack: the burst, a request for each ingress, and the starting share for one renewal."""
    chance = random.Random(seed)
    running = cluster(count)
    for demands, event in phases:
        if event == 1:
            running.ingresses[chance.randrange(count)].is_dead = True
        running.is_reachable = event != 2
        if event == 3:
            running.board = LeaseBoard(running.now_s)
        for _ in range(30):
            running.step([float(each) for each in demands[:count]], chance)
    end_s = running.now_s
    # Of an ingress whose first reports are lost the starting share lasts longer.
    starting = count * STARTING_SHARE * RATE
    for start in range(1, int(end_s), 3):
        got = running.admitted(start, end_s)
        lasting_s = end_s - start
        unheard_s = min(lasting_s, 5 * RENEW_S) if start < 6 else 0.0
        slack = RATE + count + starting * (1 + unheard_s)
        assert got <= RATE * lasting_s + slack


def test_concurrent_requests_of_all_ingresses_are_within_the_limit():
    limits = {"t": TenantLimits(concurrent_requests=10, is_cluster_wide=True)}
    board, chance = LeaseBoard(0.0), random.Random(1)
    desks = [TenantDesk(limits) for _ in range(3)]
    open_requests: list[list[Admission]] = [[], [], []]
    for at in range(1, 400):
        now_s = at / 10
        for place, desk in enumerate(desks):
            busy = at // 100 == place or at >= 300
            for _ in range(4 if busy else 0):
                try:
                    open_requests[place].append(desk.admit("t", "m", 0, now_s))
                except ResourceExhaustedError:
                    break
            while open_requests[place] and chance.random() < (0.3 if busy else 0.8):
                open_requests[place].pop(0)()
            if at % 10 == place:
                report = encode(LeaseReport(at, desk.asks(now_s)))
                desk.take(decode_leases(board.renewed(str(place), report, now_s)), now_s, now_s)
        # Before their first leases each has at most two.
        assert sum(len(each) for each in open_requests) <= 10
    assert sum(desk.counts["t"].ongoing for desk in desks) >= 8


@given(st.integers(1, 50), st.lists(st.floats(0, 1000), min_size=1, max_size=12))
def test_shares_sum_up_to_the_limit(limit, demands):
    named = {str(at): each for at, each in enumerate(demands)}
    assert sum(divide(float(limit), named).values()) == pytest.approx(limit)
    whole = divide_whole(limit, named)
    assert sum(whole.values()) == limit
    assert all(each >= 0 and each == int(each) for each in whole.values())


def test_a_demand_below_an_equal_part_is_met_and_headroom_kept():
    shares = divide(90.0, {"a": 10.0, "b": 200.0, "c": 200.0})
    assert shares["a"] == pytest.approx(12.5)
    assert shares["b"] == shares["c"] == pytest.approx(38.75)


def test_a_report_that_was_overtaken_and_one_that_is_none_are_answered_with_nothing():
    board = LeaseBoard(0.0)
    ask = LeaseAsk("t", Quota.REQUESTS, 10.0, 1.0, 1.0)
    assert board.renew("i", LeaseReport(2, [ask]), 10.0)
    assert board.renew("i", LeaseReport(1, [ask]), 10.1) == []
    assert decode_leases(board.renewed("i", b"\xff", 10.2)) == []
