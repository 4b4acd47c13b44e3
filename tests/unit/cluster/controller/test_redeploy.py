# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""A controller that goes on where another has ended, with other options."""

import asyncio
import json
from pathlib import Path
from typing import Any

from cluster.controller.controller import ModelController
from cluster.controller.started_with import wanted_now
from deployments.settings.server_settings import LogChange, TraceChange
from tests.support.control_plane_fakes import in_virtual_time
from tests.support.controller_fakes import (
    FakeHost,
    explicit_controller_of,
    ready,
    with_two_models,
    write_model,
)

TENSOR = {"name": "X", "data_type": "TYPE_FP32", "dims": [1]}
CONFIG: dict[str, Any] = {
    "name": "given",
    "backend": "identity",
    "input": [TENSOR],
    "output": [{**TENSOR, "name": "Y"}],
    "instance_group": [{"kind": "KIND_CPU", "count": 1}],
}
FILES = {"config": json.dumps(CONFIG), "file:1/data": b"content"}


async def redeployed(
    folder: Path, controller: ModelController, host: FakeHost, **options: Any
) -> tuple[ModelController, FakeHost]:
    """Return the controller that a driver puts in another's place, once it has started."""
    again = host.restarted(was_restarted=False)
    successor = await explicit_controller_of(folder, again, resumes=True, **options)
    await successor.start()
    return successor, again


@in_virtual_time
async def test_other_options_forget_nothing_that_clients_have_loaded_and_set(folder: Path) -> None:
    before, host = await with_two_models(folder)
    await before.load("given", FILES)
    await before.load("a", {"config": json.dumps({**CONFIG, "name": "a"})})
    await before.change_settings(LogChange({"format": "ISO8601"}))
    successor, again = await redeployed(folder, before, host, log_verbose=1)
    assert await ready(successor) == ["a", "b", "given"]
    assert (again.instances.log, again.killed, again.retired) == ([], [], [])
    saved = successor._state.saved
    assert saved.wanted == ["a", "b", "given"]
    assert successor._state.overrides.keys() == {"a", "given"}
    log = successor._publisher.settings.log
    assert (log.format, log.verbose_level) == ("ISO8601", 1)


@in_virtual_time
async def test_options_that_have_changed_win_over_what_clients_have_set_and_others_do_not(
    folder: Path,
) -> None:
    before, host = await with_two_models(folder)
    await before.change_settings(LogChange({"verbose_level": 3, "info": False}))
    await before.change_settings(TraceChange("", {"rate": 7}))
    successor, again = await redeployed(folder, before, host, log_verbose=1)
    settings = successor._publisher.settings
    assert (settings.log.verbose_level, settings.log.info) == (1, False)
    assert settings.trace.rate == 7
    # The next one finds that nothing has changed any more.
    await successor.change_settings(LogChange({"verbose_level": 5}))
    third, _ = await redeployed(folder, successor, again, log_verbose=1)
    assert third._publisher.settings.log.verbose_level == 5
    traced, _ = await redeployed(folder, successor, again, log_verbose=1, trace_config=["rate=9"])
    assert traced._publisher.settings.trace.rate == 9
    assert traced._publisher.settings.trace_at_start.rate == 9


@in_virtual_time
async def test_a_model_that_the_options_name_anew_is_loaded_beside_those_of_clients(
    folder: Path,
) -> None:
    before, host = await with_two_models(folder)
    write_model(folder, "c")
    successor, again = await redeployed(folder, before, host, load_model=["c"])
    assert await ready(successor) == ["a", "b", "c"]
    # What a client has unloaded does not come back because another option has changed.
    await successor.unload("c")
    third, again = await redeployed(folder, successor, again, load_model=["c"], log_verbose=1)
    assert await ready(third) == ["a", "b"]


@in_virtual_time
async def test_a_model_that_the_options_name_no_more_goes_unless_a_client_has_asked_for_it(
    folder: Path,
) -> None:
    for name in ("c", "d"):
        write_model(folder, name)
    before, host = await with_two_models(folder, load_model=["c", "d"])
    await before.load("d", {})
    successor, _ = await redeployed(folder, before, host)
    assert await ready(successor) == ["a", "b", "d"]


def test_models_named_by_both_options_stay_as_a_client_has_left_them() -> None:
    assert wanted_now(["a"], [], ["a", "b"], ["a", "b", "c"]) == ["a", "c"]
    assert wanted_now(["a", "x"], ["x"], ["a", "x"], []) == ["x"]


@in_virtual_time
async def test_in_a_mode_without_loads_the_repository_alone_says_what_models_are(
    folder: Path,
) -> None:
    before, host = await with_two_models(folder)
    await before.load("given", FILES)
    await before.load("a", {"config": json.dumps({**CONFIG, "name": "a"})})
    successor, again = await redeployed(folder, before, host, model_control_mode="poll")
    await asyncio.sleep(20)
    assert await ready(successor) == ["a", "b"]
    assert successor._state.overrides == {}
    assert not any(b"override" in key for key in again.store.values)
    explicit, _ = await redeployed(folder, successor, again, load_model=["b"])
    assert await ready(explicit) == ["b"]


@in_virtual_time
async def test_other_options_make_instances_anew_also_where_files_came_with_the_load(
    folder: Path,
) -> None:
    before, host = await with_two_models(folder)
    await before.load("given", FILES)
    successor, again = await redeployed(folder, before, host, cpus_per_instance=0.5)
    assert await ready(successor) == ["a", "b", "given"]
    started = [line for line in again.instances.log if line.startswith("start")]
    assert sorted(line.split("/")[0] for line in started) == ["start a", "start b", "start given"]
