# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""How a controller's process ends, and what it asks of a cluster that nodes leave."""

import asyncio
from collections.abc import Callable
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
from ray.exceptions import ActorDiedError, RayError

from backends.api.errors import UnavailableError
from cluster.actors.arbiter import NAME_PREFIX as ARBITER
from cluster.actors.controller_client import CONTROLLER_NAME
from cluster.actors.placement_groups import create_group
from cluster.controller import host as host_module
from cluster.controller.host import ControllerHost, ray_host
from cluster.devices.inventory import Inventory
from cluster.instances.node_files import NAME_PREFIX as FILES
from cluster.instances.node_files import NodeFilesSettings
from cluster.placement.node_requests import NodeRequest, NodeShape
from cluster.placement.nodes import SHARED_S
from cluster.repository.agents.contracts import Action
from deployments.instance.spec import Gang
from deployments.model_files.contracts import ModelFiles
from tests.support import virtual_time
from tests.support.fake_ray import FakeRay
from tests.support.fake_ray_actors import Reference
from tests.support.instance_host import spec

OTHER = "bb" * 28
SETTINGS = NodeFilesSettings("", 0, "WARNING")


class Exit(BaseException):
    """The process has ended."""


class Timer:
    """A timer that a test fires."""

    def __init__(self, delay_s: float, function: Callable[[], object]) -> None:
        self.delay_s = delay_s
        self.function = function
        self.daemon = False

    def start(self) -> None:
        TIMERS.append(self)


TIMERS: list[Timer] = []


class Node:
    """What an instance has started on a node."""

    def __init__(self) -> None:
        self.asked: list[Any] = []

    def ready(self) -> None:
        """Return when it can be asked."""

    def unused_s(self, is_leaving: bool) -> float:
        return 1.0

    def withdraw(self, all_but: Any) -> None:
        self.asked.append(all_but)

    def tell_agents(self, key: str, action: Action) -> None:
        self.asked.append((key, action))

    def stop_prefetch(self) -> None:
        self.asked.append("stop")


@pytest.fixture
def host(fake: FakeRay, monkeypatch: pytest.MonkeyPatch) -> ControllerHost:
    def end(code: int) -> None:
        raise Exit(code)

    async def read_devices(node_id: str) -> Inventory:
        raise OSError("no answer")

    TIMERS.clear()
    monkeypatch.setattr(host_module, "os", SimpleNamespace(_exit=end))
    monkeypatch.setattr(host_module, "threading", SimpleNamespace(Timer=Timer))
    monkeypatch.setattr(host_module, "read_devices", read_devices)
    fake.have(CONTROLLER_NAME, Node())
    fake.current_actor = fake.get_actor(CONTROLLER_NAME)
    return ray_host(10.0)


def test_a_controller_that_ends_gives_its_name_free_and_ends_its_process_if_ray_does_not(
    fake: FakeRay, host: ControllerHost
) -> None:
    host.process.end_process()
    assert not fake.actors
    (last,) = TIMERS
    assert last.daemon
    assert 5.0 < last.delay_s < 30.0
    with pytest.raises(Exit):
        last.function()


def test_a_controller_that_cannot_reach_the_head_ends_its_process_itself(
    fake: FakeRay, host: ControllerHost
) -> None:
    fake.is_away = True
    with pytest.raises(Exit):
        host.process.end_process()


@pytest.mark.parametrize("end", ["step_down", "restart_process"])
def test_a_process_that_gives_way_leaves_the_actor_to_its_successor(
    fake: FakeRay, host: ControllerHost, end: str
) -> None:
    with pytest.raises(Exit):
        getattr(host.process, end)()
    assert CONTROLLER_NAME in fake.actors


def test_a_process_knows_whether_it_replaces_one_that_died(
    fake: FakeRay, host: ControllerHost
) -> None:
    assert not host.process.was_restarted
    fake.was_current_actor_reconstructed = True
    assert host.process.was_restarted
    assert (host.nodes.node_id, host.nodes.own_node) == (fake.node_id, "node:127.0.0.1")


async def test_a_node_whose_devices_cannot_be_read_is_a_node_all_the_same(
    fake: FakeRay, host: ControllerHost
) -> None:
    fake.add_node(OTHER, {"CPU": 4.0, "GPU": 1.0})
    fake.draining = {OTHER}
    assert [node.node_id for node in (await host.nodes.read_cluster()).nodes] == [
        fake.node_id,
        OTHER,
    ]
    assert await host.nodes.read_draining() == {OTHER}
    fake.remove_node(OTHER)
    # Looks at the same time are one.
    await asyncio.sleep(SHARED_S)
    assert [node.node_id for node in (await host.nodes.read_cluster()).nodes] == [fake.node_id]


async def test_nodes_are_asked_for_until_they_are_not(fake: FakeRay, host: ControllerHost) -> None:
    await host.nodes.ask_for_nodes([NodeRequest(NodeShape((("CPU", 64.0),)))])
    assert len(fake.waiting_groups()) == 1
    await host.nodes.ask_for_nodes([])
    assert not fake.waiting_groups()
    fake.is_away = True
    with pytest.raises(RayError):
        await host.nodes.ask_for_nodes([NodeRequest(NodeShape((("CPU", 64.0),)))])


async def test_what_instances_have_started_ends_with_the_server_and_the_controller_does_not(
    fake: FakeRay, host: ControllerHost
) -> None:
    fake.have(f"{ARBITER}{OTHER}/0", Node())
    fake.have(f"{FILES}{OTHER}", Node())
    await host.nodes.end_arbiters()
    assert list(fake.actors) == [CONTROLLER_NAME, f"{FILES}{OTHER}"]
    await host.files.end_node_files()
    assert list(fake.actors) == [CONTROLLER_NAME]


async def test_actors_of_a_node_that_drains_end_and_those_that_are_in_use_stay(
    fake: FakeRay, host: ControllerHost
) -> None:
    third = "cc" * 28
    for node_id in (fake.node_id, OTHER, third):
        fake.have(f"{FILES}{node_id}", Node())
    await host.nodes.end_unused_actors({third}, {OTHER, third})
    assert list(fake.actors) == [CONTROLLER_NAME, f"{FILES}{fake.node_id}", f"{FILES}{third}"]


def test_actors_that_do_not_say_whether_they_are_used_stay_and_have_a_few_seconds_together(
    fake: FakeRay, host: ControllerHost
) -> None:
    names = [f"{FILES}{number:02x}" for number in range(50)]
    silent = [fake.have(name, Node()) for name in names[1:]]
    for each in silent:
        each.call = lambda method, *_: Reference(fake, None, method)  # type: ignore[method-assign]
    fake.have(names[0], Node())

    async def main() -> float:
        await host.nodes.end_unused_actors((), {"00"})
        return asyncio.get_running_loop().time()

    assert virtual_time.run(main()) == pytest.approx(5.0)
    assert set(fake.actors) == {CONTROLLER_NAME, *names[1:]}


async def test_an_actor_that_is_lost_while_it_is_asked_is_left_alone(
    fake: FakeRay, host: ControllerHost
) -> None:
    fake.have(f"{FILES}{OTHER}", Node())
    fake.failures["unused_s"] = [ActorDiedError()]
    await host.nodes.end_unused_actors((), {OTHER})
    assert f"{FILES}{OTHER}" in fake.actors


async def test_nodes_hear_what_became_of_loads(fake: FakeRay, host: ControllerHost) -> None:
    node = Node()
    fake.have(f"{FILES}{OTHER}", node)
    await host.files.withdraw_files({"kept"})
    host.files.tell_agents("k", Action.LOAD)
    await host.files.stop_prefetch(["gone", OTHER])
    assert node.asked == [("kept",), ("k", Action.LOAD), "stop"]


async def test_a_node_that_cannot_prefetch_or_offer_is_unavailable_and_has_no_view(
    fake: FakeRay, host: ControllerHost
) -> None:
    fake.have(f"{FILES}{OTHER}", Node())
    with pytest.raises(UnavailableError):
        await host.files.prefetch(SETTINGS, OTHER, "m", ModelFiles("s3://b/m", ()), 0.5)
    assert await host.files.view_of_cache(OTHER, (), 0.5) is None


async def test_what_instances_that_are_gone_have_reserved_is_free(
    fake: FakeRay, host: ControllerHost
) -> None:
    create_group(replace(spec(), gang=Gang(({"CPU": 1.0},), "PACK")))
    found = await host.actors.find_live_instances()
    assert (list(found.described), list(found.silent)) == ([], [])
    assert not fake.waiting_groups()
    assert CONTROLLER_NAME in fake.actors
