# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Which models a restarted controller loads again."""

import time

from cluster.controller.durable_state import SavedState
from cluster.models.states import ModelRecord, VersionRecord
from deployments.contracts.routing_table import ModelReadyState
from tests.support.control_plane_fakes import World, ensemble, in_virtual_time, model


class Controlled:
    """A lifecycle, and the state a controller would save."""

    def __init__(self) -> None:
        self.world = World(ensemble("e", "a"), model("a"), model("b"))
        self.saved = SavedState()

    async def load(self, name: str) -> None:
        await self.world.lifecycle.load(name)
        self.saved.want(name, self.world.lifecycle.records.values())

    async def unload(self, name: str) -> None:
        gone = await self.world.lifecycle.unload(name)
        self.saved.forget(gone, self.world.lifecycle.records.values())


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


def test_a_load_and_an_unload_of_one_of_thousands_hold_up_the_loop_for_little() -> None:
    ready = VersionRecord(1, ModelReadyState.READY)
    names = [f"m{number}" for number in range(20_000)]
    records = [ModelRecord(name, is_explicit=True, versions={1: ready}) for name in names]
    saved = SavedState(wanted=list(names), asked=list(names))
    begun_s = time.process_time()
    for name in names[:20]:
        saved.want(name, records)
        saved.forget((name,), records)
    # 90 ms for each pair where all records are looked into.
    assert time.process_time() - begun_s < 20 * 0.045
    assert saved.wanted == names[20:]
