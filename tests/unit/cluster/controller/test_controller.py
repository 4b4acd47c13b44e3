# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""The controller in virtual time: start, restart, poll, owner, end."""

import asyncio
import shutil
from collections.abc import Collection
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from backends.api.errors import InternalError, TritonError, UnavailableError
from cluster.controller.controller import ModelController
from cluster.controller.ownership import LEASE_S, Owner
from cluster.instances.pool import InstancePool
from deployments.supervision import supervisor
from tests.support.control_plane_fakes import DRAIN_S, LOAD_S, in_virtual_time, now
from tests.support.controller_fakes import FakeHost, controller_of, write_model
from tests.support.virtual_time import NeverReturnsError


def states(rows: list[dict[str, str]]) -> dict[str, str]:
    return {row["name"]: row["state"] for row in rows}


@in_virtual_time
async def test_start_waits_for_the_models_of_the_repository(folder: Path) -> None:
    write_model(folder, "a")
    write_model(folder, "b")
    controller = await controller_of(folder, FakeHost())
    assert states(await controller.start()) == {"a": "READY", "b": "READY"}
    changes = (await controller.routing_table(0, 1.0)).changes
    assert changes is not None
    assert changes.initialised


@in_virtual_time
async def test_start_without_a_repository_says_so_and_the_controller_still_answers(
    folder: Path,
) -> None:
    controller = await controller_of(folder / "none", FakeHost())
    with pytest.raises(InternalError, match="failed to open directory"):
        await controller.start()
    assert await controller.status() == []


@in_virtual_time
async def test_a_poll_follows_the_repository(folder: Path) -> None:
    write_model(folder, "a")
    controller = await controller_of(
        folder, FakeHost(), model_control_mode="poll", repository_poll_secs=5
    )
    await controller.start()
    write_model(folder, "b")
    shutil.rmtree(folder / "a")
    await asyncio.sleep(5 + LOAD_S + DRAIN_S + 1)
    assert states(await controller.status()) == {"a": "UNAVAILABLE", "b": "READY"}


@in_virtual_time
async def test_routers_hear_at_once_of_a_repository_that_goes_away(folder: Path) -> None:
    write_model(folder / "here", "a")
    (folder / "there").mkdir()
    locations = [str(folder / "here"), str(folder / "there")]
    controller = await controller_of(
        folder,
        FakeHost(),
        model_repository=locations,
        model_control_mode="poll",
        repository_poll_secs=5,
    )
    await controller.start()
    changes = (await controller.routing_table(0, 1.0)).changes
    assert changes is not None
    assert changes.reachable == dict.fromkeys(locations, True)
    (folder / "there").rmdir()
    changes = (await controller.routing_table(changes.version, 60.0)).changes
    assert changes is not None
    assert changes.reachable == dict(zip(locations, (True, False), strict=True))
    # What the poll has begun ends before the test.
    await asyncio.sleep(1)


@in_virtual_time
async def test_an_unload_that_fails_does_not_end_the_poll(folder: Path) -> None:
    host = FakeHost()
    for name in ("a", "b", "kept"):
        write_model(folder, name)
    controller = await controller_of(
        folder, host, model_control_mode="poll", repository_poll_secs=5
    )
    await controller.start()
    tried = _fail_to_end(host.pools[0])
    for name in ("a", "b"):
        shutil.rmtree(folder / name)
    await asyncio.sleep(5 + DRAIN_S + 1)
    assert tried
    write_model(folder, "c")
    await asyncio.sleep(5 + LOAD_S + DRAIN_S)
    assert states(await controller.status())["c"] == "READY"


@in_virtual_time
async def test_a_poll_asks_the_cluster_once_however_many_models_there_are(folder: Path) -> None:
    host = FakeHost()
    for number in range(20):
        write_model(folder, f"m{number}")
    controller = await controller_of(
        folder, host, model_control_mode="poll", repository_poll_secs=5
    )
    await controller.start()
    host.looks = 0
    await asyncio.sleep(5.5)
    assert host.looks == 1


@in_virtual_time
async def test_an_error_of_the_poll_itself_starts_it_again(folder: Path) -> None:
    host = FakeHost()
    controller = await controller_of(
        folder, host, model_control_mode="poll", repository_poll_secs=5
    )
    await controller.start()
    listed, controller._source.list_names = controller._source.list_names, _broken  # type: ignore[method-assign]
    await asyncio.sleep(6)
    controller._source.list_names = listed  # type: ignore[method-assign]
    write_model(folder, "a")
    await asyncio.sleep(6 + supervisor.LONGEST_DELAY_S)
    assert states(await controller.status()) == {"a": "READY"}


def _fail_to_end(pool: InstancePool) -> list[float]:
    """Have the end of a pool fail; return how long it was given, each time."""
    tried: list[float] = []

    async def close(drain_s: float) -> None:
        tried.append(drain_s)
        raise RuntimeError("cannot be ended")

    pool.close = close  # type: ignore[method-assign]
    return tried


async def _broken() -> Any:
    raise RuntimeError("a bug")


@in_virtual_time
async def test_a_server_whose_driver_is_silent_ends_itself(folder: Path) -> None:
    write_model(folder, "a")
    host = FakeHost()
    ends: list[float] = []
    owner = Owner("t", "a driver", lease_s=LEASE_S, end_ingress=lambda: ends.append(now()))
    clock = Clock()
    controller = await controller_of(folder, host, owner)
    clock.follow(controller)
    await controller.start()
    await asyncio.sleep(LEASE_S * 2)
    assert host.ended_s is not None
    assert ends
    assert not any(b"epoch" not in key for key in host.store.values)
    assert "drain a/1#0@1" in host.instances.log


@in_virtual_time
async def test_a_lost_server_ends_also_where_serve_never_answers(folder: Path) -> None:
    def end_ingress() -> None:
        raise NeverReturnsError

    write_model(folder, "a")
    host = FakeHost()
    owner = Owner("t", "a driver", lease_s=LEASE_S, end_ingress=end_ingress)
    clock = Clock()
    controller = await controller_of(folder, host, owner)
    clock.follow(controller)
    await controller.start()
    await asyncio.sleep(600)
    assert host.ended_s is not None
    assert "drain a/1#0@1" in host.instances.log


@in_virtual_time
async def test_a_server_that_ends_loads_nothing_new_of_its_own_accord(folder: Path) -> None:
    write_model(folder, "a")
    host = FakeHost()
    polls = {"model_control_mode": "poll", "repository_poll_secs": 1}
    controller = await controller_of(folder, host, exit_timeout_secs=30, **polls)
    await controller.start()
    await controller.shutdown(0)
    write_model(folder, "b")
    await asyncio.sleep(30)
    assert not [line for line in host.instances.log if "b/1" in line]


class Clock:
    """Has the controller's lifeline go by the loop's clock."""

    def follow(self, controller: ModelController) -> None:
        lifeline = controller._lifeline
        lifeline._heard_s = 0.0
        is_lost = lifeline.is_lost
        lifeline.is_lost = lambda _: is_lost(now())  # type: ignore[method-assign]


@in_virtual_time
async def test_a_watch_that_fails_goes_on_watching(folder: Path) -> None:
    host = FakeHost()
    answers: list[Any] = [KeyError("a bug"), True, False, False]

    def is_deployed() -> bool:
        answer = answers.pop(0) if answers else False
        if isinstance(answer, Exception):
            raise answer
        return bool(answer)

    controller = await controller_of(folder, host, Owner("t", "serve", is_deployed=is_deployed))
    await controller.start()
    await asyncio.sleep(60)
    assert host.ended_s is not None


@in_virtual_time
async def test_a_step_of_the_end_that_fails_does_not_keep_the_process_alive(folder: Path) -> None:
    write_model(folder, "a")
    host = FakeHost()
    host.fail = {"kill_instances": RuntimeError("gone"), "end_arbiters": RuntimeError("gone")}
    controller = await controller_of(folder, host)
    await controller.start()
    tried = _fail_to_end(host.pools[0])
    await controller.shutdown(1.0)
    await asyncio.sleep(1)
    assert tried == [1.0]
    assert host.ended_s is not None
    assert not any(b"epoch" not in key for key in host.store.values)


@in_virtual_time
async def test_the_end_does_not_wait_for_a_store_that_is_gone(folder: Path) -> None:
    host = FakeHost()
    controller = await controller_of(folder, host)
    await controller.start()
    host.store.go_away()
    await controller.shutdown(1.0)
    await asyncio.sleep(1)
    assert host.ended_s is not None


@in_virtual_time
async def test_a_loaded_model_is_loaded_again_by_the_next_controller(folder: Path) -> None:
    for name in ("a", "b"):
        write_model(folder, name)
    host = FakeHost()
    controller = await controller_of(folder, host, model_control_mode="explicit")
    await controller.start()
    await controller.load("a", {})
    await controller.load("b", {})
    await controller.unload("b")
    first = (await controller.routing_table(0, 1.0)).changes
    assert first is not None
    again = host.restarted().without_instances()
    successor = await controller_of(folder, again, model_control_mode="explicit")
    assert states(await successor.start()) == {"a": "READY", "b": "UNAVAILABLE"}
    # Numbers of generations go on.
    assert again.instances.log[0] == "start a/1#0@1002"
    changes = (await successor.routing_table(first.version, 1.0)).changes
    assert changes is not None
    assert changes.is_whole


@in_virtual_time
async def test_live_instances_serve_at_once_and_are_not_loaded_again(folder: Path) -> None:
    write_model(folder, "a", count=2)
    host = FakeHost()
    controller = await controller_of(folder, host)
    await controller.start()
    again = host.restarted()
    successor = await controller_of(folder, again)
    assert states(await successor.start()) == {"a": "READY"}
    assert again.instances.log == []
    assert again.killed == []


@in_virtual_time
async def test_instances_of_a_newer_generation_that_routers_may_know_are_not_killed(
    folder: Path,
) -> None:
    write_model(folder, "a", count=2)
    host = FakeHost()
    controller = await controller_of(folder, host)
    await controller.start()
    name = host.specs[0].name.replace("@1", "@2")
    await host.instances.create(replace(host.specs[0], name=name, generation=2))
    again = host.restarted()
    successor = await controller_of(folder, again)
    await successor.start()
    assert again.killed == []
    assert again.retired == [name]


@in_virtual_time
async def test_a_silent_instance_is_replaced_and_finishes_its_requests_when_it_answers(
    folder: Path,
) -> None:
    write_model(folder, "a", count=2)
    host = FakeHost()
    controller = await controller_of(folder, host)
    await controller.start()
    again = host.restarted()
    silent = again.instances.alive[1]
    silent.resumes = asyncio.Event()
    asyncio.get_running_loop().call_later(10, silent.resumes.set)
    successor = await controller_of(folder, again)
    assert states(await successor.start()) == {"a": "READY"}
    assert again.instances.log[:1] == ["start a/1#2@1"]
    assert again.killed == []
    assert again.retired == [silent.spec.name]


@in_virtual_time
async def test_instances_that_a_reload_was_about_to_end_finish_their_requests(folder: Path) -> None:
    write_model(folder, "a", count=2)
    host = FakeHost()
    controller = await controller_of(folder, host)
    await controller.start()
    old = host.specs
    for spec in old:
        name = spec.name.replace("@1", "@2")
        await host.instances.create(replace(spec, name=name, generation=2))
    again = host.restarted()
    successor = await controller_of(folder, again)
    assert states(await successor.start()) == {"a": "READY"}
    assert again.killed == []
    assert again.retired == [spec.name for spec in old]


@in_virtual_time
async def test_a_draining_instance_alone_is_not_adopted(folder: Path) -> None:
    write_model(folder, "a")
    host = FakeHost()
    controller = await controller_of(folder, host)
    await controller.start()
    again = host.restarted()
    (actor,) = again.instances.alive
    actor.is_draining = True
    successor = await controller_of(folder, again)
    assert states(await successor.start()) == {"a": "READY"}
    assert again.retired == [actor.spec.name]
    assert {"start a/1#0@1002", "ready a/1#0@1002"} <= set(again.instances.log)


@in_virtual_time
async def test_loads_are_refused_unless_the_mode_is_explicit(folder: Path) -> None:
    controller = await controller_of(folder, FakeHost())
    await controller.start()
    with pytest.raises(UnavailableError, match="not allowed if polling is enabled"):
        await controller.load("a", {})


@in_virtual_time
async def test_a_pending_load_is_remembered_although_it_is_answered_with_an_error(
    folder: Path,
) -> None:
    write_model(folder, "a")
    host = FakeHost()
    controller = await controller_of(folder, host, model_control_mode="explicit")
    await controller.start()
    host.instances.blocked.add("a/1#0")
    with pytest.raises(TritonError, match="pending"):
        await controller.load("a", {})
    assert controller._state.saved.wanted == ["a"]


@in_virtual_time
async def test_an_instance_a_router_reports_is_asked_at_once(tmp_path: Path) -> None:
    host = FakeHost()
    controller = await controller_of(tmp_path, host)
    await controller.start()
    await controller.report_wedged("manta/m/1/0/0", "abc", "showed no progress for 10 s")
    assert host.suspects == ["abc"]


@in_virtual_time
async def test_a_router_has_a_dormant_version_woken_and_is_told_why_that_fails(
    folder: Path,
) -> None:
    write_model(folder, "m")
    host = FakeHost()
    controller = await controller_of(folder, host)
    await controller.start()
    controller._lifecycle.dormancy.rest("m", 1)
    host.instances.fail["m/1#1"] = [InternalError("no such file")]
    error = await controller.wake("m", 1)
    assert isinstance(error, UnavailableError)
    assert error.message == "failed to start model 'm': Internal: no such file"
    await asyncio.sleep(error.retry_after_s)
    assert await controller.wake("m", 1) is None
    changes = (await controller.routing_table(0, 1.0)).changes
    assert changes is not None
    (version,) = changes.models["m"].versions
    assert (len(version.instances), version.is_dormant) == (1, False)


@in_virtual_time
async def test_after_its_restart_the_controller_loads_what_was_dormant(folder: Path) -> None:
    write_model(folder, "m")
    host = FakeHost()
    controller = await controller_of(folder, host)
    await controller.start()
    controller._lifecycle.dormancy.rest("m", 1)
    await asyncio.sleep(DRAIN_S + 1)
    host.was_restarted = True
    successor = await controller_of(folder, host)
    assert await successor.wake("m", 1) is None
    await successor.start()
    changes = (await successor.routing_table(0, 1.0)).changes
    assert changes is not None
    (version,) = changes.models["m"].versions
    assert (len(version.instances), version.is_dormant) == (1, False)


@in_virtual_time
async def test_on_demand_no_model_is_loaded_before_its_first_use(folder: Path) -> None:
    for name in ("a", "b", "c"):
        write_model(folder, name)
    host = FakeHost()
    controller = await controller_of(
        folder, host, model_control_mode="ondemand", ondemand_max_models=1
    )
    assert states(await controller.start()) == dict.fromkeys("abc", "READY")
    assert host.instances.log == []
    index = await controller.index()
    assert [row["state"] for row in index] == ["READY"] * 3
    changes = (await controller.routing_table(0, 1.0)).changes
    assert changes is not None
    assert all(model.is_unread for model in changes.models.values())
    assert await controller.wake("a", -1) is None
    assert await controller.wake("b", -1) is None
    await asyncio.sleep(10)
    awake = [row["name"] for row in await controller.status() if row["instances"] == "1"]
    assert awake == ["b"]
    assert await controller.wake("a", 1) is None


@in_virtual_time
async def test_on_demand_new_models_are_known_and_those_that_are_gone_are_not(
    folder: Path,
) -> None:
    write_model(folder, "a")
    write_model(folder, "b")
    controller = await controller_of(
        folder, FakeHost(), model_control_mode="ondemand", repository_poll_secs=1
    )
    await controller.start()
    assert await controller.wake("a", -1) is None
    shutil.rmtree(folder / "a")
    write_model(folder, "c")
    await asyncio.sleep(2 + DRAIN_S)
    assert states(await controller.index()) == {"b": "READY", "c": "READY"}
    assert await controller.wake("c", -1) is None


@in_virtual_time
async def test_on_demand_models_can_be_loaded_and_unloaded_too(folder: Path) -> None:
    write_model(folder, "a")
    host = FakeHost()
    controller = await controller_of(
        folder, host, model_control_mode="ondemand", repository_poll_secs=1
    )
    await controller.start()
    await controller.load("a", {})
    await controller.unload("a")
    assert await controller.wake("a", -1) is None
    await asyncio.sleep(3)
    changes = (await controller.routing_table(0, 1.0)).changes
    assert changes is not None
    assert not changes.models["a"].is_unread
    await controller.load("a", {})
    (version,) = controller._lifecycle.records["a"].versions.values()
    assert len(version.instances) == 1


@in_virtual_time
async def test_a_node_that_drains_is_emptied_once_its_instances_run_elsewhere(
    folder: Path,
) -> None:
    write_model(folder, "m", count=2)
    host = FakeHost()
    controller = await controller_of(folder, host)
    await controller.start()
    host.instances.node = "other"
    host.draining = {"n"}
    await asyncio.sleep(10)
    changes = (await controller.routing_table(0, 1.0)).changes
    assert changes is not None
    (version,) = changes.models["m"].versions
    assert [each.node_id for each in version.instances] == ["other", "other"]
    assert host.instances.log[-1].startswith("end m/1#")


class SlowHost(FakeHost):
    """Nodes that never say whether anybody uses what runs there."""

    async def end_unused_actors(self, in_use: Collection[str], draining: Collection[str]) -> None:
        await asyncio.get_running_loop().create_future()


@in_virtual_time
async def test_what_else_is_asked_of_nodes_does_not_hold_up_the_watch_for_drains(
    folder: Path,
) -> None:
    write_model(folder, "m")
    host = SlowHost()
    controller = await controller_of(folder, host)
    await controller.start()
    await asyncio.sleep(60)
    host.instances.node = "other"
    host.draining = {"n"}
    await asyncio.sleep(2 + LOAD_S + DRAIN_S)
    assert controller._lifecycle.records["m"].versions[1].instances[0].node_id == "other"


@in_virtual_time
async def test_a_load_without_the_gcs_fails_and_works_again_when_it_is_back(folder: Path) -> None:
    host = FakeHost()
    write_model(folder, "a")
    controller = await controller_of(folder, host, model_control_mode="explicit")
    await controller.start()
    host.store.go_away()
    await asyncio.sleep(60)
    for call in (controller.load("a", {}), controller.unload("a")):
        with pytest.raises(UnavailableError, match=r"\(GCS\).*try again when the head is back"):
            await call
    host.store.come_back()
    await asyncio.sleep(2)
    await controller.load("a", {})
    assert states(await controller.status()) == {"a": "READY"}


@in_virtual_time
async def test_a_controller_that_was_replaced_steps_down(folder: Path) -> None:
    host, elsewhere = FakeHost(), FakeHost()
    elsewhere.store = host.store
    elsewhere.was_restarted = True
    await (await controller_of(folder, host)).start()
    await asyncio.sleep(60)
    assert not host.stepped_down
    await (await controller_of(folder, elsewhere)).start()
    await asyncio.sleep(2)
    assert host.stepped_down
    assert not elsewhere.stepped_down


@in_virtual_time
async def test_an_under_used_node_is_emptied_where_that_is_asked_for(folder: Path) -> None:
    write_model(folder, "m")
    host = FakeHost()
    host.node_names = ("n", "other")
    controller = await controller_of(
        folder,
        host,
        consolidate_nodes=True,
        consolidate_after_secs=60.0,
        ingress_label_selector='{"ingress": "true"}',
    )
    await controller.start()
    host.instances.node = "other"

    async def nodes() -> list[str]:
        changes = (await controller.routing_table(0, 1.0)).changes
        assert changes is not None
        return [each.node_id for each in changes.models["m"].versions[0].instances]

    await asyncio.sleep(60)
    assert await nodes() == ["n"]
    await asyncio.sleep(30)
    assert await nodes() == ["other"]
    assert host.placer.kept_free == {"n"}
