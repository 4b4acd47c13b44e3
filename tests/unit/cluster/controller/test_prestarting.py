# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""The controller keeps idle workers for what is dormant, and asks for none while one is woken."""

import asyncio
from pathlib import Path

from cluster.controller.controller import ModelController
from tests.support.control_plane_fakes import LOAD_S, in_virtual_time
from tests.support.controller_fakes import FakeHost, controller_of, write_model

LOOKS_S = 15


async def on_demand(folder: Path, host: FakeHost, workers: int = 1) -> ModelController:
    for name in ("a", "b", "c"):
        write_model(folder, name)
    changes = {"model_control_mode": "ondemand", "prestart_workers": workers}
    controller = await controller_of(folder, host, **changes)
    await controller.start()
    return controller


@in_virtual_time
async def test_nodes_have_workers_for_models_that_were_never_used(folder: Path) -> None:
    host = FakeHost()
    await on_demand(folder, host, workers=2)
    await asyncio.sleep(LOOKS_S)
    assert host.prestarted == [{"n": 2}]
    host.node_names = ("n", "o")
    await asyncio.sleep(LOOKS_S)
    assert host.prestarted[1:] == [{"o": 2}]


@in_virtual_time
async def test_what_an_instance_takes_is_started_anew_once_nothing_is_woken(folder: Path) -> None:
    host = FakeHost()
    controller = await on_demand(folder, host)
    await asyncio.sleep(LOOKS_S)
    assert await controller.wake("a", 1) is None
    host.instances.blocked.add("b/1#0")
    waking = asyncio.create_task(controller.wake("b", 1))
    await asyncio.sleep(LOAD_S + LOOKS_S)
    assert len(host.prestarted) == 1
    host.instances.unblock()
    await waking
    await asyncio.sleep(LOOKS_S)
    assert host.prestarted == [{"n": 1}] * 2


@in_virtual_time
async def test_failure_is_tried_again(folder: Path) -> None:
    host = FakeHost()
    host.fail["prestart"] = RuntimeError("a fault")
    await on_demand(folder, host)
    await asyncio.sleep(2 * LOOKS_S)
    assert host.prestarted == [{"n": 1}]


@in_virtual_time
async def test_without_dormant_versions_no_worker_is_asked_for(folder: Path) -> None:
    host = FakeHost()
    write_model(folder, "a")
    controller = await controller_of(folder, host)
    await controller.start()
    await asyncio.sleep(LOOKS_S)
    assert not host.prestarted


@in_virtual_time
async def test_count_of_zero_asks_for_no_worker(folder: Path) -> None:
    host = FakeHost()
    await on_demand(folder, host, workers=0)
    await asyncio.sleep(LOOKS_S)
    assert not host.prestarted
