# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
from cluster.instances.restarts import STABLE_S, Restarts


def test_single_death_is_left_to_ray_and_hardly_delayed():
    restarts = Restarts()
    restarts.started(0.0)
    restarts.died(100.0)
    # Ray answers calls of an actor it is about to restart with an error.
    assert not restarts.failed()
    assert restarts.is_left_to_ray
    assert restarts.delay_s == 0.1
    assert restarts.failed()


def test_instance_that_dies_at_every_start_is_started_less_and_less_often():
    restarts = Restarts()
    delays = []
    for _ in range(12):
        restarts.failed()
        delays.append(restarts.delay_s)
    assert delays[:4] == [0.1, 0.2, 0.4, 0.8]
    assert delays == sorted(delays)
    assert delays[-1] == 15.0
    assert not restarts.is_left_to_ray


def test_instance_that_dies_soon_after_every_start_is_too():
    restarts = Restarts()
    now_s = 0.0
    for _ in range(3):
        restarts.started(now_s)
        now_s += STABLE_S / 2
        restarts.died(now_s)
    assert not restarts.is_left_to_ray
    assert restarts.delay_s == 0.4


def test_life_in_between_is_a_new_beginning():
    restarts = Restarts()
    for _ in range(8):
        restarts.failed()
    restarts.started(0.0)
    restarts.died(STABLE_S)
    assert restarts.is_left_to_ray


def test_delay_does_not_grow_for_ever():
    restarts = Restarts()
    for _ in range(100_000):
        restarts.failed()
    assert restarts.delay_s == 15.0
