# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Which models a restarted controller loads again."""

from cluster.controller.durable_state import SavedState
from tests.support.control_plane_fakes import World, ensemble, in_virtual_time, model


class Controlled:
    """A lifecycle, and the state a controller would save."""

    def __init__(self) -> None:
        self.world = World(ensemble("e", "a"), model("a"), model("b"))
        self.saved = SavedState()

    async def load(self, name: str) -> None:
        await self.world.lifecycle.load(name)
        lifecycle = self.world.lifecycle
        ensembles = lifecycle.ensembles_of(name)
        self.saved.want(name, [lifecycle.records[each] for each in ensembles])

    async def unload(self, name: str) -> None:
        gone = await self.world.lifecycle.unload(name)
        self.saved.forget(gone, self.world.lifecycle.records)


@in_virtual_time
async def test_an_unloaded_model_is_wanted_no_more_and_remembered_for_the_index() -> None:
    server = Controlled()
    await server.load("a")
    await server.load("b")
    await server.unload("a")
    assert (server.saved.wanted, server.saved.unloaded) == (["b"], {"a": [1]})
    await server.load("a")
    assert (server.saved.wanted, server.saved.unloaded) == (["b", "a"], {})


@in_virtual_time
async def test_an_ensemble_that_could_not_be_reloaded_stays_wanted_when_another_goes() -> None:
    server = Controlled()
    await server.load("e")
    await server.load("b")
    server.world.misfits["e"] = "in ensemble e, ..."
    server.world.candidates["a"] = model("a", stamp="changed")
    await server.load("a")
    assert not server.world.record("e").ready_versions
    await server.unload("b")
    assert server.saved.wanted == ["e", "a"]


@in_virtual_time
async def test_an_ensemble_goes_and_comes_with_its_model() -> None:
    server = Controlled()
    await server.load("e")
    await server.unload("a")
    assert server.saved.wanted == []
    await server.load("a")
    assert sorted(server.saved.wanted) == ["a", "e"]
