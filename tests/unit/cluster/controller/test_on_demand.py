# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Mode ondemand: models whose files came with their load, beside those of the repositories."""

import asyncio
import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from backends.api.errors import TritonError
from cluster.controller.controller import ModelController
from tests.support.control_plane_fakes import DRAIN_S, in_virtual_time
from tests.support.controller_fakes import FakeHost, controller_of, write_model
from tests.unit.cluster.controller.test_controller import states

TENSOR = {"data_type": "TYPE_FP32", "dims": [1]}
CONFIG = json.dumps(
    {"backend": "identity", "input": [{"name": "X"} | TENSOR], "output": [{"name": "Y"} | TENSOR]}
)
FILES: dict[str, Any] = {"config": CONFIG, "file:1/model.bin": b"weights"}


async def on_demand(folder: Path, host: FakeHost) -> ModelController:
    controller = await controller_of(
        folder, host, model_control_mode="ondemand", repository_poll_secs=1
    )
    await controller.start()
    return controller


async def after_a_restart(
    folder: Path, host: FakeHost, before: ModelController, *, with_instances: bool
) -> tuple[ModelController, FakeHost]:
    again = host.restarted()
    if not with_instances:
        again.without_instances()
    return await on_demand(folder, again), again


@in_virtual_time
async def test_on_demand_a_model_loaded_with_its_files_stays(folder: Path) -> None:
    write_model(folder, "a")
    controller = await on_demand(folder, FakeHost())
    await controller.load("x", FILES)
    await asyncio.sleep(40)
    assert states(await controller.status()) == {"a": "READY", "x": "READY"}
    await controller.unload("x")
    assert states(await controller.status())["x"] == "UNAVAILABLE"


@in_virtual_time
async def test_on_demand_a_model_loaded_with_its_files_stays_when_its_directory_goes(
    folder: Path,
) -> None:
    write_model(folder, "a")
    write_model(folder, "x")
    controller = await on_demand(folder, FakeHost())
    assert await controller.wake("x", -1) is None
    await controller.load("x", FILES)
    shutil.rmtree(folder / "x")
    await asyncio.sleep(40)
    assert states(await controller.status()) == {"a": "READY", "x": "READY"}


@pytest.mark.parametrize("is_in_repository", [False, True])
@pytest.mark.parametrize("with_instances", [True, False])
def test_on_demand_a_model_loaded_with_its_files_stays_over_a_restart(
    tmp_path: Path, *, with_instances: bool, is_in_repository: bool
) -> None:
    @in_virtual_time
    async def run(folder: Path) -> None:
        write_model(folder, "a")
        if is_in_repository:
            write_model(folder, "x")
        host = FakeHost()
        controller = await on_demand(folder, host)
        await controller.load("x", FILES)
        successor, again = await after_a_restart(
            folder, host, controller, with_instances=with_instances
        )
        await asyncio.sleep(40)
        assert states(await successor.status()) == {"a": "READY", "x": "READY"}
        assert any(line.startswith("ready x/1") for line in again.instances.log) != with_instances
        assert successor._state.saved.wanted == ["x"]
        assert successor._lifecycle.records["x"].ready_versions == (1,)
        # As a controller that was restarted once more would find it.
        third, _ = await after_a_restart(folder, again, successor, with_instances=False)
        assert third._lifecycle.records["x"].ready_versions == (1,)

    run(tmp_path)


@in_virtual_time
async def test_on_demand_what_was_unloaded_does_not_come_back_with_a_restart(folder: Path) -> None:
    write_model(folder, "a")
    host = FakeHost()
    controller = await on_demand(folder, host)
    await controller.load("x", FILES)
    await controller.load("a", {})
    await controller.unload("x")
    assert controller._state.saved.wanted == []
    host.was_restarted = True
    successor = await on_demand(folder, host)
    assert not successor._lifecycle.records["x"].ready_versions


@in_virtual_time
async def test_on_demand_a_model_loaded_from_its_repository_again_goes_with_its_directory(
    folder: Path,
) -> None:
    write_model(folder, "a")
    write_model(folder, "x")
    controller = await on_demand(folder, FakeHost())
    await controller.load("x", FILES)
    await controller.load("x", {})
    assert controller._state.saved.wanted == []
    shutil.rmtree(folder / "x")
    await asyncio.sleep(2 + DRAIN_S)
    assert states(await controller.status())["x"] == "UNAVAILABLE"


@in_virtual_time
async def test_on_demand_a_load_of_files_that_fails_is_not_known_as_a_model(folder: Path) -> None:
    write_model(folder, "a")
    host = FakeHost()
    host.instances.fail["x/1#0"] = [TritonError("no such file")]
    controller = await on_demand(folder, host)
    with pytest.raises(TritonError):
        await controller.load("x", FILES)
    assert controller._state.saved.wanted == []
