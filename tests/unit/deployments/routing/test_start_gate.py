# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""When an ingress counts as started."""

import asyncio

import pytest

from deployments.contracts.routing_table import Model, ModelReadyState, ModelVersion, RoutingTable
from deployments.routing.start_gate import StartGate
from deployments.settings.wait_for_models import WaitForModels
from deployments.supervision.handover import Inheritance
from tests.support import virtual_time

ALL, ATTEMPTED, NONE = WaitForModels.ALL, WaitForModels.ATTEMPTED, WaitForModels.NONE
LOADING, READY, FAILED = (
    ModelReadyState.LOADING,
    ModelReadyState.READY,
    ModelReadyState.UNAVAILABLE,
)


def table(*states: ModelReadyState, initialised: bool = True) -> RoutingTable:
    names = [f"m{index}" for index in range(len(states))]
    models = {
        name: Model(name, (ModelVersion(1, state, "it broke"),))
        for name, state in zip(names, states, strict=True)
    }
    return RoutingTable(1, models, initialised)


class Replica:
    """A gate and whoever waits at it.

    Attributes:
        others_run: Whether Serve says that another replica runs.
        asked: How often Serve was asked.
    """

    def __init__(self, wait_for: WaitForModels) -> None:
        self.gate = StartGate(wait_for, self._has_run)
        self.others_run = False
        self.asked = 0
        self.error: Exception | None = None
        self._wait = asyncio.create_task(self.gate.wait(self._check))

    async def is_through(self) -> bool:
        await asyncio.sleep(0.01)
        return self._wait.done()

    async def end(self) -> None:
        self._wait.cancel()
        await asyncio.wait({self._wait})

    async def outcome(self) -> None:
        await self._wait

    def _check(self) -> None:
        if self.error is not None:
            raise self.error

    async def _has_run(self) -> bool:
        self.asked += 1
        return self.others_run


def test_gate_for_attempted_models_opens_when_all_were_tried_however_that_went() -> None:
    async def main() -> None:
        here = Replica(ATTEMPTED)
        here.gate.take(table(LOADING, initialised=False))
        assert not await here.is_through()
        here.gate.take(table(FAILED))
        assert await here.is_through()
        assert not here.asked

    virtual_time.run(main())


def test_gate_for_all_models_opens_when_the_last_one_is_ready() -> None:
    async def main() -> None:
        here = Replica(ALL)
        for states in ((READY, FAILED), (READY, LOADING)):
            here.gate.take(table(*states))
            assert not await here.is_through()
        here.gate.take(table(READY, READY, initialised=False))
        assert await here.is_through()

    virtual_time.run(main())


def test_gate_for_all_models_stays_shut_while_none_was_tried() -> None:
    async def main() -> None:
        here = Replica(ALL)
        here.gate.take(table(initialised=False))
        await asyncio.sleep(100)
        assert not await here.is_through()
        assert not here.asked
        await here.end()

    virtual_time.run(main())


def test_gate_without_models_to_wait_for_is_open() -> None:
    async def main() -> None:
        assert await Replica(NONE).is_through()

    virtual_time.run(main())


def test_later_replica_does_not_wait_for_a_model_that_has_failed() -> None:
    async def main() -> None:
        here = Replica(ALL)
        here.others_run = True
        assert not await here.is_through()
        here.gate.take(table(FAILED))
        assert await here.is_through()

    virtual_time.run(main())


def test_replica_that_waits_asks_again_whether_another_runs() -> None:
    async def main() -> None:
        here = Replica(ALL)
        here.gate.take(table(FAILED))
        assert not await here.is_through()
        for _ in range(1000):
            here.gate.take(table(FAILED))
        here.others_run = True
        await asyncio.sleep(20)
        assert await here.is_through()
        assert here.asked <= 3

    virtual_time.run(main())


def test_gate_that_was_passed_stays_open() -> None:
    async def main() -> None:
        here = Replica(ALL)
        here.gate.take(table(READY))
        assert await here.is_through()
        here.gate.take(table(FAILED, initialised=False))
        await here.gate.wait(lambda: None)

    virtual_time.run(main())


@pytest.mark.parametrize("states", [(), (FAILED,)])
def test_error_of_the_watch_ends_the_wait(states: tuple[ModelReadyState, ...]) -> None:
    async def main() -> None:
        here = Replica(ALL)
        here.gate.take(table(*states, initialised=bool(states)))
        assert not await here.is_through()
        here.error = KeyError("no table")
        await asyncio.sleep(30)
        with pytest.raises(KeyError):
            await here.outcome()

    virtual_time.run(main())


def test_replica_with_peers_listens_once_it_has_a_table_or_after_a_while() -> None:
    async def main() -> None:
        gate = Replica(NONE).gate
        await gate.wait_for_table(Inheritance())
        loop = asyncio.get_running_loop()
        begin_s = loop.time()
        await gate.wait_for_table(Inheritance(has_peers=True))
        assert 1 < loop.time() - begin_s < 60
        gate.take(table(READY, initialised=False))
        begin_s = loop.time()
        await gate.wait_for_table(Inheritance(has_peers=True))
        assert loop.time() == begin_s

    virtual_time.run(main())


def test_a_replica_alone_on_its_node_listens_once_it_knows_the_models() -> None:
    async def main() -> None:
        here = Replica(NONE)
        waiting = asyncio.create_task(here.gate.wait_for_table(Inheritance()))
        await asyncio.sleep(1)
        assert not waiting.done()
        here.gate.take(table(LOADING, initialised=False))
        await waiting

    virtual_time.run(main())
