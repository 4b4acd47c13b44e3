# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Files that came with a load reach the instances, whatever their node."""

import json
from pathlib import Path
from typing import Any

import pytest

from backends.api.errors import TritonError
from cluster.actors.model_files import FILES_PREFIX
from cluster.controller import shared_files
from cluster.controller.controller import ModelController
from cluster.controller.ownership import Owner
from cluster.options.parsing import from_mapping
from deployments.instance.model_files import with_local_files
from deployments.instance.spec import InstanceSpec
from tests.support.control_plane_fakes import DRAIN_S
from tests.support.controller_fakes import FakeHost, in_virtual_time_with_folder, live_instance

CONFIG = json.dumps(
    {
        "name": "m",
        "backend": "identity",
        "input": [{"name": "X", "data_type": "TYPE_FP32", "dims": [1]}],
        "output": [{"name": "Y", "data_type": "TYPE_FP32", "dims": [1]}],
        "instance_group": [{"kind": "KIND_CPU", "count": 2}],
    }
)
LOAD = {"config": CONFIG, "file:1/data": b"content"}


async def explicit(folder: Path, host: FakeHost) -> ModelController:
    given = {
        "model_repository": str(folder),
        "disable_auto_complete_config": True,
        "model_control_mode": "explicit",
        "exit_timeout_secs": int(DRAIN_S),
    }
    actor = ModelController.__new__(ModelController)
    await actor.__init__(from_mapping(given), Owner(), lambda _: host)  # type: ignore[misc]
    await actor.start()
    return actor


def specs(host: FakeHost) -> list[InstanceSpec]:
    return [spec for pool in host.world.pools for spec in pool.live.values()]


def files(host: FakeHost) -> list[bytes]:
    return [key for key in host.store.values if key.startswith(FILES_PREFIX)]


def content_of(directory: str) -> set[str]:
    return {path.name for path in Path(directory).rglob("*") if path.is_file()}


def fetch(host: FakeHost) -> Any:
    return lambda key: host.store.values.get(FILES_PREFIX + key.encode())


@in_virtual_time_with_folder
async def test_an_instance_on_another_node_gets_the_files_of_the_load(folder: Path) -> None:
    host = FakeHost()
    host.nodes = ("n1", "n2")
    controller = await explicit(folder, host)
    await controller.load("m", LOAD)
    found = specs(host)
    assert len(found) == 2
    # As a process sees it on a node that has no such directory.
    elsewhere = type(found[0])(
        **{name: getattr(found[0], name) for name in found[0].__slots__}
        | {"model_dir": "/nowhere"}
        | {"model_cache_directory": str(folder / "node-2")}
    )
    local = with_local_files(elsewhere, fetch(host))
    assert content_of(local.model_dir) == {"config.pbtxt", "data"}


@in_virtual_time_with_folder
async def test_an_unload_removes_the_files(folder: Path) -> None:
    host = FakeHost()
    host.nodes = ("n1", "n2")
    controller = await explicit(folder, host)
    await controller.load("m", LOAD)
    directory = specs(host)[0].model_dir
    assert len(files(host)) == 1
    await controller.unload("m")
    assert files(host) == []
    assert content_of(directory) == set()


@in_virtual_time_with_folder
async def test_a_reload_keeps_only_the_newer_files(folder: Path) -> None:
    host = FakeHost()
    host.nodes = ("n1", "n2")
    controller = await explicit(folder, host)
    await controller.load("m", LOAD)
    await controller.load("m", {**LOAD, "file:1/data": b"newer"})
    await controller.unload("m")
    assert files(host) == []


@in_virtual_time_with_folder
async def test_a_load_that_failed_leaves_no_files(folder: Path) -> None:
    host = FakeHost()
    host.nodes = ("n1", "n2")
    controller = await explicit(folder, host)
    host.world.fail["m/1#0"] = [TritonError("broken")]
    with pytest.raises(TritonError):
        await controller.load("m", LOAD)
    await controller.shutdown(1.0)
    assert files(host) == []


@in_virtual_time_with_folder
async def test_on_a_single_node_instances_stay_where_the_files_are(folder: Path) -> None:
    host = FakeHost()
    controller = await explicit(folder, host)
    await controller.load("m", LOAD)
    assert files(host) == []
    assert all(spec.resources == {"node:h": 0.0001} for spec in specs(host))


@in_virtual_time_with_folder
async def test_files_too_large_for_the_head_keep_instances_on_the_controllers_node(
    folder: Path,
) -> None:
    host = FakeHost()
    host.nodes = ("n1", "n2")
    controller = await explicit(folder, host)
    limit, shared_files.MAX_SHARED_BYTES = shared_files.MAX_SHARED_BYTES, 5
    try:
        await controller.load("m", LOAD)
    finally:
        shared_files.MAX_SHARED_BYTES = limit
    assert files(host) == []
    assert all(spec.resources == {"node:h": 0.0001} for spec in specs(host))


@in_virtual_time_with_folder
async def test_a_model_of_the_repository_is_tied_to_no_node(folder: Path) -> None:
    host = FakeHost()
    (folder / "m" / "1").mkdir(parents=True)
    controller = await explicit(folder, host)
    await controller.load("m", {"config": CONFIG})
    assert all(spec.resources == {} for spec in specs(host))


@in_virtual_time_with_folder
async def test_files_outlive_the_controller_and_go_with_the_model(folder: Path) -> None:
    host = FakeHost()
    host.nodes = ("n1", "n2")
    controller = await explicit(folder, host)
    await controller.load("m", LOAD)
    (first, _) = specs(host)
    again = FakeHost(host.store)
    again.was_restarted, again.nodes = True, host.nodes
    again.live = [live_instance(first)]
    host.store.values[FILES_PREFIX + b"manta-model-stray"] = b""
    successor = await explicit(folder, again)
    assert files(again) == [FILES_PREFIX + first.files_key.encode()]
    assert again.world.pools[0].missing == ["m/1#1@1"]
    await successor.unload("m")
    assert files(again) == []
    assert content_of(first.model_dir) == set()
