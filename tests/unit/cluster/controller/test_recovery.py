# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""A controller that starts while the head fails: it tries again, or ends to be started again."""

import asyncio
from collections.abc import Sequence
from pathlib import Path

import pytest

from backends.api.errors import TritonError, UnsupportedError
from cluster.controller.boot import TRY_FOR_S
from cluster.controller.durable_state import DurableState
from cluster.repository.contents import RepositoryScan
from tests.support.control_plane_fakes import in_virtual_time
from tests.support.controller_fakes import (
    FakeHost,
    FakeStore,
    explicit_controller_of,
    ready,
    with_two_models,
)

# Of the last attempt, which begins before the time is over.
SLACK_S = 10.0


@pytest.mark.parametrize("call", ["read_cluster", "find_live_instances", "withdraw_files"])
def test_a_recovery_that_fails_is_tried_again_and_the_table_held_until_it_ends_well(
    call: str, tmp_path: Path
) -> None:
    @in_virtual_time
    async def check(folder: Path) -> None:
        _, host = await with_two_models(folder)
        again = host.restarted()
        again.fail = {call: RuntimeError("the head is not there yet")}
        successor = await explicit_controller_of(folder, again)
        assert (await successor.routing_table(0, 0.2)).changes is None
        await asyncio.sleep(600)
        assert await ready(successor) == ["a", "b"]
        changes = (await successor.routing_table(0, 1.0)).changes
        assert changes is not None
        assert (sorted(changes.models), changes.initialised) == (["a", "b"], True)
        assert (again.instances.log, again.killed, again.restarts) == ([], [], [])

    check(tmp_path)


@in_virtual_time
async def test_a_recovery_that_never_ends_well_ends_the_process_and_gives_out_no_table(
    folder: Path,
) -> None:
    _, host = await with_two_models(folder)
    again = host.restarted()
    again.fail_always = {"find_live_instances": RuntimeError("the head is not there")}
    successor = await explicit_controller_of(folder, again)
    await asyncio.sleep(TRY_FOR_S - 1)
    assert again.restarts == []
    await asyncio.sleep(1 + SLACK_S)
    assert len(again.restarts) == 1
    assert (await successor.routing_table(0, 60.0)).changes is None
    assert again.killed == []


class FailingStore(FakeStore):
    """Fails reads.

    Attributes:
        failures: How many more reads fail.
    """

    failures = 0.0

    async def get(self, key: bytes) -> bytes | None:
        if self.failures > 0:
            self.failures -= 1
            raise ConnectionError("the GCS is not there")
        return await super().get(key)


@in_virtual_time
async def test_a_constructor_whose_look_into_the_store_fails_looks_again(folder: Path) -> None:
    _, host = await with_two_models(folder)
    again = host.restarted()
    again.store = FailingStore()
    again.store.values = host.store.values
    again.store.failures = 3
    again.store.fail = [ConnectionError("the GCS is not there")]
    successor = await explicit_controller_of(folder, again)
    await successor.start()
    assert await ready(successor) == ["a", "b"]
    assert again.restarts == []


@in_virtual_time
async def test_a_constructor_never_raises_but_ends_its_process(folder: Path) -> None:
    _, host = await with_two_models(folder)
    again = host.restarted()
    again.store = FailingStore()
    again.store.failures = float("inf")
    made = asyncio.ensure_future(explicit_controller_of(folder, again))
    await asyncio.wait({made}, timeout=TRY_FOR_S + SLACK_S)
    assert not made.done()
    assert len(again.restarts) == 1
    made.cancel()


class RowGoesAway(FakeStore):
    """Lists a row that is gone when it is read."""

    async def keys(self, prefix: bytes) -> Sequence[bytes]:
        late = [b"controller/override/late"] if b"override" in prefix else []
        return [*await super().keys(prefix), *late]


@in_virtual_time
async def test_an_override_that_goes_away_while_the_state_is_read_is_left_out() -> None:
    state = await DurableState.restore(RowGoesAway())
    assert state.overrides == {}


@in_virtual_time
async def test_a_repository_that_cannot_be_opened_is_said_by_the_start_not_by_a_dead_actor() -> (
    None
):
    host = FakeHost()
    controller = await explicit_controller_of("nfs4://server/models", host)
    with pytest.raises(UnsupportedError, match="nfs4"):
        await controller.start()
    with pytest.raises(TritonError, match="nfs4"):
        await controller.load("a", {})
    assert host.restarts == []


@in_virtual_time
async def test_what_is_alive_serves_on_though_its_repository_cannot_be_opened(
    folder: Path,
) -> None:
    _, host = await with_two_models(folder)
    again = host.restarted()
    successor = await explicit_controller_of("nfs4://server/models", again)
    await asyncio.sleep(60)
    assert await ready(successor) == ["a", "b"]
    assert (again.killed, again.restarts) == ([], [])


@in_virtual_time
async def test_a_controller_that_ray_starts_after_the_servers_end_ends_for_good(
    folder: Path,
) -> None:
    host = FakeHost()
    host.was_restarted = True
    starting = asyncio.ensure_future(explicit_controller_of(folder, host, has_secrets=True))
    await asyncio.wait({starting}, timeout=1.0)
    assert host.ended_s is not None
    assert not starting.done()
    starting.cancel()


@in_virtual_time
async def test_loads_that_could_not_begin_after_a_restart_begin_later(folder: Path) -> None:
    _, host = await with_two_models(folder)
    again = host.restarted().without_instances()
    successor = await explicit_controller_of(folder, again, model_control_mode="none")
    repository = successor._source._repository
    scan, failures = repository.scan, [RuntimeError("a bug of a store's client")] * 3

    def failing() -> RepositoryScan:
        if failures:
            raise failures.pop()
        return scan()

    repository.scan = failing  # type: ignore[method-assign]
    await successor.start()
    assert await ready(successor) == ["a", "b"]
