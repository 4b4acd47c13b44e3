# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""What the controller tells nodes of models in stores whose configs name repository agents."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from backends.api.errors import TritonError
from cluster.controller.controller import ModelController
from cluster.repository.stores.opening import open_store
from tests.support.control_plane_fakes import DRAIN_S, in_virtual_time
from tests.support.controller_fakes import FakeHost, controller_of

CONFIG = """
name: "m" backend: "identity" version_policy { all {} }
input { name: "X" data_type: TYPE_FP32 dims: [1] }
output { name: "Y" data_type: TYPE_FP32 dims: [1] }
instance_group { kind: KIND_CPU count: 1 }
"""
AGENTS = 'model_repository_agents { agents { name: "checksum" } }'


class Served:
    """A controller and the store of its one repository."""

    def __init__(self, folder: Path) -> None:
        location = f"memory://{folder.name}/models"
        self.store: Any = open_store(location)
        self.host = FakeHost()
        self.location = location
        self.put("config.pbtxt", CONFIG + AGENTS)
        self.put("1/data", "one")

    def put(self, path: str, text: str) -> None:
        self.store.write(f"m/{path}", text.encode())

    async def start(self) -> ModelController:
        actor = await controller_of(self.location, self.host, model_control_mode="explicit")
        await actor.start()
        return actor

    @property
    def told(self) -> list[str]:
        return [action for _, action in self.host.told]

    def told_of(self, version: int) -> list[str]:
        """Return what agents of a version that is loaded were told."""
        specs = self.host.specs
        keys = {spec.files.key() for spec in specs if spec.files and spec.version == version}
        return [action for key, action in self.host.told if key in keys]


@in_virtual_time
async def test_agents_hear_of_a_life_as_those_of_local_models_do(folder: Path) -> None:
    served = Served(folder)
    controller = await served.start()
    await controller.load("m", {})
    assert served.told == ["LOAD_COMPLETE"]
    await controller.load("m", {})
    await controller.unload("m")
    assert served.told == ["LOAD_COMPLETE", "UNLOAD", "UNLOAD_COMPLETE"]


@in_virtual_time
async def test_agents_hear_of_a_load_that_failed(folder: Path) -> None:
    served = Served(folder)
    controller = await served.start()
    served.host.instances.fail["m/1#0"] = [TritonError("broken")]
    with pytest.raises(TritonError):
        await controller.load("m", {})
    await asyncio.sleep(DRAIN_S)
    assert served.told == ["LOAD_FAIL"]


@in_virtual_time
async def test_a_version_that_stays_hears_nothing_of_those_that_come_and_fail(folder: Path) -> None:
    served = Served(folder)
    controller = await served.start()
    await controller.load("m", {})
    served.put("2/data", "two")
    served.host.instances.fail["m/2#0"] = [TritonError("broken")]
    with pytest.raises(TritonError):
        await controller.load("m", {})
    await asyncio.sleep(DRAIN_S)
    assert served.told == ["LOAD_COMPLETE", "LOAD_FAIL"]
    await controller.load("m", {})
    await asyncio.sleep(2 * DRAIN_S)
    assert served.told_of(1) == ["LOAD_COMPLETE"]
    assert served.told_of(2)[-1] == "LOAD_COMPLETE"


@in_virtual_time
async def test_a_reload_of_other_files_ends_the_former(folder: Path) -> None:
    served = Served(folder)
    controller = await served.start()
    await controller.load("m", {})
    served.put("1/data", "another")
    await controller.load("m", {})
    await asyncio.sleep(2 * DRAIN_S)
    first, second = dict.fromkeys(key for key, _ in served.host.told)
    told = {key: [a for k, a in served.host.told if k == key] for key in (first, second)}
    assert told[first] == ["LOAD_COMPLETE", "UNLOAD", "UNLOAD_COMPLETE"]
    assert told[second] == ["LOAD_COMPLETE"]


@in_virtual_time
async def test_agents_hear_of_the_end_of_the_server(folder: Path) -> None:
    served = Served(folder)
    controller = await served.start()
    await controller.load("m", {})
    await controller.shutdown(DRAIN_S)
    assert served.told == ["LOAD_COMPLETE", "UNLOAD", "UNLOAD_COMPLETE"]


@in_virtual_time
async def test_nobody_is_told_of_a_model_without_agents(folder: Path) -> None:
    served = Served(folder)
    served.put("config.pbtxt", CONFIG)
    controller = await served.start()
    await controller.load("m", {})
    await controller.unload("m")
    assert served.told == []
