# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Files that came with a load reach the instances, whatever their node."""

import asyncio
import hashlib
import json
import tempfile
from pathlib import Path

import pytest

from backends.api.errors import ResourceExhaustedError, TritonError, UnavailableError
from cluster.controller.controller import ModelController
from deployments.instance.spec import InstanceSpec
from tests.support.control_plane_fakes import DRAIN_S, in_virtual_time
from tests.support.controller_fakes import FakeHost, controller_of, write_model

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
    actor = await controller_of(folder, host, model_control_mode="explicit")
    await actor.start()
    return actor


@pytest.fixture(autouse=True)
def _temporary_files_are_the_tests(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))


def specs(host: FakeHost) -> list[InstanceSpec]:
    return sorted(host.specs, key=lambda spec: spec.index)


def content_of(directory: str) -> set[str]:
    return {path.name for path in Path(directory).rglob("*") if path.is_file()}


def host_of(*nodes: str) -> FakeHost:
    host = FakeHost()
    host.node_names = nodes
    return host


@in_virtual_time
async def test_instances_are_told_of_the_files_by_their_digests_and_of_the_node_that_gives_them(
    folder: Path,
) -> None:
    host = host_of("n1", "n2")
    controller = await explicit(folder, host)
    await controller.load("m", LOAD)
    first, second = specs(host)
    assert first.files is not None
    assert first.files == second.files
    digests = {file.path: file.sha256 for file in first.files.files}
    assert digests.keys() == {"1/data", "config.pbtxt"}
    assert digests["1/data"] == hashlib.sha256(b"content").hexdigest()
    assert host.offers == [f"load://n1{first.model_dir}"] == [first.files.location]
    assert first.resources == {}
    assert not any(b"file" in key for key in host.store.values)


@in_virtual_time
async def test_an_unload_removes_the_files(folder: Path) -> None:
    host = host_of("n1", "n2")
    controller = await explicit(folder, host)
    await controller.load("m", LOAD)
    directory = specs(host)[0].model_dir
    assert len(host.offers) == 1
    await controller.unload("m")
    assert host.offers == []
    assert content_of(directory) == set()


@in_virtual_time
async def test_a_reload_keeps_only_the_newer_files(folder: Path) -> None:
    host = host_of("n1", "n2")
    controller = await explicit(folder, host)
    await controller.load("m", LOAD)
    (older,) = host.offers
    await controller.load("m", {**LOAD, "file:1/data": b"newer"})
    await asyncio.sleep(2 * DRAIN_S)
    assert len(host.offers) == 1
    assert host.offers != [older]
    await controller.unload("m")
    assert host.offers == []


@in_virtual_time
async def test_a_reload_without_files_lets_go_of_them(folder: Path) -> None:
    host = host_of("n1", "n2")
    write_model(folder, "m")
    controller = await explicit(folder, host)
    await controller.load("m", LOAD)
    await controller.load("m", {})
    await asyncio.sleep(2 * DRAIN_S)
    assert host.offers == []


@in_virtual_time
async def test_a_load_that_failed_leaves_no_files(folder: Path) -> None:
    host = host_of("n1", "n2")
    controller = await explicit(folder, host)
    host.instances.fail["m/1#0"] = [TritonError("broken")]
    with pytest.raises(TritonError):
        await controller.load("m", LOAD)
    await controller.shutdown(1.0)
    assert host.offers == []


@in_virtual_time
async def test_on_a_single_node_files_are_given_to_others_only_when_they_ask(folder: Path) -> None:
    host = host_of("n1")
    controller = await explicit(folder, host)
    await controller.load("m", LOAD)
    assert host.offers == []
    assert all(spec.files is not None and spec.resources == {} for spec in specs(host))


@in_virtual_time
async def test_files_the_cache_has_no_room_for_keep_instances_on_the_controllers_node(
    folder: Path,
) -> None:
    host = host_of("n1", "n2")
    controller = await explicit(folder, host)
    host.fail["offer_files"] = ResourceExhaustedError("no room")
    await controller.load("m", LOAD)
    assert all(spec.files is None for spec in specs(host))
    assert all(spec.resources == {"node:h": 0.0001} for spec in specs(host))


@in_virtual_time
async def test_files_that_cannot_be_given_to_other_nodes_fail_the_load(folder: Path) -> None:
    host = host_of("n1", "n2")
    controller = await explicit(folder, host)
    host.fail["offer_files"] = UnavailableError("does not start")
    with pytest.raises(TritonError, match="does not start"):
        await controller.load("m", LOAD)
    await controller.load("m", LOAD)
    assert len(host.offers) == 1


@in_virtual_time
async def test_a_model_of_the_repository_is_tied_to_no_node(folder: Path) -> None:
    host = FakeHost()
    (folder / "m" / "1").mkdir(parents=True)
    controller = await explicit(folder, host)
    await controller.load("m", {"config": CONFIG})
    assert all(spec.resources == {} and spec.files is None for spec in specs(host))


@in_virtual_time
async def test_files_outlive_the_controller_and_go_with_the_model(folder: Path) -> None:
    host = host_of("n1", "n2")
    controller = await explicit(folder, host)
    await controller.load("m", LOAD)
    (first, _) = specs(host)
    assert first.files is not None
    again = host.restarted()
    again.node_names = host.node_names
    again.instances.vanish(again.instances.alive[1])
    again.offers = ["load://n1/tmp/stray", *host.offers]
    successor = await explicit(folder, again)
    assert again.offers == [first.files.location]
    assert "start m/1#1@1" in again.instances.log
    await successor.unload("m")
    assert again.offers == []
    assert content_of(first.model_dir) == set()
