# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Models that cannot be read while a controller starts, in modes without polls."""

import asyncio
from pathlib import Path

import pytest

from backends.api.errors import TritonError
from tests.support.control_plane_fakes import in_virtual_time
from tests.support.controller_fakes import (
    FakeHost,
    explicit_controller_of,
    ready,
    with_two_models,
    write_model,
)

AWAY_S = 30.0
LONG_S = 120.0


@pytest.mark.parametrize("mode", ["explicit", "none"])
def test_what_cannot_be_read_at_a_restart_is_read_once_the_repository_is_back(
    mode: str, tmp_path: Path
) -> None:
    @in_virtual_time
    async def check(folder: Path) -> None:
        there, away = folder / "there", folder / "away"
        first = await with_two_models(there) if mode == "explicit" else None
        host = FakeHost() if first is None else first[1].restarted().without_instances()
        if mode == "none":
            for name in ("a", "b"):
                write_model(there, name)
        there.rename(away)
        controller = await explicit_controller_of(there, host, model_control_mode=mode)
        await asyncio.sleep(AWAY_S)
        assert await ready(controller) == []
        away.rename(there)
        await asyncio.sleep(LONG_S)
        assert await ready(controller) == ["a", "b"]

    check(tmp_path)


@in_virtual_time
async def test_of_two_repositories_the_one_that_was_away_is_loaded_when_it_is_back(
    folder: Path,
) -> None:
    write_model(folder / "one", "a")
    write_model(folder / "away", "b")
    paths = [str(folder / "one"), str(folder / "two")]
    controller = await explicit_controller_of(
        folder, FakeHost(), model_repository=paths, model_control_mode="none"
    )
    await controller.start()
    assert await ready(controller) == ["a"]
    (folder / "away").rename(folder / "two")
    await asyncio.sleep(LONG_S)
    assert await ready(controller) == ["a", "b"]
    # From then on nothing is followed.
    write_model(folder / "two", "c")
    await asyncio.sleep(LONG_S)
    assert await ready(controller) == ["a", "b"]


@in_virtual_time
async def test_what_a_client_has_unloaded_or_could_not_load_is_not_tried_again(
    folder: Path,
) -> None:
    there, away = folder / "there", folder / "away"
    _, old = await with_two_models(there)
    host = old.restarted().without_instances()
    there.rename(away)
    controller = await explicit_controller_of(there, host)
    await asyncio.sleep(1)
    await controller.unload("a")
    write_model(away, "c")
    with pytest.raises(TritonError):
        await controller.load("c", {})
    away.rename(there)
    await asyncio.sleep(LONG_S)
    assert await ready(controller) == ["b"]


@in_virtual_time
async def test_a_config_that_is_refused_is_read_once(folder: Path) -> None:
    _, old = await with_two_models(folder)
    host = old.restarted().without_instances()
    write_model(folder, "a", group="max_batch_size: -1")
    controller = await explicit_controller_of(folder, host)
    await asyncio.sleep(3)
    assert await ready(controller) == ["b"]
    write_model(folder, "a")
    await asyncio.sleep(LONG_S)
    assert await ready(controller) == ["b"]
