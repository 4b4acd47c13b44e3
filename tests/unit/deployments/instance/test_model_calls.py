# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Calls of a model start the models they call."""

import asyncio
import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import pytest

from backends.api.errors import InternalError, TritonError, UnavailableError
from deployments.contracts.routing_table import Model, RoutingTable
from deployments.instance.model_calls import CallingProcess, RouterCaller
from deployments.settings.lane_settings import LaneSettings
from deployments.slabs.pool import SlabPool
from tests.support.cluster_of_instances import Instance, request, table
from tests.support.lane_rig import SECRET, Sink, echo

UNREAD = Model("m", is_on_demand=True)
DORMANT = Model("m", (replace(table().models["m"].versions[0], is_dormant=True),))


class Controller:
    """What a model's router follows: a table, and another one after the model was woken."""

    def __init__(self, model: Model, awake: RoutingTable, error: TritonError | None) -> None:
        self.calls: list[tuple[str, int]] = []
        self._model = model
        self._awake = awake
        self._error = error
        self._woken = asyncio.Event()

    async def watch_routing_table(
        self, update: Callable[[RoutingTable], None], report: Callable[[], bytes]
    ) -> None:
        update(RoutingTable(1, {"m": self._model}, initialised=True))
        await self._woken.wait()
        update(replace(self._awake, version=2))
        await asyncio.Event().wait()

    async def wake(self, key: str, version: int, *, is_nested: bool = False) -> TritonError | None:
        assert is_nested
        self.calls.append((key, version))
        if self._error is None:
            self._woken.set()
        return self._error


class FaultyController(Controller):
    """One whose client has a fault."""

    async def wake(self, key: str, version: int, *, is_nested: bool = False) -> TritonError | None:
        raise ValueError("no such row")


async def outcome(
    model: Model,
    error: TritonError | None = None,
    kind: type[Controller] = Controller,
    inputs: Sequence[Any] = (),
) -> tuple[Sink, list[Any]]:
    """Return what became of a call to a model without an instance, and what woke it."""
    instance = await Instance(echo).start()
    controller = kind(model, table(instance), error)
    process = CallingProcess(
        node_id="node",
        incarnation="caller",
        secret=SECRET,
        slabs=SlabPool(1 << 20),
        lanes=LaneSettings(heartbeat_timeout_s=0.0),
    )
    caller = RouterCaller(lambda: controller, process)  # type: ignore[arg-type,return-value]
    caller.run_on(asyncio.get_running_loop())
    sink = Sink()
    called = request()
    called.inputs = [*called.inputs, *inputs]
    try:
        # A model calls from a thread of its own.
        await asyncio.to_thread(caller.call, called, sink, decoupled=False)
        async with asyncio.timeout(30):
            await sink.ended
    finally:
        await caller.close()
        await instance.stop()
    return sink, controller.calls


@pytest.mark.parametrize(("model", "version"), [(DORMANT, 1), (UNREAD, -1)])
async def test_a_call_to_a_model_without_an_instance_wakes_it(model: Model, version: int) -> None:
    sink, calls = await outcome(model)
    assert (sink.error, calls) == (None, [("m", version)])


async def test_a_call_to_a_dormant_model_that_does_not_start_fails_with_its_error() -> None:
    sink, _ = await outcome(DORMANT, UnavailableError("failed to start model 'm'"))
    assert isinstance(sink.error, UnavailableError)
    assert sink.error.message == "failed to start model 'm'"


async def test_a_call_to_a_model_that_does_not_load_fails_with_the_error_of_a_call() -> None:
    sink, _ = await outcome(UNREAD, UnavailableError("failed to start model 'm'"))
    assert isinstance(sink.error, InternalError)
    assert sink.error.message == (
        "Model m - Error when running inference: failed to start model 'm'"
    )


async def test_a_call_whose_first_use_meets_a_fault_of_the_server_is_internal() -> None:
    sink, _ = await outcome(UNREAD, kind=FaultyController)
    assert isinstance(sink.error, InternalError)
    assert "ValueError: no such row" in sink.error.message


async def test_a_call_that_meets_a_fault_of_the_server_is_internal() -> None:
    sink, _ = await outcome(DORMANT, inputs=[None])
    assert isinstance(sink.error, InternalError)
    assert re.fullmatch(
        r"a model's call of model 'm' failed: (AttributeError|TypeError): .+; "
        "the server's log says where",
        sink.error.message,
    )
