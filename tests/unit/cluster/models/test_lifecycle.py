# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
import asyncio
import dataclasses

from hypothesis import given, settings
from hypothesis import strategies as st

from backends.api.errors import (
    InternalError,
    InvalidArgumentError,
    TritonError,
    UnavailableError,
)
from backends.api.model_config import ModelConfig
from cluster.models.override import Override
from deployments.contracts.routing_table import ModelReadyState
from tests.support import virtual_time
from tests.support.control_plane_fakes import (
    DRAIN_S,
    LOAD_S,
    World,
    ensemble,
    error_of,
    in_virtual_time,
    model,
    now,
)

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
    assert world.log[:2] == ["start m/1#0@1", "ready m/1#0@1"]
    specs = list(world.pools[0].live.values())
    assert [spec.auto_complete for spec in specs] == [True, False, False]
    assert {spec.config.default_model_filename for spec in specs[1:]} == {"found"}
    config = world.record("m").versions[1].config
    assert config is not None
    assert config.platform == "completed"


@in_virtual_time
async def test_no_more_versions_load_at_a_time_than_threads() -> None:
    world = World(*(model(f"m{i}") for i in range(10)), thread_count=3)
    await world.lifecycle.load_all([f"m{i}" for i in range(10)])
    assert world.most_loading == 3
    assert now() == 4 * LOAD_S


@in_virtual_time
async def test_loading_what_has_not_changed_does_nothing() -> None:
    world = World(model("m"))
    await world.lifecycle.load("m")
    before = list(world.log)
    await world.lifecycle.load("m")
    assert world.log == before
    assert now() == LOAD_S


@in_virtual_time
async def test_a_reload_drains_the_old_instances_only_when_the_new_ones_are_ready() -> None:
    world = World(model("m"))
    await world.lifecycle.load("m")
    world.candidates["m"] = model("m", stamp="new")
    await world.lifecycle.load("m")
    assert world.endpoints("m") == ["m/1#0@2"]
    assert [seen["m/1"] for seen in world.states if "m/1" in seen] == ["LOADING", "READY"]
    await world.lifecycle.close(0)
    assert world.log.index("ready m/1#0@2") < world.log.index("drain m/1#0@1")


@in_virtual_time
async def test_instances_drain_only_when_routers_know_what_replaces_them() -> None:
    world = World(model("m"))
    world.routers_s = 0.5
    await world.lifecycle.load("m")
    world.candidates["m"] = model("m", stamp="new")
    await world.lifecycle.load("m")
    await asyncio.sleep(1)
    assert world.log[-2:] == ["known", "drain m/1#0@1"]
    world.candidates["m"] = model("m", count=2, stamp="new")
    await world.lifecycle.load("m")
    world.candidates["m"] = model("m", count=1, stamp="new")
    await world.lifecycle.load("m")
    await asyncio.sleep(DRAIN_S + 1)
    world.log.clear()
    await world.lifecycle.unload("m")
    assert world.log[:2] == ["known", "drain m/1#0@2"]
    await world.lifecycle.close(0)


@in_virtual_time
async def test_a_failed_reload_keeps_the_old_instances_serving() -> None:
    world = World(model("m"))
    await world.lifecycle.load("m")
    world.candidates["m"] = model("m", stamp="new")
    world.fail["m/1#0"] = [InternalError("no weights")]
    error = await error_of(world.lifecycle.load("m"))
    assert error.message == (
        "load failed for model 'm': version 1 is at UNAVAILABLE state: Internal: no weights;\n"
    )
    assert world.state("m") is READY
    assert world.endpoints("m") == ["m/1#0@1"]
    assert not any(line.startswith("drain m/1#0@1") for line in world.log)


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
    world.fail["m/1#0"] = [InvalidArgumentError("bad file")]
    assert isinstance(await error_of(world.lifecycle.load("m")), InvalidArgumentError)
    assert world.state("m") is UNAVAILABLE
    assert world.reason("m") == "Invalid argument: bad file"


@in_virtual_time
async def test_a_failed_load_is_tried_again_as_often_as_told() -> None:
    world = World(model("m"), retry_count=2)
    world.fail["m/1#0"] = [InternalError("1"), InternalError("2")]
    await world.lifecycle.load("m")
    assert world.state("m") is READY
    assert now() == 3 * LOAD_S


@in_virtual_time
async def test_versions_load_all_or_none() -> None:
    world = World(model("m", versions=(1, 2)))
    world.fail["m/2#0"] = [InternalError("broken")]
    await error_of(world.lifecycle.load("m"))
    assert world.state("m", 1) is UNAVAILABLE
    assert world.reason("m", 1) == "unloaded"
    assert world.reason("m", 2) == "Internal: broken"
    await world.lifecycle.close(0)
    assert "end m/1#0@1" in world.log


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
    assert world.log.index("ready m/2#0@2") < world.log.index("drain m/1#0@1")


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
    assert world.log == ["start m/1#0@1", "ready m/1#0@1"]


@in_virtual_time
async def test_a_version_that_loses_its_instances_is_unavailable_until_they_are_back() -> None:
    world = World(model("m"))
    await world.lifecycle.load("m")
    world.pools[0].lose()
    assert (world.state("m"), world.endpoints("m")) == (UNAVAILABLE, [])
    assert world.reason("m") == "instance died; restarting"
    world.pools[0].recover("back")
    assert (world.state("m"), world.reason("m")) == (READY, "")
    assert world.endpoints("m") == ["back"]


@in_virtual_time
async def test_loading_a_version_without_instances_starts_new_ones() -> None:
    world = World(model("m"))
    await world.lifecycle.load("m")
    world.pools[0].lose()
    await world.lifecycle.load("m")
    assert (world.state("m"), world.endpoints("m")) == (READY, ["m/1#0@2"])


@in_virtual_time
async def test_a_load_without_room_is_reported_as_pending_and_goes_on() -> None:
    world = World(model("m"), model("other"), thread_count=1)
    world.blocked = {"m/1#0"}
    error = await error_of(world.lifecycle.load("m"))
    assert isinstance(error, UnavailableError)
    assert "pending" in error.message
    assert "instance m/1#0@1 is waiting" in error.message
    assert (world.state("m"), world.reason("m")) == (LOADING, "instance m/1#0@1 is waiting")
    assert world.lifecycle.is_pending("m")
    await world.lifecycle.load("other")
    world.unblocked.set()
    await asyncio.sleep(0.1)
    assert world.state("m") is READY
    assert not world.lifecycle.is_pending("m")


@in_virtual_time
async def test_a_pending_load_can_be_unloaded_and_loaded_again() -> None:
    world = World(model("m"))
    world.blocked = {"m/1#0"}
    await error_of(world.lifecycle.load("m"))
    await world.lifecycle.unload("m")
    assert world.state("m") is UNAVAILABLE
    await error_of(world.lifecycle.load("m"))
    world.blocked = set()
    await world.lifecycle.load("m")
    assert world.state("m") is READY


@in_virtual_time
async def test_a_poll_leaves_a_pending_load_alone_that_would_be_the_same() -> None:
    world = World(model("m"))
    world.blocked.add("m/1#0")
    await world.lifecycle.load_all(["m"], is_poll=True)
    assert world.lifecycle.is_pending("m")
    await world.lifecycle.load_all(["m"], is_poll=True)
    await asyncio.sleep(LOAD_S)
    assert world.lifecycle.is_pending("m")
    assert len(world.pools) == 1
    # The one that was read only to be compared.
    assert world.released == ["/r/m"]
    world.unblocked.set()
    await asyncio.sleep(LOAD_S)
    assert world.state("m") is READY


@in_virtual_time
async def test_a_poll_leaves_alone_a_load_that_has_just_got_room() -> None:
    world = World(dataclasses.replace(model("m", count=2), auto_complete=True))
    world.blocked.add("m/1#0")
    await world.lifecycle.load_all(["m"], is_poll=True)
    world.unblocked.set()
    await asyncio.sleep(LOAD_S / 2)
    await world.lifecycle.load_all(["m"], is_poll=True)
    await asyncio.sleep(LOAD_S)
    assert world.state("m") is READY
    assert len(world.pools) == 1


@in_virtual_time
async def test_a_poll_starts_a_pending_load_over_when_the_model_has_changed() -> None:
    world = World(model("m"))
    world.blocked.add("m/1#0")
    await world.lifecycle.load_all(["m"], is_poll=True)
    world.blocked.clear()
    world.candidates["m"] = model("m", stamp="changed")
    await world.lifecycle.load_all(["m"], is_poll=True)
    assert world.state("m") is READY
    assert world.record("m").versions[1].digest == "m1changed"


@in_virtual_time
async def test_an_ensemble_loads_what_it_is_made_of_first() -> None:
    world = World(ensemble("e", "a", "b"), model("a"), model("b"))
    await world.lifecycle.load("e")
    assert (world.state("e"), world.state("a"), world.state("b")) == (READY, READY, READY)
    assert not world.record("a").is_explicit
    ready = [seen for seen in world.states if seen.get("e/1") == "READY"]
    assert all(seen["a/1"] == seen["b/1"] == "READY" for seen in ready)


@in_virtual_time
async def test_an_ensemble_names_the_model_that_failed_and_why() -> None:
    world = World(ensemble("e", "a"), model("a"))
    world.fail["a/1#0"] = [InternalError("broken")]
    error = await error_of(world.lifecycle.load("e"))
    assert error.message == (
        "load failed for model 'e': ensemble 'e' depends on 'a' which has no loaded version. Model"
        " 'a' loading failed with error: load failed for model 'a': version 1 is at UNAVAILABLE"
        " state: Internal: broken;\n"
    )
    assert not world.record("e").is_known


@in_virtual_time
async def test_a_model_that_fails_at_start_is_tried_once_however_many_ensembles_need_it() -> None:
    world = World(ensemble("e", "a"), ensemble("f", "a"), model("a"))
    world.fail["a/1#0"] = [InternalError("broken")]
    await world.lifecycle.load_all(["e", "a", "f"])
    assert world.log == ["start a/1#0@1"]


@in_virtual_time
async def test_an_ensemble_may_require_a_version() -> None:
    world = World(ensemble("e", "a", version=2), model("a"))
    error = await error_of(world.lifecycle.load("e"))
    assert "depends on 'a' whose required version 2 is not loaded." in error.message


@in_virtual_time
async def test_ensembles_of_each_other_are_refused_also_at_start() -> None:
    world = World(ensemble("e", "f"), ensemble("f", "e"), ensemble("g", "g"))
    await world.lifecycle.load_all(["e", "f", "g"])
    assert not any(world.record(name).ready_versions for name in "efg")
    failures = " ".join(world.record(name).failure for name in "efg")
    assert "circular dependency between ensembles: g -> g" in failures
    assert failures.count("circular") >= 2


@in_virtual_time
async def test_unloading_a_model_unloads_the_ensembles_made_of_it() -> None:
    world = World(ensemble("outer", "inner"), ensemble("inner", "a"), model("a"))
    await world.lifecycle.load("outer")
    await world.lifecycle.unload("a")
    assert [world.reason(name) for name in ("a", "inner", "outer")] == ["unloaded"] * 3


@in_virtual_time
async def test_an_ensemble_is_gone_before_the_model_it_needs() -> None:
    world = World(ensemble("e", "a"), model("a"))
    await world.lifecycle.load("e")
    world.states.clear()
    await world.lifecycle.unload("a")
    seen = [states["e/1"] for states in world.states if states["a/1"] != "READY"]
    assert set(seen) == {"UNAVAILABLE"}


@in_virtual_time
async def test_an_ensemble_comes_back_with_its_model_unless_it_was_unloaded_itself() -> None:
    world = World(ensemble("outer", "e"), ensemble("e", "a"), ensemble("f", "a"), model("a"))
    await world.lifecycle.load_all(["outer", "e", "f", "a"])
    await world.lifecycle.unload("f")
    await world.lifecycle.unload("a")
    await world.lifecycle.load("a")
    assert [world.state(name) for name in ("outer", "e", "f")] == [READY, READY, UNAVAILABLE]


@in_virtual_time
async def test_an_ensemble_that_failed_for_want_of_a_model_loads_with_it() -> None:
    world = World(ensemble("e", "a"), model("a"))
    world.fail["a/1#0"] = [InternalError("broken")]
    await error_of(world.lifecycle.load("e"))
    await world.lifecycle.load("a")
    assert world.state("e") is READY
    assert not world.record("e").failure


@in_virtual_time
async def test_a_changed_model_is_checked_against_its_ensembles() -> None:
    world = World(ensemble("e", "a"), model("a"))
    await world.lifecycle.load("e")
    world.candidates["a"] = model("a", count=2, stamp="changed")
    await world.lifecycle.load("a")
    assert [name for name, _ in world.composed] == ["e", "e"]
    assert world.composed[-1][1]["a"] is world.record("a").versions[1].config
    assert world.state("e") is READY


@in_virtual_time
async def test_an_ensemble_whose_model_no_longer_fits_is_unloaded() -> None:
    world = World(ensemble("e", "a"), model("a"))
    await world.lifecycle.load("e")
    world.misfits["e"] = "in ensemble e, input X in model a is not mapped to any ensemble tensors"
    world.candidates["a"] = model("a", stamp="changed")
    await world.lifecycle.load("a")
    assert world.state("a") is READY
    assert (world.state("e"), world.reason("e")) == (UNAVAILABLE, "unloaded")
    assert world.record("e").failure == world.misfits["e"]


@in_virtual_time
async def test_an_ensemble_that_does_not_fit_its_models_says_why() -> None:
    world = World(ensemble("e", "a"), model("a"))
    world.misfits["e"] = "in ensemble e, ..."
    error = await error_of(world.lifecycle.load("e"))
    assert error.message == "load failed for model 'e': in ensemble e, ...\n"


@in_virtual_time
async def test_dependents_go_with_an_ensemble_unless_asked_for_or_needed() -> None:
    world = World(
        ensemble("e", "own", "asked", "shared"),
        ensemble("f", "shared"),
        *map(model, ("own", "asked", "shared")),
    )
    await world.lifecycle.load("asked")
    await world.lifecycle.load("e")
    await world.lifecycle.load("f")
    await world.lifecycle.unload("e", unload_dependents=True)
    states = {name: world.state(name) for name in ("e", "own", "asked", "shared", "f")}
    assert [name for name, state in states.items() if state is READY] == ["asked", "shared", "f"]


@in_virtual_time
async def test_a_failed_model_is_left_alone_by_polls_until_it_changes() -> None:
    world = World(model("m"))
    world.fail["m/1#0"] = [InternalError("broken")]
    await world.lifecycle.load_all(["m"])
    await world.lifecycle.load_all(["m"], is_poll=True)
    assert world.log == ["start m/1#0@1"]
    world.candidates["m"] = model("m", stamp="fixed")
    await world.lifecycle.load_all(["m"], is_poll=True)
    assert world.state("m") is READY


@in_virtual_time
async def test_files_made_for_a_load_are_removed_when_nothing_runs_from_them() -> None:
    temporary = dataclasses.replace(model("m", stamp="given"), model_dir="/tmp/given")
    world = World(temporary)
    await world.lifecycle.load("m", Override("{}", {"file:1/model": b""}))
    await asyncio.sleep(10)
    assert world.released == []
    world.candidates["m"] = model("m")
    await world.lifecycle.load("m")
    await world.lifecycle.close(0)
    assert world.released == ["/tmp/given"]
    assert "end m/1#0@1" in world.log


@in_virtual_time
async def test_files_of_a_failed_load_are_removed() -> None:
    world = World(model("m"))
    world.fail["m/1#0"] = [InternalError("broken")]
    await error_of(world.lifecycle.load("m"))
    await world.lifecycle.close(0)
    assert world.released == ["/r/m"]


@in_virtual_time
async def test_a_load_without_a_config_keeps_the_last_one_given() -> None:
    world = World(model("m"))
    await world.lifecycle.load("m", Override("{}"))
    before = list(world.log)
    await world.lifecycle.load("m")
    await world.lifecycle.load("m")
    assert world.log == before
    assert {override.config_json for override in world.overrides} == {"{}"}
    assert world.lifecycle.override_of("m").config_json == "{}"


@in_virtual_time
async def test_once_files_change_a_load_without_a_config_takes_the_repositorys() -> None:
    world = World(model("m"))
    await world.lifecycle.load("m", Override("{}"))
    world.directory_digest = "changed"
    await world.lifecycle.load("m")
    assert world.overrides[-1] == Override()
    assert world.endpoints("m") == ["m/1#0@2"]
    world.directory_digest = "as it was"
    await world.lifecycle.load("m")
    assert world.overrides[-1] == Override()


@in_virtual_time
async def test_an_unload_ends_a_given_config() -> None:
    world = World(model("m"))
    await world.lifecycle.load("m", Override("{}"))
    await world.lifecycle.unload("m")
    await world.lifecycle.load("m")
    assert world.overrides[-1] == Override()


@in_virtual_time
async def test_a_given_config_that_failed_to_load_is_not_kept() -> None:
    world = World(model("m"))
    await world.lifecycle.load("m", Override("{}"))
    world.fail["m/1#0"] = [InternalError("broken")]
    await error_of(world.lifecycle.load("m", Override('{"max_batch_size": 2}')))
    await world.lifecycle.load("m")
    assert world.overrides[-1].config_json == "{}"
    assert world.endpoints("m") == ["m/1#0@1"]


@in_virtual_time
async def test_files_given_hold_for_one_load() -> None:
    world = World(model("m"))
    await world.lifecycle.load("m", Override("{}", {"file:1/model": b""}))
    await world.lifecycle.load("m")
    assert world.overrides[-1] == Override()


@in_virtual_time
async def test_a_config_restored_after_a_restart_is_kept_until_files_change() -> None:
    world = World(model("m"))
    await world.lifecycle.load_all(["m"], {"m": Override("{}", directory_digest="as it was")})
    await world.lifecycle.load("m")
    assert world.overrides[-1].config_json == "{}"
    world.directory_digest = "changed"
    await world.lifecycle.load("m")
    assert world.overrides[-1] == Override()


@in_virtual_time
async def test_closing_ends_what_serves_and_what_loads() -> None:
    world = World(model("serves"), model("loads"))
    await world.lifecycle.load("serves")
    loading = asyncio.create_task(world.lifecycle.load("loads"))
    await asyncio.sleep(LOAD_S / 2)
    await world.lifecycle.close(DRAIN_S)
    await error_of(loading)  # type: ignore[arg-type]
    assert "end serves/1#0@1" in world.log
    assert not any(pool.live for pool in world.pools)


@in_virtual_time
async def test_an_adopted_version_serves_at_once_and_is_not_loaded_again() -> None:
    world = World(model("m"))
    pool = world._make_pool(lambda: None)
    pool.recover("m/1#0@9")
    world.lifecycle.adopt(1, "m1", ModelConfig("m"), lambda on_change: pool)
    assert (world.state("m"), world.endpoints("m")) == (READY, ["m/1#0@9"])
    await world.lifecycle.load("m")
    assert world.log == []


@in_virtual_time
async def test_an_adopted_version_with_other_files_is_reloaded_without_a_gap() -> None:
    world = World(model("m", stamp="new"))
    pool = world._make_pool(lambda: None)
    pool.recover("m/1#0@9")
    world.lifecycle.adopt(1, "m1", ModelConfig("m"), lambda on_change: pool)
    await world.lifecycle.load("m")
    assert {seen["m/1"] for seen in world.states} == {"READY"}
    assert world.endpoints("m") == ["m/1#0@1"]


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
@settings(max_examples=60, deadline=None)
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
                world.fail.setdefault(f"{name}/1#0", []).append(InternalError("broken"))
            elif what == "lose" and world.pools:
                pool = world.pools[number % len(world.pools)]
                if not pool.is_starting:
                    pool.lose()
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
        assert not any(pool.live or pool.staged or pool.going for pool in world.pools)

    virtual_time.run(main())
