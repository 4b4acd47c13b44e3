# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Models of one name in several repositories, and the ensembles made of them."""

from collections.abc import Collection

from backends.api.errors import InternalError
from cluster.controller.poll import poll_once
from cluster.controller.repository_watch import RepositoryWatch
from cluster.models.dependencies import affected_by
from deployments.contracts.routing_table import ModelReadyState
from tests.support.control_plane_fakes import World, ensemble, error_of, in_virtual_time, model

READY = ModelReadyState.READY


class Names:
    """Lists a world's repositories."""

    def __init__(self, world: World) -> None:
        self._world = world
        self.watch = RepositoryWatch()

    def unchanged(self, names: Collection[str]) -> frozenset[str]:
        return frozenset()

    async def list_names(self) -> tuple[Collection[str], Collection[str]]:
        return self._world.candidates.keys(), ()


async def poll(world: World) -> None:
    await poll_once(Names(world), world.lifecycle)


def parts(world: World, key: str) -> set[str]:
    """Return what the ensemble that serves is made of, by the record and by its config."""
    record = world.record(key)
    config = record.versions[1].config
    assert record.versions[1].state is READY
    assert config is not None
    assert {step.model_key for step in config.ensemble_steps} == record.composing
    return set(record.composing)


@in_virtual_time
async def test_an_ensemble_is_made_of_the_model_of_its_own_repository() -> None:
    world = World(ensemble("A/e", "m"), model("A/m"), ensemble("B/f", "m"), model("B/m"))
    await world.lifecycle.load_all(["A/e", "B/f"])
    assert parts(world, "A/e") == {"A/m"}
    assert parts(world, "B/f") == {"B/m"}


@in_virtual_time
async def test_an_ensemble_is_made_of_the_only_model_of_a_name_elsewhere() -> None:
    world = World(ensemble("A/e", "m"), model("B/m"))
    await world.lifecycle.load("A/e")
    assert parts(world, "A/e") == {"B/m"}
    assert not world.record("B/m").is_explicit


@in_virtual_time
async def test_an_ensemble_whose_steps_mean_no_model_or_several_names_them() -> None:
    world = World(ensemble("A/e", "m", "n", "o"), model("A/o"), model("B/m"), model("C/m"))
    error = await error_of(world.lifecycle.load("A/e"))
    assert error.message == (
        "load failed for model 'A::e': ensemble A::e contains models that are not available or"
        " ambiguous: m, n\n"
    )
    assert "A/o" not in world.lifecycle.records


@in_virtual_time
async def test_ensembles_of_one_name_are_each_made_of_their_own_repository() -> None:
    world = World(ensemble("A/e", "a"), model("A/a"), ensemble("B/e", "b"), model("B/b"))
    await world.lifecycle.load_all(["A/e", "B/e"])
    assert (parts(world, "A/e"), parts(world, "B/e")) == ({"A/a"}, {"B/b"})


@in_virtual_time
async def test_instances_of_models_of_one_name_have_names_of_their_own() -> None:
    world = World(model("A/m"), model("B/m"))
    await world.lifecycle.load_all(["A/m", "B/m"])
    assert world.endpoints("A/m") == ["A/m/1#0@1"]
    assert world.endpoints("B/m") == ["B/m/1#0@2"]


@in_virtual_time
async def test_a_poll_has_an_ensemble_use_the_other_model_without_a_gap_and_go_back() -> None:
    world = World(ensemble("A/e", "m"), model("A/m"), ensemble("B/f", "m"), model("B/m"))
    await poll(world)
    own = world.candidates.pop("A/m")
    world.states.clear()
    await poll(world)
    assert parts(world, "A/e") == parts(world, "B/f") == {"B/m"}
    assert world.reason("A/m") == "unloaded"
    world.candidates["A/m"] = own
    await poll(world)
    assert (parts(world, "A/e"), parts(world, "B/f")) == ({"A/m"}, {"B/m"})
    assert {seen["A/e/1"] for seen in world.states} == {"READY"}


@in_virtual_time
async def test_an_ensemble_that_becomes_ambiguous_goes_with_what_it_was_made_of() -> None:
    world = World(ensemble("A/e", "m"), model("A/m"), model("B/m"), model("C/m"))
    await poll(world)
    own = world.candidates.pop("A/m")
    await poll(world)
    assert world.reason("A/e") == "unloaded"
    assert "ambiguous: m" in world.record("A/e").failure
    world.candidates["A/m"] = own
    await poll(world)
    assert parts(world, "A/e") == {"A/m"}


@in_virtual_time
async def test_an_ensemble_that_cannot_use_the_other_model_goes_with_its_own() -> None:
    world = World(ensemble("A/e", "m"), model("A/m"), model("B/m"))
    await world.lifecycle.load("A/e")
    world.host.fail["B/m/1#0"] = [InternalError("broken")]
    del world.candidates["A/m"]
    await poll(world)
    assert (world.reason("A/m"), world.reason("A/e")) == ("unloaded", "unloaded")
    await poll(world)
    assert not world.record("A/e").ready_versions


@in_virtual_time
async def test_a_model_that_comes_to_its_repository_takes_the_place_of_the_other() -> None:
    world = World(ensemble("A/e", "m"), model("B/m"))
    await world.lifecycle.load("A/e")
    world.candidates["A/m"] = model("A/m")
    await world.lifecycle.load("A/m")
    assert parts(world, "A/e") == {"A/m"}


@in_virtual_time
async def test_an_ensemble_that_failed_for_want_of_a_model_loads_when_any_repository_has_it() -> (
    None
):
    world = World(ensemble("A/e", "m"))
    await error_of(world.lifecycle.load("A/e"))
    world.candidates["B/m"] = model("B/m")
    await world.lifecycle.load("B/m")
    assert parts(world, "A/e") == {"B/m"}


@in_virtual_time
async def test_a_loaded_model_that_no_repository_has_any_more_is_still_meant() -> None:
    world = World(ensemble("A/e", "m"), model("A/m"))
    await world.lifecycle.load("A/m")
    del world.candidates["A/m"]
    await world.lifecycle.load("A/e")
    assert parts(world, "A/e") == {"A/m"}


@in_virtual_time
async def test_a_namespace_that_a_config_names_is_ignored_without_namespacing() -> None:
    world = World(ensemble("e", "m"), model("m"))
    given = world.candidates["e"]
    spaced = world.with_namespaces(given.config, ["A"])
    world.candidates["e"] = type(given)(spaced, given.model_dir, given.digests)
    await world.lifecycle.load("e")
    assert parts(world, "e") == {"m"}


def test_ensembles_that_use_a_model_of_another_repository_may_be_affected_by_any_of_its_name() -> (
    None
):
    composing = {
        "A/own": frozenset({"A/m"}),
        "A/foreign": frozenset({"B/m"}),
        "A/none": frozenset({"m"}),
        "C/other": frozenset({"B/n"}),
    }
    assert affected_by("A/m", composing) == ("A/foreign", "A/none", "A/own")
    assert affected_by("C/m", composing) == ("A/foreign", "A/none")
