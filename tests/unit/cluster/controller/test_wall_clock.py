# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Health checks of Serve go on after a step of the wall clock."""

import pytest

from cluster.actors.serve_controller import restart_serve_controller
from cluster.controller.wall_clock import STEP_S, WallClockWatch
from tests.support.control_plane_fakes import in_virtual_time
from tests.support.fake_ray import FakeRay

SERVE = "SERVE_CONTROLLER_ACTOR"
DAY_S = 86_400.0


class Clocks:
    """A wall clock that is set, beside one that is not."""

    def __init__(self) -> None:
        self.now_s = 50.0
        self.ahead_s = 1_700_000_000.0
        self.restarts = 0
        self.failures: list[Exception] = []
        self.watch = WallClockWatch(
            self.restart, lambda: self.now_s + self.ahead_s, lambda: self.now_s
        )

    async def restart(self) -> None:
        if self.failures:
            raise self.failures.pop()
        self.restarts += 1

    async def step(self, step_s: float) -> int:
        """Set the wall clock and return how often Serve's controller was restarted for it."""
        before = self.restarts
        self.ahead_s += step_s
        for _ in range(3):
            self.now_s += 1.0
            await self.watch.look()
        return self.restarts - before


@in_virtual_time
async def test_a_wall_clock_set_back_restarts_serves_controller_once() -> None:
    clocks = Clocks()
    assert await clocks.step(0.0) == 0
    assert await clocks.step(DAY_S) == 0
    assert await clocks.step(-DAY_S) == 1
    assert await clocks.step(-STEP_S) == 1


@in_virtual_time
async def test_a_wall_clock_that_is_corrected_little_restarts_nothing() -> None:
    clocks = Clocks()
    assert await clocks.step(0.1 - STEP_S) == 0


@in_virtual_time
async def test_a_restart_that_fails_is_tried_again() -> None:
    clocks = Clocks()
    clocks.failures.append(RuntimeError("the GCS is away"))
    clocks.ahead_s -= DAY_S
    with pytest.raises(RuntimeError, match="the GCS is away"):
        await clocks.watch.look()
    assert await clocks.step(0.0) == 1


def test_serves_controller_is_killed_for_ray_to_start_it_again(fake: FakeRay) -> None:
    actor = fake.have(SERVE, object(), namespace="serve", max_restarts=-1)
    restart_serve_controller()
    assert SERVE in fake.actors
    assert actor.restarts == 1


def test_without_serve_nothing_is_restarted(fake: FakeRay) -> None:
    restart_serve_controller()
    assert not fake.actors
