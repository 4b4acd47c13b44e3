# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""What pools are told of actors that Ray has lost, and what is left behind of those not made."""

from dataclasses import replace
from typing import Any

import pytest
from ray.exceptions import (
    ActorDiedError,
    ActorUnavailableError,
    RayError,
    RuntimeEnvSetupError,
)

from backends.api.errors import InvalidArgumentError
from cluster.instances import actor_host
from cluster.instances.actor_host import ActorHost
from cluster.instances.host import (
    ActorLostError,
    ActorUnreachableError,
    EnvironmentFailedError,
)
from cluster.placement.nodes import read_cluster
from deployments.instance.spec import NAMESPACE, Gang, InstanceSpec
from tests.support.fake_ray import FakeRay
from tests.support.fake_ray_actors import FakeActor
from tests.support.instance_host import spec


class Instance:
    """An instance that answers what it was asked."""

    def progress(self, *arguments: object) -> tuple[object, ...]:
        return arguments

    def describe(self) -> None:
        raise InvalidArgumentError("no such file")


@pytest.fixture
def host(fake: FakeRay, monkeypatch: pytest.MonkeyPatch) -> ActorHost:
    """The host, on which actors are `Instance`."""

    def create(spec: InstanceSpec, *arguments: object) -> Any:
        made = fake.remote(Instance).options(name=spec.name, spec=spec, given=arguments)
        return made.remote()

    monkeypatch.setattr(actor_host, "create_instance_actor", create)
    return ActorHost(read_cluster)


def gang() -> InstanceSpec:
    return replace(spec(), gang=Gang(({"CPU": 1.0},), "PACK"))


def only(fake: FakeRay) -> FakeActor:
    (actor,) = fake.actors.values()
    return actor


async def test_secrets_are_no_arguments_of_an_actor(host: ActorHost, fake: FakeRay) -> None:
    await host.create(replace(spec(), secret=b"key", cache=("redis", {"password": "p"})))
    made = only(fake).options["spec"]
    assert (made.secret, made.cache) == (b"", None)
    assert actor_host.kept_cache in only(fake).options["given"]


async def test_an_instance_without_a_cache_reads_none(host: ActorHost, fake: FakeRay) -> None:
    await host.create(spec())
    assert actor_host.kept_cache not in only(fake).options["given"]


async def test_a_name_that_is_taken_is_said_as_it_is(host: ActorHost) -> None:
    await host.create(spec())
    with pytest.raises(ValueError, match="already taken"):
        await host.create(spec())


async def test_a_gang_whose_actor_cannot_be_made_keeps_no_bundles(
    host: ActorHost, fake: FakeRay
) -> None:
    fake.have(gang().name, Instance())
    with pytest.raises(ValueError, match="already taken"):
        await host.create(gang())
    assert not fake.waiting_groups()


async def test_a_gang_that_finds_no_room_waits_and_can_be_given_up(
    host: ActorHost, fake: FakeRay
) -> None:
    await host.create(gang())
    await host.create(replace(gang(), name="other/1#0@1"))
    assert fake.waiting_groups() == [f"manta:{gang().name}", "manta:other/1#0@1"]
    await host.release(gang())
    assert fake.waiting_groups() == ["manta:other/1#0@1"]


async def test_only_what_reserves_bundles_asks_for_their_release(
    host: ActorHost, fake: FakeRay
) -> None:
    fake.is_away = True
    await host.release(spec())
    with pytest.raises(ActorLostError, match="failed to connect"):
        await host.release(gang())


async def test_groups_of_instances_that_a_controller_does_not_find_are_removed(
    host: ActorHost, fake: FakeRay
) -> None:
    await host.create(gang())
    await host.create(replace(gang(), name="other/1#0@1"))
    await host.release_all_but({"other/1#0@1"})
    assert fake.waiting_groups() == ["manta:other/1#0@1"]


async def test_a_head_that_is_away_makes_no_actor(host: ActorHost, fake: FakeRay) -> None:
    fake.is_away = True
    with pytest.raises(ActorLostError, match="failed to connect"):
        await host.create(gang())


async def test_an_answer_is_that_of_the_method_and_an_error_is_that_of_the_actor(
    host: ActorHost,
) -> None:
    handle = await host.create(spec())
    assert await host.call(handle, "progress", 1, 2) == (1, 2)
    with pytest.raises(InvalidArgumentError, match="no such file"):
        await host.call(handle, "describe")


@pytest.mark.parametrize(
    ("theirs", "ours"),
    [
        (ActorDiedError(), ActorLostError),
        (ActorUnavailableError("away", bytes(16)), ActorUnreachableError),
        (RuntimeEnvSetupError("no such package"), EnvironmentFailedError),
    ],
)
async def test_an_actor_that_is_lost_is_told_from_one_whose_fate_is_not_known(
    host: ActorHost, fake: FakeRay, theirs: RayError, ours: type[ActorLostError]
) -> None:
    handle = await host.create(spec())
    fake.failures["progress"] = [theirs]
    with pytest.raises(ActorLostError) as caught:
        await host.call(handle, "progress")
    assert type(caught.value) is ours


async def test_a_call_in_flight_when_the_actor_is_killed_is_lost(
    host: ActorHost, fake: FakeRay
) -> None:
    handle = await host.create(spec())
    fake.held = {"progress"}
    waiting = handle.actor.progress.remote()
    await host.kill(handle)
    with pytest.raises(ActorDiedError):
        await waiting
    with pytest.raises(ActorLostError):
        await host.call(handle, "progress")


async def test_a_killed_actor_leaves_its_name_to_the_next_and_may_be_killed_again(
    host: ActorHost,
) -> None:
    handle = await host.create(spec())
    await host.kill(handle)
    assert await host.look_up(spec().name) is None
    await host.create(spec())
    await host.kill(handle)
    assert await host.look_up(spec().name) is not None


async def test_an_actor_that_is_looked_up_is_called_as_one_that_was_made(host: ActorHost) -> None:
    made = await host.create(spec())
    found = await host.look_up(spec().name)
    assert found is not None
    assert await host.call(found, "progress", 3) == (3,)
    assert found.title == made.title


async def test_restarts_are_counted_until_the_actor_is_gone(host: ActorHost, fake: FakeRay) -> None:
    handle = await host.create(spec())
    assert await host.restarts(handle) == 0
    only(fake).restart()
    only(fake).restart()
    assert await host.restarts(handle) == 2
    fake.is_away = True
    with pytest.raises(ActorLostError, match="failed to connect"):
        await host.restarts(handle)


async def test_names_are_those_of_this_server(host: ActorHost, fake: FakeRay) -> None:
    await host.create(spec())
    fake.have("SERVE_CONTROLLER_ACTOR", Instance(), namespace="serve")
    fake.have("model-controller", Instance(), namespace=NAMESPACE)
    assert await host.names() == [spec().name, "model-controller"]


async def test_a_node_that_has_left_is_no_resource(host: ActorHost, fake: FakeRay) -> None:
    fake.add_node("bb" * 28, {"CPU": 2.0})
    assert len((await host.resources()).nodes) == 2
    fake.remove_node("bb" * 28)
    assert [node.node_id for node in (await host.resources()).nodes] == [fake.node_id]
