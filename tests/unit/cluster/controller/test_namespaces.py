# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Triton's L0_model_namespacing on the controller: two repositories, in virtual time.

Inference is left to the integration tests; here the routing table tells what a name means.
"""

import asyncio
import shutil
from collections.abc import Callable, Coroutine
from pathlib import Path

import pytest

from backends.api.errors import InternalError, InvalidArgumentError, NotFoundError, TritonError
from deployments.contracts.routing_table import RoutingTable, lookup_error
from tests.support.control_plane_fakes import DRAIN_S, LOAD_S, in_virtual_time
from tests.support.controller_fakes import FakeHost, controller_of, write_model

POLL_S = 5
MODES = ("poll", "explicit")
Case = Callable[[Path, str], Coroutine[object, object, None]]


def write_ensemble(root: Path, name: str, part: str) -> None:
    (root / name / "1").mkdir(parents=True)
    (root / name / "config.pbtxt").write_text(
        f'name: "{name}" platform: "ensemble" '
        'input { name: "X" data_type: TYPE_FP32 dims: [1] } '
        'output { name: "Y" data_type: TYPE_FP32 dims: [1] } '
        f'ensemble_scheduling {{ step {{ model_name: "{part}" model_version: -1 '
        'input_map { key: "X" value: "X" } output_map { key: "Y" value: "Y" } } }'
    )


class Repositories:
    """Two repositories and the controller of a server that has them."""

    def __init__(self, folder: Path) -> None:
        self.a, self.b = folder / "a", folder / "b"
        self.a.mkdir(exist_ok=True)
        self.b.mkdir(exist_ok=True)
        self.host = FakeHost()

    async def start(self, mode: str, *names: str) -> None:
        """Start the controller; in mode explicit, load models by name."""
        self.controller = await controller_of(
            "",
            self.host,
            model_repository=[str(self.a), str(self.b)],
            model_namespacing=True,
            model_control_mode=mode,
            repository_poll_secs=POLL_S,
        )
        await self.controller.start()
        if mode == "explicit":
            for name in names:
                await self.controller.load(name, {})

    async def follow(self, mode: str, *names: str) -> None:
        """Have the server follow what has changed: by a poll, or by loads."""
        if mode == "explicit":
            for name in names:
                await self.controller.load(name, {})
        else:
            await asyncio.sleep(POLL_S + LOAD_S + DRAIN_S)

    async def table(self) -> RoutingTable:
        answer = await self.controller.routing_table(0, 1.0)
        assert answer.changes is not None
        return RoutingTable().after(answer.changes)

    async def parts(self, root: Path, name: str) -> set[str]:
        """Return what an ensemble is made of, and check that it could be called."""
        table = await self.table()
        entry = table.ready(f"{root}/{name}")
        assert entry is not None
        assert entry.config is not None
        keys = {step.model_key for step in entry.config.ensemble_steps}
        assert all(table.ready(key) for key in keys)
        return keys

    async def error(self, name: str) -> TritonError:
        return lookup_error(await self.table(), name)


def ambiguous(name: str) -> str:
    return (
        f"There are 2 identifiers of model '{name}' in global map, model namespace must be provided"
        " to resolve ambiguity."
    )


def duplicated(folder: Path) -> Repositories:
    given = Repositories(folder)
    for root, name in ((given.a, "simple_addsub"), (given.b, "simple_subadd")):
        write_model(root, "composing_model")
        write_ensemble(root, name, "composing_model")
    return given


async def no_duplication(folder: Path, mode: str) -> None:
    given = Repositories(folder)
    for root, name in ((given.a, "addsub"), (given.b, "subadd")):
        write_model(root, f"composing_{name}")
        write_ensemble(root, f"simple_{name}", f"composing_{name}")
    await given.start(mode, "simple_addsub", "simple_subadd")
    table = await given.table()
    for name in ("simple_addsub", "composing_addsub", "simple_subadd", "composing_subadd"):
        (key,) = table.keys_named(name)
        assert table.ready(key)


async def duplication(folder: Path, mode: str) -> None:
    given = duplicated(folder)
    await given.start(mode, "simple_addsub", "simple_subadd")
    assert await given.parts(given.a, "simple_addsub") == {f"{given.a}/composing_model"}
    assert await given.parts(given.b, "simple_subadd") == {f"{given.b}/composing_model"}
    error = await given.error("composing_model")
    assert isinstance(error, InvalidArgumentError)
    assert error.message == ambiguous("composing_model")


async def ensemble_duplication(folder: Path, mode: str) -> None:
    given = Repositories(folder)
    for root, name in ((given.a, "composing_addsub"), (given.b, "composing_subadd")):
        write_model(root, name)
        write_ensemble(root, "simple_ensemble", name)
    await given.start(mode, "simple_ensemble")
    assert await given.parts(given.a, "simple_ensemble") == {f"{given.a}/composing_addsub"}
    assert await given.parts(given.b, "simple_ensemble") == {f"{given.b}/composing_subadd"}
    assert (await given.error("simple_ensemble")).message == ambiguous("simple_ensemble")


async def dynamic_resolution(folder: Path, mode: str) -> None:
    given = duplicated(folder)
    names = ("simple_addsub", "simple_subadd")
    here, away = given.a / "composing_model", folder / "composing_model"
    own, other = (f"{root}/composing_model" for root in (given.a, given.b))
    await given.start(mode)
    shutil.move(here, away)
    await given.follow(mode, *names)
    assert await given.parts(given.a, "simple_addsub") == {other}
    assert await given.parts(given.b, "simple_subadd") == {other}
    assert (await given.table()).keys_named("composing_model") == [other]
    shutil.move(away, here)
    await given.follow(mode, "simple_addsub")
    assert await given.parts(given.a, "simple_addsub") == {own}
    assert await given.parts(given.b, "simple_subadd") == {other}
    assert (await given.error("composing_model")).message == ambiguous("composing_model")


CASES = (no_duplication, duplication, ensemble_duplication, dynamic_resolution)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("case", CASES)
def test_a_case_of_tritons_holds(tmp_path: Path, case: Case, mode: str) -> None:
    async def run(folder: Path) -> None:
        await case(folder, mode)

    in_virtual_time(run)(tmp_path)


@in_virtual_time
async def test_a_load_and_an_unload_mean_every_model_of_the_name(folder: Path) -> None:
    given = Repositories(folder)
    for root in (given.a, given.b):
        write_model(root, "m")
    await given.start("explicit", "m")
    index = await given.controller.index()
    assert [(row["name"], row["state"]) for row in index] == [("m", "READY")] * 2
    status = await given.controller.status()
    assert [row["name"] for row in status] == [f"{root}::m" for root in (given.a, given.b)]
    await given.controller.unload("m")
    assert [row["reason"] for row in await given.controller.index()] == ["unloaded"] * 2
    error = await given.error("m")
    assert isinstance(error, NotFoundError)
    assert error.message == "Identifier of model 'm' is not found in global map"


@in_virtual_time
async def test_a_name_nobody_has_is_an_invalid_argument_with_namespacing(folder: Path) -> None:
    given = Repositories(folder)
    await given.start("explicit")
    with pytest.raises(InternalError) as caught:
        await given.controller.load("m", {})
    text = "failed to load 'm', failed to poll from model repository"
    assert caught.value.message.startswith(f"{text}: ")
    error = await given.error("m")
    assert isinstance(error, InvalidArgumentError)
    assert error.message == "Request for unknown model: 'm' is not found"


@in_virtual_time
async def test_a_load_tells_of_each_model_of_the_name_that_failed(folder: Path) -> None:
    given = Repositories(folder)
    for root in (given.a, given.b):
        write_model(root, "m")
        given.host.instances.fail[f"{root}/m/1#0"] = [InternalError(f"broken in {root.name}")]
    await given.start("explicit")
    with pytest.raises(InvalidArgumentError) as caught:
        await given.controller.load("m", {})
    assert caught.value.message == "".join(
        f"load failed for model '{root}::m': version 1 is at UNAVAILABLE state: Internal: broken in"
        f" {root.name};\n"
        for root in (given.a, given.b)
    )


@in_virtual_time
async def test_a_restarted_controller_wants_the_models_of_both_repositories(folder: Path) -> None:
    given = Repositories(folder)
    for root in (given.a, given.b):
        write_model(root, "m")
    await given.start("explicit", "m")
    given.host = given.host.restarted()
    await given.start("explicit")
    table = await given.table()
    assert sorted(table.keys_named("m")) == [f"{given.a}/m", f"{given.b}/m"]
    assert all(table.ready(key) for key in table.models)
    assert not given.host.instances.log
    assert not given.host.killed


@in_virtual_time
async def test_startup_models_are_loaded_from_every_repository(folder: Path) -> None:
    given = Repositories(folder)
    for root in (given.a, given.b):
        write_model(root, "m")
        write_model(root, "n")
    await given.start("none")
    table = await given.table()
    assert [len(table.keys_named(name)) for name in "mn"] == [2, 2]
