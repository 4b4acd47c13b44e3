# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""When a server has lost its owner."""

from cluster.controller.ownership import LEASE_S, Lifeline, Owner


def is_there() -> bool:
    raise AssertionError("the lifeline is told, it does not ask")


DRIVER = Owner("a", "a driver", lease_s=LEASE_S)
APPLICATION = Owner("b", "an application", is_deployed=is_there)


def test_driver_is_lost_when_its_lease_runs_out() -> None:
    lifeline = Lifeline(DRIVER, now_s=100)
    assert not lifeline.is_lost(100 + LEASE_S)
    assert lifeline.is_lost(100 + LEASE_S + 0.1)


def test_heartbeat_extends_the_lease() -> None:
    lifeline = Lifeline(DRIVER, now_s=100)
    lifeline.heard(110)
    assert not lifeline.is_lost(110 + LEASE_S)
    assert lifeline.silence_s(113) == 3


def test_lease_is_looked_at_often_enough_to_end_within_a_quarter_of_it() -> None:
    assert Lifeline(DRIVER, now_s=0).period_s <= LEASE_S / 4


def test_owner_without_lease_is_never_lost() -> None:
    lifeline = Lifeline(Owner(), now_s=0)
    assert lifeline.period_s == 0
    assert not lifeline.is_lost(1e9)


def test_application_is_lost_when_it_was_there_and_is_missed_twice() -> None:
    lifeline = Lifeline(APPLICATION, now_s=0)
    lifeline.saw_application(3, is_deployed=True)
    lifeline.saw_application(6, is_deployed=False)
    assert not lifeline.is_lost(6)
    lifeline.saw_application(9, is_deployed=False)
    assert lifeline.is_lost(9)


def test_application_that_comes_back_between_two_looks_is_kept() -> None:
    lifeline = Lifeline(APPLICATION, now_s=0)
    for now_s, is_deployed in enumerate([True, False, True, False, True, False]):
        lifeline.saw_application(now_s, is_deployed=is_deployed)
    assert not lifeline.is_lost(9)


def test_application_has_a_minute_to_be_deployed() -> None:
    lifeline = Lifeline(APPLICATION, now_s=0)
    for now_s in range(0, 60, 3):
        lifeline.saw_application(now_s, is_deployed=False)
    assert not lifeline.is_lost(59)
    lifeline.saw_application(63, is_deployed=False)
    lifeline.saw_application(66, is_deployed=False)
    assert lifeline.is_lost(66)


def test_new_claim_gives_the_application_that_minute_again() -> None:
    lifeline = Lifeline(APPLICATION, now_s=0)
    lifeline.saw_application(3, is_deployed=True)
    lifeline.heard(200)
    lifeline.saw_application(203, is_deployed=False)
    lifeline.saw_application(206, is_deployed=False)
    assert not lifeline.is_lost(206)
