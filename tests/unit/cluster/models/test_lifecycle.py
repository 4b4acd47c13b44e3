# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
import asyncio
import dataclasses
import itertools
import logging

from hypothesis import given, settings
from hypothesis import strategies as st

from backends.api.errors import (
    InternalError,
    InvalidArgumentError,
    TritonError,
    UnavailableError,
)
from backends.api.model_config import ModelConfig
from deployments.contracts.routing_table import ModelReadyState
from tests.support import virtual_time
from tests.support.control_plane_fakes import (
    DRAIN_S,
    KILL_S,
    LOAD_S,
    World,
    ensemble,
    error_of,
    in_virtual_time,
    model,
    now,
)
from tests.support.examples import examples
from tests.support.logged import logged_by

READY = ModelReadyState.READY
LOADING = ModelReadyState.LOADING
UNAVAILABLE = ModelReadyState.UNAVAILABLE


@in_virtual_time
async def test_a_load_ends_when_all_instances_are_ready() -> None:
    world = World(model("m", count=3))
    await world.lifecycle.load("m")
    assert now() == LOAD_S
    assert world.state("m") is READY
    assert world.endpoints("m") == ["m/1#0@1", "m/1#1@1", "m/1#2@1"]
    assert [seen["m/1"] for seen in world.states if "m/1" in seen] == ["LOADING", "READY"]
    assert world.record("m").is_explicit


@in_virtual_time
async def test_the_first_instance_completes_the_config_for_the_others() -> None:
    world = World(dataclasses.replace(model("m", count=3), auto_complete=True))
    await world.lifecycle.load("m")
    assert now() == 2 * LOAD_S
    assert world.host.log[:2] == ["start m/1#0@1", "ready m/1#0@1"]
    specs = world.pools[0].specs
    assert [spec.auto_complete for spec in specs] == [True, False, False]
    assert {spec.config.default_model_filename for spec in specs[1:]} == {"found"}
    config = world.record("m").versions[1].config
    assert config is not None
    assert config.platform == "completed"


@in_virtual_time
async def test_no_more_versions_load_at_a_time_than_threads() -> None:
    world = World(*(model(f"m{i}") for i in range(10)), thread_count=3)
    await world.lifecycle.load_all([f"m{i}" for i in range(10)])
    steps = [1 if line.startswith("start") else -1 for line in world.host.log]
    assert max(itertools.accumulate(steps)) == 3
    assert now() == 4 * LOAD_S


@in_virtual_time
async def test_loading_what_has_not_changed_does_nothing() -> None:
    world = World(model("m"))
    await world.lifecycle.load("m")
    before = list(world.host.log)
    await world.lifecycle.load("m")
    assert world.host.log == before
    assert now() == LOAD_S
    await asyncio.sleep(DRAIN_S)
    assert world.notices.count("loaded m") == 1


@in_virtual_time
async def test_a_reload_drains_the_old_instances_only_when_the_new_ones_are_ready() -> None:
    world = World(model("m"))
    await world.lifecycle.load("m")
    world.candidates["m"] = model("m", stamp="new")
    await world.lifecycle.load("m")
    assert world.endpoints("m") == ["m/1#0@2"]
    assert [seen["m/1"] for seen in world.states if "m/1" in seen] == ["LOADING", "READY"]
    await world.lifecycle.close(0)
    assert world.host.log.index("ready m/1#0@2") < world.host.log.index("drain m/1#0@1")


@in_virtual_time
async def test_instances_drain_only_when_routers_know_what_replaces_them() -> None:
    world = World(model("m"))
    world.routers_s = 0.5
    await world.lifecycle.load("m")
    world.candidates["m"] = model("m", stamp="new")
    await world.lifecycle.load("m")
    await asyncio.sleep(1)
    assert world.host.log[-2:] == ["known", "drain m/1#0@1"]
    world.candidates["m"] = model("m", count=2, stamp="new")
    await world.lifecycle.load("m")
    world.candidates["m"] = model("m", count=1, stamp="new")
    await world.lifecycle.load("m")
    await asyncio.sleep(DRAIN_S + 1)
    world.host.log.clear()
    await world.lifecycle.unload("m")
    assert world.host.log[:2] == ["known", "drain m/1#0@2"]
    await world.lifecycle.close(0)


@in_virtual_time
async def test_a_failed_reload_keeps_the_old_instances_serving() -> None:
    world = World(model("m"))
    await world.lifecycle.load("m")
    world.candidates["m"] = model("m", stamp="new")
    world.host.fail["m/1#0"] = [InternalError("no weights")]
    error = await error_of(world.lifecycle.load("m"))
    assert error.message == (
        "load failed for model 'm': version 1 is at UNAVAILABLE state: Internal: no weights;\n"
    )
    assert world.state("m") is READY
    assert world.endpoints("m") == ["m/1#0@1"]
    assert not any(line.startswith("drain m/1#0@1") for line in world.host.log)


@in_virtual_time
async def test_an_unreadable_config_keeps_the_old_instances_serving() -> None:
    world = World(model("m"))
    await world.lifecycle.load("m")
    del world.candidates["m"]
    error = await error_of(world.lifecycle.load("m"))
    assert error.message == "failed to load 'm', failed to poll from model repository"
    assert world.state("m") is READY


@in_virtual_time
async def test_a_failed_load_is_unavailable_with_its_cause() -> None:
    world = World(model("m"))
    world.host.fail["m/1#0"] = [InvalidArgumentError("bad file")]
    assert isinstance(await error_of(world.lifecycle.load("m")), InvalidArgumentError)
    assert world.state("m") is UNAVAILABLE
    assert world.reason("m") == "Invalid argument: bad file"


@in_virtual_time
async def test_a_failed_load_is_tried_again_as_often_as_told() -> None:
    world = World(model("m"), retry_count=2)
    world.host.fail["m/1#0"] = [InternalError("1"), InternalError("2")]
    await world.lifecycle.load("m")
    assert world.state("m") is READY
    assert round(now(), 1) == 3 * LOAD_S + 2 * KILL_S


@in_virtual_time
async def test_a_load_that_fails_by_a_fault_is_undone() -> None:
    world = World(dataclasses.replace(model("m", count=2), auto_complete=True))

    def torn(config: ModelConfig) -> ModelConfig:
        raise RuntimeError("torn")

    world.complete = torn  # type: ignore[method-assign]
    await error_of(world.lifecycle.load("m"))
    assert world.reason("m") == "Internal: RuntimeError: torn"
    assert "end m/1#0@1" in world.host.log


@in_virtual_time
async def test_versions_load_all_or_none() -> None:
    world = World(model("m", versions=(1, 2)))
    world.host.fail["m/2#0"] = [InternalError("broken")]
    await error_of(world.lifecycle.load("m"))
    assert world.state("m", 1) is UNAVAILABLE
    assert world.reason("m", 1) == "unloaded"
    assert world.reason("m", 2) == "Internal: broken"
    await world.lifecycle.close(0)
    assert "end m/1#0@1" in world.host.log


@in_virtual_time
async def test_only_the_version_that_changed_is_reloaded() -> None:
    world = World(model("m", versions=(1, 2)))
    await world.lifecycle.load("m")
    changed = dataclasses.replace(world.candidates["m"], digests={1: "m1", 2: "other", 3: "new"})
    world.candidates["m"] = changed
    await world.lifecycle.load("m")
    assert world.endpoints("m", 1) == ["m/1#0@1"]
    assert world.endpoints("m", 2) == ["m/2#0@3"]
    assert world.endpoints("m", 3) == ["m/3#0@4"]


@in_virtual_time
async def test_versions_no_longer_selected_are_unloaded_after_the_new_ones_serve() -> None:
    world = World(model("m", versions=(1,)))
    await world.lifecycle.load("m")
    world.candidates["m"] = model("m", versions=(2,))
    await world.lifecycle.load("m")
    assert world.state("m", 2) is READY
    await world.lifecycle.close(0)
    assert (world.state("m", 1), world.reason("m", 1)) == (UNAVAILABLE, "unloaded")
    assert world.host.log.index("ready m/2#0@2") < world.host.log.index("drain m/1#0@1")


@in_virtual_time
async def test_a_version_selected_again_while_it_drains_loads() -> None:
    world = World(model("m", versions=(1,)))
    await world.lifecycle.load("m")
    world.candidates["m"] = model("m", versions=(2,))
    await world.lifecycle.load("m")
    world.candidates["m"] = model("m", versions=(1, 2))
    await world.lifecycle.load("m")
    assert (world.state("m", 1), world.state("m", 2)) == (READY, READY)
    await world.lifecycle.close(0)
    assert world.state("m", 1) is READY


@in_virtual_time
async def test_a_model_without_a_version_cannot_be_loaded() -> None:
    world = World(model("m", versions=()))
    error = await error_of(world.lifecycle.load("m"))
    assert error.message == (
        "load failed for model 'm': at least one version must be available under the version"
        " policy of model 'm'\n"
    )
    assert world.record("m").is_known


@in_virtual_time
async def test_an_unload_tells_routers_before_it_drains() -> None:
    world = World(model("m"))
    await world.lifecycle.load("m")
    unloading = asyncio.create_task(world.lifecycle.unload("m"))
    await asyncio.sleep(DRAIN_S / 2)
    assert (world.state("m"), world.endpoints("m")) == (ModelReadyState.UNLOADING, [])
    await unloading
    assert (world.state("m"), world.reason("m")) == (UNAVAILABLE, "unloaded")
    assert not world.record("m").is_explicit


@in_virtual_time
async def test_unloading_an_unknown_model_is_no_error() -> None:
    await World().lifecycle.unload("nothing")


@in_virtual_time
async def test_an_unload_overtakes_a_load() -> None:
    world = World(model("m"))
    loading = asyncio.create_task(world.lifecycle.load("m"))
    await asyncio.sleep(LOAD_S / 2)
    await world.lifecycle.unload("m")
    error = await error_of(loading)  # type: ignore[arg-type]
    assert isinstance(error, UnavailableError)
    assert error.message.startswith("Newer operation has been applied to the model lifecycle")
    assert (world.state("m"), world.reason("m")) == (UNAVAILABLE, "unloaded")
    await world.lifecycle.load("m")
    assert world.state("m") is READY


@in_virtual_time
async def test_loads_of_one_model_happen_one_after_the_other() -> None:
    world = World(model("m"))
    await asyncio.gather(*(world.lifecycle.load("m") for _ in range(5)))
    assert world.host.log == ["start m/1#0@1", "ready m/1#0@1"]


@in_virtual_time
async def test_a_version_that_loses_its_instances_is_unavailable_until_they_are_back() -> None:
    world = World(model("m"))
    await world.lifecycle.load("m")
    await world.lose("m")
    assert (world.state("m"), world.endpoints("m")) == (UNAVAILABLE, [])
    assert world.reason("m") == "instance m/1#0@1 died: a signal; restarting"
    await asyncio.sleep(LOAD_S)
    assert (world.state("m"), world.reason("m")) == (READY, "")
    assert world.endpoints("m") == ["m/1#0@1"]


@in_virtual_time
async def test_loading_a_version_without_instances_starts_new_ones() -> None:
    world = World(model("m"))
    await world.lifecycle.load("m")
    await world.lose("m")
    await world.lifecycle.load("m")
    assert (world.state("m"), world.endpoints("m")) == (READY, ["m/1#0@2"])


@in_virtual_time
async def test_a_poll_leaves_instances_that_are_lost_to_come_back_by_themselves() -> None:
    """Else the pauses of an instance that keeps crashing would be as short as the poll's."""
    world = World(model("m"))
    await world.lifecycle.load("m")
    await world.lose("m")
    await world.lifecycle.load_all(["m"], is_poll=True)
    assert world.endpoints("m") == []
    world.candidates["m"] = model("m", stamp="changed")
    await world.lifecycle.load_all(["m"], is_poll=True)
    assert (world.state("m"), world.endpoints("m")) == (READY, ["m/1#0@2"])


@in_virtual_time
async def test_a_failed_model_is_left_alone_by_polls_until_it_changes() -> None:
    world = World(model("m"))
    world.host.fail["m/1#0"] = [InternalError("broken")]
    await world.lifecycle.load_all(["m"])
    await world.lifecycle.load_all(["m"], is_poll=True)
    assert world.host.log == ["start m/1#0@1", "end m/1#0@1"]
    world.candidates["m"] = model("m", stamp="fixed")
    await world.lifecycle.load_all(["m"], is_poll=True)
    assert world.state("m") is READY


@in_virtual_time
async def test_closing_ends_what_serves_and_what_loads() -> None:
    world = World(model("serves"), model("loads"))
    await world.lifecycle.load("serves")
    loading = asyncio.create_task(world.lifecycle.load("loads"))
    await asyncio.sleep(LOAD_S / 2)
    await world.lifecycle.close(DRAIN_S)
    await error_of(loading)  # type: ignore[arg-type]
    assert "end serves/1#0@1" in world.host.log
    assert not world.alive


@in_virtual_time
async def test_versions_unloaded_before_a_restart_are_still_listed() -> None:
    world = World()
    world.lifecycle.restore_unloaded("m", [1, 2])
    assert (world.state("m", 2), world.reason("m", 1)) == (UNAVAILABLE, "unloaded")


STEPS = st.lists(
    st.tuples(
        st.sampled_from(["load", "unload", "change", "regroup", "fail", "lose", "wait"]),
        st.sampled_from(["a", "b", "e"]),
    ),
    max_size=25,
)


@given(STEPS)
@settings(max_examples=examples(60), deadline=None)
def test_whatever_is_asked_at_once_models_end_in_a_settled_state(
    steps: list[tuple[str, str]],
) -> None:
    async def main() -> None:
        world = World(model("a"), model("b", count=2), ensemble("e", "a", "b"))
        tasks = []
        for number, (what, name) in enumerate(steps):
            if what == "load":
                tasks.append(asyncio.create_task(world.lifecycle.load(name)))
            elif what == "unload":
                tasks.append(asyncio.create_task(world.lifecycle.unload(name)))
            elif what == "change" and name != "e":
                world.candidates[name] = model(name, stamp=str(number))
            elif what == "regroup" and name != "e":
                world.candidates[name] = model(name, count=1 + number % 3)
            elif what == "fail":
                world.host.fail.setdefault(f"{name}/1#0", []).append(InternalError("broken"))
            elif what == "lose":
                for actor in world.host.alive[number % 3 :][:1]:
                    world.host.crash(actor)
            await asyncio.sleep(LOAD_S * (0.3 if what == "wait" else 0))
        outcomes = await asyncio.gather(*tasks, return_exceptions=True)
        answers = (type(None), frozenset, TritonError)
        assert all(isinstance(outcome, answers) for outcome in outcomes), outcomes
        await asyncio.sleep(10)
        for record in world.lifecycle.records.values():
            for at in record.versions.values():
                assert at.state in {READY, UNAVAILABLE}
                assert bool(at.instances) == (at.is_ready and record.name != "e")
        await world.lifecycle.close(0)
        assert not world.alive

    virtual_time.run(main())


@in_virtual_time
async def test_a_failed_load_is_one_line_of_the_log() -> None:
    world = World(model("m"), ensemble("e", "none"))
    world.host.fail["m/1#0"] = [InternalError("no weights")]
    with logged_by("cluster.models", logging.ERROR) as logged:
        await error_of(world.lifecycle.load("m"))
        await error_of(world.lifecycle.load("e"))
    assert [text.partition(":")[0] for text in logged] == [
        "failed to load 'm' version 1",
        "failed to load 'e'",
    ]


@in_virtual_time
async def test_a_load_says_how_long_it_took() -> None:
    world = World(model("m"))
    with logged_by("cluster.models", logging.INFO) as logged:
        await world.lifecycle.load("m")
    assert logged == [f"successfully loaded 'm' in {LOAD_S:.1f} s"]
