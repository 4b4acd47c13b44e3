# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Polls of repositories that cannot be read for a moment, or whose directory is another."""

import asyncio
import logging
import shutil
from collections.abc import Collection, Iterable
from pathlib import Path

import pytest

from cluster.controller.controller import ModelController
from cluster.controller.poll import poll_once
from cluster.controller.repository_watch import RepositoryWatch
from cluster.models.contracts import Candidate
from cluster.models.override import Override
from cluster.repository.contents import RepositoryScan
from tests.support.control_plane_fakes import (
    DRAIN_S,
    LOAD_S,
    World,
    error_of,
    in_virtual_time,
    model,
)
from tests.support.controller_fakes import FakeHost, controller_of, write_model
from tests.unit.cluster.controller.test_controller import states

PERIOD_S = 5
# Before the second poll, and long enough for an unload that the first one begins.
ONE_POLL_S = PERIOD_S + 0.1
READY = {"a": "READY", "b": "READY"}
# A link that cannot be followed, for another reason than that there is nothing.
UNREADABLE = "x" * 300


async def polling(
    folder: Path, host: FakeHost, mode: str = "poll", repositories: Iterable[str] = ("one", "two")
) -> ModelController:
    controller = await controller_of(
        folder,
        host,
        model_repository=[str(folder / name) for name in repositories],
        model_control_mode=mode,
        repository_poll_secs=PERIOD_S,
    )
    await controller.start()
    return controller


def write_two(folder: Path) -> None:
    write_model(folder / "one", "a")
    write_model(folder / "two", "b")


async def awake(folder: Path, mode: str) -> tuple[ModelController, FakeHost]:
    host = FakeHost()
    controller = await polling(folder, host, mode)
    if mode == "ondemand":
        assert [await controller.wake(name, -1) for name in "ab"] == [None, None]
    return controller, host


def serving(controller: ModelController) -> set[str]:
    records = controller._lifecycle.records.values()
    return {record.name for record in records if record.ready_versions}


@pytest.mark.parametrize("mode", ["poll", "ondemand"])
def test_a_repository_that_is_away_unloads_nothing_and_is_followed_when_it_is_back(
    tmp_path: Path, mode: str
) -> None:
    @in_virtual_time
    async def run(folder: Path) -> None:
        write_two(folder)
        controller, host = await awake(folder, mode)
        (folder / "two").rename(folder / "away")
        await asyncio.sleep(10 * PERIOD_S)
        assert states(await controller.status()) == READY
        rows = {row["name"]: row.get("reason", "") for row in await controller.index()}
        assert "cannot be listed" in rows["b"]
        assert "cannot be listed" not in rows["a"]
        (folder / "away").rename(folder / "two")
        await asyncio.sleep(2 * PERIOD_S)
        assert states(await controller.status()) == READY
        assert [line for line in host.instances.log if line.startswith(("drain", "end"))] == []
        shutil.rmtree(folder / "two" / "b")
        write_model(folder / "two", "c")
        await asyncio.sleep(ONE_POLL_S + DRAIN_S + LOAD_S)
        assert "b" not in serving(controller)
        assert "c" in controller._lifecycle.records

    run(tmp_path)


@in_virtual_time
async def test_models_of_a_repository_that_is_away_are_not_read(folder: Path) -> None:
    write_two(folder)
    controller, _ = await awake(folder, "poll")
    (folder / "two").rename(folder / "away")
    await asyncio.sleep(3 * PERIOD_S)
    assert controller._lifecycle.records["b"].failure == ""


@pytest.mark.parametrize("mode", ["poll", "ondemand"])
def test_an_empty_directory_in_place_of_a_repository_unloads_nothing_on_one_listing(
    tmp_path: Path, mode: str, caplog: pytest.LogCaptureFixture
) -> None:
    @in_virtual_time
    async def run(folder: Path) -> None:
        write_two(folder)
        controller, host = await awake(folder, mode)
        (folder / "two").rename(folder / "away")
        (folder / "two").mkdir()
        with caplog.at_level(logging.WARNING):
            await asyncio.sleep(ONE_POLL_S)
        assert f"model repository '{folder}/two' lists no model any more" in caplog.text
        # Who asks for the index is no second poll.
        await controller.index()
        assert serving(controller) == {"a", "b"}
        (folder / "two").rmdir()
        (folder / "away").rename(folder / "two")
        await asyncio.sleep(3 * PERIOD_S)
        assert serving(controller) == {"a", "b"}
        assert [line for line in host.instances.log if line.startswith(("drain", "end"))] == []
        # Two in a row are believed.
        (folder / "two").rename(folder / "away")
        (folder / "two").mkdir()
        await asyncio.sleep(2 * ONE_POLL_S + DRAIN_S)
        assert serving(controller) == {"a"}
        assert "again lists no model" in caplog.text

    run(tmp_path)


@in_virtual_time
async def test_several_models_that_are_gone_at_once_are_looked_for_twice(folder: Path) -> None:
    for name in "ab":
        write_model(folder / "one", name)
    controller = await polling(folder, FakeHost(), repositories=["one"])
    for name in "ab":
        shutil.rmtree(folder / "one" / name)
    await asyncio.sleep(ONE_POLL_S)
    assert serving(controller) == {"a", "b"}
    await asyncio.sleep(ONE_POLL_S + DRAIN_S)
    assert serving(controller) == set()


@pytest.mark.parametrize("mode", ["poll", "ondemand"])
def test_a_model_that_a_user_removes_is_unloaded_by_the_next_poll(
    tmp_path: Path, mode: str
) -> None:
    @in_virtual_time
    async def run(folder: Path) -> None:
        write_two(folder)
        write_model(folder / "two", "c")
        controller, _ = await awake(folder, mode)
        shutil.rmtree(folder / "two" / "b")
        await asyncio.sleep(ONE_POLL_S)
        assert "b" not in serving(controller)
        # The last one of its repository, too, and while another repository is away.
        (folder / "two").rename(folder / "away")
        shutil.rmtree(folder / "one" / "a")
        await asyncio.sleep(ONE_POLL_S + DRAIN_S)
        assert "a" not in serving(controller)

    run(tmp_path)


@pytest.mark.parametrize("mode", ["poll", "ondemand"])
def test_an_entry_that_cannot_be_looked_at_unloads_nothing(tmp_path: Path, mode: str) -> None:
    @in_virtual_time
    async def run(folder: Path) -> None:
        write_two(folder)
        write_model(folder / "two", "c")
        controller, host = await awake(folder, mode)
        (folder / "two" / "b").rename(folder / "b")
        (folder / "two" / "b").symlink_to(UNREADABLE)
        await asyncio.sleep(3 * PERIOD_S)
        assert serving(controller) >= {"a", "b"}
        (folder / "two" / "b").unlink()
        (folder / "b").rename(folder / "two" / "b")
        await asyncio.sleep(3 * PERIOD_S)
        assert serving(controller) >= {"a", "b"}
        assert [line for line in host.instances.log if line.startswith(("drain", "end"))] == []

    run(tmp_path)


@in_virtual_time
async def test_a_file_that_cannot_be_looked_at_does_not_reload_its_model(folder: Path) -> None:
    write_two(folder)
    weights = folder / "two" / "b" / "1" / "weights"
    weights.write_text("x")
    controller, host = await awake(folder, "poll")
    begun = [line for line in host.instances.log if line.startswith("start")]
    weights.rename(folder / "weights")
    weights.symlink_to(UNREADABLE)
    await asyncio.sleep(3 * PERIOD_S)
    weights.unlink()
    (folder / "weights").rename(weights)
    await asyncio.sleep(3 * PERIOD_S)
    assert [line for line in host.instances.log if line.startswith("start")] == begun
    assert states(await controller.status()) == READY


@pytest.mark.parametrize("mode", ["none", "poll", "ondemand"])
@pytest.mark.parametrize("fault", ["away", "empty", "unreadable"])
def test_a_restart_unloads_nothing_that_could_not_be_listed(
    tmp_path: Path, mode: str, fault: str
) -> None:
    @in_virtual_time
    async def run(folder: Path) -> None:
        write_two(folder)
        _, host = await awake(folder, mode)
        (folder / "two").rename(folder / "away")
        if fault != "away":
            (folder / "two").mkdir()
        if fault == "unreadable":
            (folder / "two" / "b").symlink_to(UNREADABLE)
        successor = await polling(folder, host.restarted(), mode)
        assert serving(successor) == {"a", "b"}
        if fault != "away":
            shutil.rmtree(folder / "two")
        (folder / "away").rename(folder / "two")
        await asyncio.sleep(3 * PERIOD_S)
        assert serving(successor) == {"a", "b"}

    run(tmp_path)


@in_virtual_time
async def test_the_only_repository_that_is_away_at_a_restart_unloads_nothing(folder: Path) -> None:
    write_model(folder / "one", "a")
    host = FakeHost()
    await polling(folder, host, repositories=["one"])
    (folder / "one").rename(folder / "away")
    (folder / "one").mkdir()
    successor = await polling(folder, host.restarted(), repositories=["one"])
    assert serving(successor) == {"a"}
    (folder / "one").rmdir()
    await asyncio.sleep(3 * PERIOD_S)
    assert serving(successor) == {"a"}
    (folder / "away").rename(folder / "one")
    await asyncio.sleep(3 * PERIOD_S)
    assert serving(successor) == {"a"}


@pytest.mark.parametrize("mode", ["none", "poll", "ondemand"])
def test_a_model_that_was_removed_while_there_was_no_controller_is_unloaded_by_the_next(
    tmp_path: Path, mode: str
) -> None:
    @in_virtual_time
    async def run(folder: Path) -> None:
        write_two(folder)
        write_model(folder / "two", "c")
        _, host = await awake(folder, mode)
        shutil.rmtree(folder / "two" / "b")
        successor = await polling(folder, host.restarted(), mode)
        assert "b" not in serving(successor)

    run(tmp_path)


class SlowWorld(World):
    """A repository of models, some of which answer nothing to who reads them."""

    def __init__(self, *names: str) -> None:
        super().__init__(*map(model, names))
        self.watch = RepositoryWatch()
        self.hanging: set[str] = set()

    async def list_names(self) -> tuple[Collection[str], Collection[str]]:
        self.watch.saw(RepositoryScan({name: f"/r/{name}" for name in self.candidates}))
        return tuple(self.candidates), ()

    def unchanged(self, names: Collection[str]) -> frozenset[str]:
        return frozenset()

    async def read(self, name: str, override: Override, kept: Override) -> Candidate:
        if name in self.hanging:
            await asyncio.get_running_loop().create_future()
        return await super().read(name, override, kept)

    async def poll(self) -> set[str]:
        await poll_once(self, self.lifecycle)
        await asyncio.sleep(LOAD_S + DRAIN_S)
        return {name for name, at in self.lifecycle.records.items() if at.ready_versions}


@in_virtual_time
async def test_a_model_that_hangs_while_it_is_read_keeps_no_other_from_being_followed() -> None:
    world = SlowWorld("a", "f")
    assert await world.poll() == {"a", "f"}
    world.hanging = {"f"}
    assert await world.poll() == {"a", "f"}
    del world.candidates["a"]
    world.candidates |= {"b": model("b"), "c": model("c")}
    assert await world.poll() == {"b", "c", "f"}
    world.candidates["c"] = model("c", versions=(2,))
    assert await world.poll() == {"b", "c", "f"}
    assert world.record("c").ready_versions == (2,)


def test_a_load_that_hangs_is_told_once_and_begun_once(caplog: pytest.LogCaptureFixture) -> None:
    @in_virtual_time
    async def run() -> None:
        world = SlowWorld("f")
        world.hanging = {"f"}
        with caplog.at_level(logging.WARNING):
            await world.poll()
            await world.poll()
        assert [text for text in caplog.messages if "load for longer" in text] == [
            "1 models load for longer than 10 s, and others are followed meanwhile: f"
        ]
        assert world.lifecycle.loading_names == {"f"}

    run()


@in_virtual_time
async def test_a_pending_model_whose_files_hang_can_be_unloaded() -> None:
    world = SlowWorld("f")
    world.host.blocked = {"f/1#0"}
    await error_of(world.lifecycle.load("f"))
    world.hanging = {"f"}
    polling = asyncio.create_task(world.poll())
    await asyncio.sleep(1)
    async with asyncio.timeout(DRAIN_S + 1):
        await world.lifecycle.unload("f")
    await polling
