# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""How ensembles come and go with the models they are made of."""

import asyncio

from backends.api.errors import (
    InternalError,
)
from cluster.models.override import Override
from deployments.contracts.routing_table import ModelReadyState
from tests.support.control_plane_fakes import (
    KILL_S,
    LOAD_S,
    World,
    ensemble,
    error_of,
    in_virtual_time,
    model,
)

READY = ModelReadyState.READY
UNAVAILABLE = ModelReadyState.UNAVAILABLE


@in_virtual_time
async def test_an_ensemble_that_loads_anew_does_not_wait_for_the_poll_that_has_it_do_so() -> None:
    world = World(ensemble("e", "a"), model("a"))
    await world.lifecycle.load_all(["e", "a"])
    world.candidates["a"] = model("a", stamp="new")
    async with asyncio.timeout(60):
        await world.lifecycle.load_all(["a"])
    assert world.endpoints("a") == ["a/1#0@2"]
    assert len(world.composed) == 2


@in_virtual_time
async def test_a_start_reads_each_model_once_though_ensembles_share_it() -> None:
    world = World(ensemble("e", "a"), ensemble("f", "a"), model("a"))
    await world.lifecycle.load_all(["e", "f", "a"])
    await asyncio.sleep(5)
    assert (len(world.overrides), len(world.composed)) == (3, 2)


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
    world.host.fail["a/1#0"] = [InternalError("broken")]
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
    world.host.fail["a/1#0"] = [InternalError("broken")]
    await world.lifecycle.load_all(["e", "a", "f"])
    assert world.host.log == ["start a/1#0@1", "end a/1#0@1"]


@in_virtual_time
async def test_an_ensemble_may_require_a_version() -> None:
    world = World(ensemble("e", "a", version=2), model("a"))
    error = await error_of(world.lifecycle.load("e"))
    assert "depends on 'a' whose required version 2 is not loaded." in error.message


@in_virtual_time
async def test_an_ensemble_whose_step_names_no_version_requires_version_0() -> None:
    world = World(ensemble("e", "a", version=0), model("a"))
    error = await error_of(world.lifecycle.load("e"))
    assert "depends on 'a' whose required version 0 is not loaded." in error.message


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
    world.host.fail["a/1#0"] = [InternalError("broken")]
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
async def test_a_poll_ends_though_a_model_is_unloaded_while_its_ensembles_are_looked_at() -> None:
    world = World(ensemble("e", "a"), model("a"), requests_s=0.0)
    loading = asyncio.create_task(error_of(world.lifecycle.load("a")))
    await asyncio.sleep(LOAD_S / 2)
    world.candidates["a"] = model("a", stamp="changed")
    polling = asyncio.create_task(world.lifecycle.load_all(("e", "a"), is_poll=True))
    # What was loading is being ended, so that the unload has its turn after the poll's load.
    await asyncio.sleep(KILL_S / 2)
    await world.lifecycle.unload("a")
    async with asyncio.timeout(10 * LOAD_S):
        await polling
    await loading


@in_virtual_time
async def test_an_ensemble_loads_once_a_model_of_it_that_waited_for_room_serves() -> None:
    world = World(model("part"), ensemble("ens", "part"))
    world.host.blocked.add("part/1#0")
    await world.lifecycle.load_all(["part", "ens"])
    assert world.record("ens").ready_versions == ()
    world.host.unblock()
    await asyncio.sleep(LOAD_S + 0.1)
    assert world.record("part").ready_versions == (1,)
    assert world.record("ens").ready_versions == (1,)


@in_virtual_time
async def test_an_ensemble_is_looked_at_again_when_a_reload_of_a_model_has_got_room() -> None:
    world = World(model("part"), ensemble("ens", "part"))
    await world.lifecycle.load("ens")
    world.candidates["part"] = model("part", stamp="new")
    world.host.blocked.add("part/1#0")
    await error_of(world.lifecycle.load("part"))
    composed = len(world.composed)
    world.host.unblock()
    await asyncio.sleep(LOAD_S + 0.1)
    assert len(world.composed) == composed + 1


@in_virtual_time
async def test_a_config_that_was_refused_is_not_tried_again_with_a_model_of_the_ensemble() -> None:
    world = World(model("part"), ensemble("ens", "part"))
    await world.lifecycle.load("ens")
    given = Override(config_json="{X}")
    world.misfits["ens"] = "X does not fit"
    await error_of(world.lifecycle.load("ens", given))
    assert world.record("ens").ready_versions == (1,)
    world.misfits.clear()
    world.candidates["part"] = model("part", stamp="new")
    await world.lifecycle.load("part")
    assert world.record("ens").ready_versions == (1,)
    assert world.overrides[-1].config_json is None
    assert world.record("ens").versions[1].digest == "ens"


@in_virtual_time
async def test_a_config_given_for_an_ensemble_waits_with_it_for_a_model() -> None:
    world = World(model("part"), ensemble("ens", "part"))
    world.host.blocked.add("part/1#0")
    given = Override(config_json="{X}")
    await world.lifecycle.load_all(["ens"], {"ens": given})
    world.host.unblock()
    await asyncio.sleep(LOAD_S + 0.1)
    assert world.record("ens").versions[1].digest == "ens {X}"
