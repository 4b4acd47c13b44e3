# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""A controller that follows one of another release: what it finds, and what it renews."""

import asyncio
import time
from functools import partial
from pathlib import Path

from backends.api.errors import InternalError
from cluster.controller.durable_state import HANDOVER_KEY
from cluster.controller.handover import decode_handover
from cluster.controller.ownership import Owner
from cluster.release import own_release
from cluster.server.start_controller import ToldRelease, require_compatible
from tests.support import controller_fakes
from tests.support.control_plane_fakes import DRAIN_S, LOAD_S, in_virtual_time
from tests.support.controller_fakes import FakeHost, write_model

DRIVER = Owner("driver", "process 1 on h")
controller_of = partial(controller_fakes.controller_of, owner=DRIVER)


@in_virtual_time
async def test_a_controller_tells_its_release_and_what_it_speaks(folder: Path) -> None:
    controller = await controller_of(folder, FakeHost())
    told = ToldRelease.of(await controller.release())
    assert told.is_own
    require_compatible(told)
    await controller.start()


@in_virtual_time
async def test_a_successor_knows_what_was_loaded_and_another_controller_does_not(
    folder: Path,
) -> None:
    host = FakeHost()
    for name in ("a", "b"):
        write_model(folder, name)
    explicit = {"model_control_mode": "explicit", "load_model": ["a"]}
    before = await controller_of(folder, host, **explicit)
    await before.start()
    await before.load("b", {})
    await before.hand_over()
    left = decode_handover(host.store.values[HANDOVER_KEY])
    assert (left.release, left.owner) == (str(own_release()), DRIVER)
    assert left.options == await before.server_options()
    after = await controller_of(folder, host, resumes=True, **explicit)
    rows = {row["name"]: row["state"] for row in await after.start()}
    assert rows == {"a": "READY", "b": "READY"}
    empty = host.restarted(was_restarted=False).without_instances()
    anew = await controller_of(folder, empty, owner=Owner("another driver"), **explicit)
    assert [row["name"] for row in await anew.start()] == ["a"]


@in_virtual_time
async def test_what_a_lost_controller_has_left_is_its_owners(folder: Path) -> None:
    host = FakeHost()
    write_model(folder, "a")
    before = await controller_of(folder, host, model_control_mode="explicit")
    await before.start()
    await before.load("a", {})
    after = await controller_of(folder, host, model_control_mode="explicit", log_verbose=1)
    assert [row["name"] for row in await after.start()] == ["a"]


@in_virtual_time
async def test_instances_of_another_release_are_renewed_once_the_models_are_settled(
    folder: Path,
) -> None:
    write_model(folder, "a")
    host = FakeHost()
    controller = await controller_of(folder, host)
    host.instances.running = "0.9+abc"
    assert (await controller.renewal())["phase"] == "renewing"
    await controller.start()
    host.instances.running = str(own_release())
    await asyncio.sleep(LOAD_S + DRAIN_S + 1)
    told = await controller.renewal()
    assert (told["phase"], told["done"], told["left"]) == ("current", 1, 0)
    assert told["instances"][str(own_release())] == 1


@in_virtual_time
async def test_a_renewal_that_has_failed_is_begun_again_when_it_is_asked_for(
    folder: Path,
) -> None:
    write_model(folder, "a")
    host = FakeHost()
    controller = await controller_of(folder, host)
    host.instances.running = "0.9+abc"
    host.instances.fail["a/1#1"] = [InternalError("no module named numpy")]
    await controller.start()
    host.instances.running = str(own_release())
    await asyncio.sleep(LOAD_S + 1)
    told = await controller.renewal()
    assert (told["phase"], told["left"]) == ("failed", 1)
    assert "no module named numpy" in told["reason"]
    await controller.renew()
    await controller.renew()
    assert (await controller.renewal())["phase"] == "renewing"
    await asyncio.sleep(LOAD_S + DRAIN_S + 1)
    assert (await controller.renewal())["left"] == 0


@in_virtual_time
async def test_only_its_own_owner_is_heard(folder: Path) -> None:
    controller = await controller_of(folder, FakeHost())
    controller._lifeline.heard(time.monotonic() - 100)
    await controller.heartbeat("somebody else")
    assert (await controller.owner())[1] >= 100
    await controller.heartbeat("driver")
    assert (await controller.owner())[1] < 100
    await controller.start()
