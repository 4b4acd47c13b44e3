# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""The actor of a node that fetches files: how it is started, asked, and missed."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from ray.exceptions import ActorDiedError

from backends.api.errors import (
    InternalError,
    InvalidArgumentError,
    TritonError,
    UnavailableError,
)
from cluster.actors import calls
from cluster.actors.controller_client import CONTROLLER_NAME
from cluster.instances import node_files
from cluster.instances.node_files import (
    NAME_PREFIX,
    NodeFilesSettings,
    end_node_files,
    fetch_to_node,
    offer_files,
    prefetch_to_node,
    start_node_files,
    stop_prefetch,
    tell_agents,
    view_of_cache,
    withdraw_files,
)
from cluster.repository.agents.contracts import Action
from deployments.instance.spec import InstanceSpec
from deployments.model_files.contracts import AgentCall, ModelFile, ModelFiles
from deployments.model_files.loaded import location_of
from deployments.model_files.prefetch import CacheView, Outcome, Prefetched
from tests.support.fake_ray import FakeRay
from tests.support.fake_ray_actors import FakeActor
from tests.support.instance_host import spec

SETTINGS = NodeFilesSettings("", 0, "WARNING")
FILES = ModelFiles("s3://bucket/m", (ModelFile("1/weights", 7, "s"),))
OTHER_NODE = "bb" * 28


class Files:
    """The actor of a node; notes what it was asked, and fails as it was told."""

    def __init__(self, *arguments: object) -> None:
        self.arguments = arguments
        self.asked: list[tuple[object, ...]] = []
        self.error: Exception | None = None

    def ready(self) -> None:
        """Return when it can be asked."""

    def _note(self, *call: object) -> None:
        self.asked.append(call)
        if self.error is not None:
            raise self.error

    def ensure(self, wanted: object) -> None:
        self._note("ensure", wanted)

    def offer(self, location: str) -> str:
        self._note("offer", location)
        return "10.0.0.1:7000"

    def withdraw(self, all_but: object) -> None:
        self._note("withdraw", all_but)

    def tell_agents(self, key: str, action: Action) -> None:
        self._note("tell", key, action)

    def prefetch(self, *call: object) -> Prefetched:
        self._note("prefetch", *call)
        return Prefetched(Outcome.THERE, 5)

    def view(self, keys: object, fraction: float) -> CacheView:
        self._note("view", keys, fraction)
        return CacheView(("k",), 9)

    def stop_prefetch(self) -> None:
        self._note("stop")


class Earlier:
    """The actor of a release that cannot prefetch."""

    def ready(self) -> None:
        """Return when it can be asked."""


@pytest.fixture(autouse=True)
def _on_the_double(fake: FakeRay, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(node_files, "NodeFilesActor", Files)
    monkeypatch.setattr(node_files, "time", fake)
    monkeypatch.setattr(calls, "time", fake)


def of_node(fake: FakeRay, node_id: str | None = None) -> FakeActor:
    """Return the actor of a node, which an instance has started there."""
    node_id = node_id or fake.node_id
    return start_node_files(SETTINGS, node_id).fake


def with_files(**changes: Any) -> InstanceSpec:
    return replace(spec(), files=FILES, model_cache_directory="/cache", **changes)


def test_instances_of_a_node_share_one_actor_and_those_of_another_have_theirs(
    fake: FakeRay,
) -> None:
    assert of_node(fake) is of_node(fake) is not of_node(fake, OTHER_NODE)
    assert list(fake.actors) == [f"{NAME_PREFIX}{fake.node_id}", f"{NAME_PREFIX}{OTHER_NODE}"]


def test_the_actor_lies_on_its_node_and_outlives_the_instance_that_has_started_it(
    fake: FakeRay,
) -> None:
    options = of_node(fake, OTHER_NODE).options
    strategy = options["scheduling_strategy"]
    assert (strategy.node_id, strategy.soft) == (OTHER_NODE, False)
    assert (options["lifetime"], options["max_restarts"]) == ("detached", -1)


def test_an_actor_of_an_ending_server_is_waited_out(fake: FakeRay) -> None:
    fake.failures["ready"] = [ActorDiedError(), ActorDiedError()]
    of_node(fake)
    assert 0 < fake.now_s < 1


def test_an_actor_on_a_node_that_has_left_is_unavailable_in_bounds(fake: FakeRay) -> None:
    fake.failures["ready"] = [ActorDiedError() for _ in range(5000)]
    with pytest.raises(UnavailableError, match=f"node {OTHER_NODE} does not start"):
        of_node(fake, OTHER_NODE)
    assert 30 < fake.now_s < 120


def test_a_head_that_is_away_while_the_actor_starts_is_waited_for(fake: FakeRay) -> None:
    fake.is_away = True
    fake.meanwhile = [lambda: None, lambda: setattr(fake, "is_away", False)]
    assert of_node(fake)


def test_an_actor_that_never_answers_is_unavailable(fake: FakeRay) -> None:
    fake.held = {"ready"}
    with pytest.raises(UnavailableError, match="does not start"):
        of_node(fake)


def test_an_instance_has_its_files_fetched_by_the_actor_of_its_own_node(fake: FakeRay) -> None:
    fetch_to_node(with_files())
    actor = fake.actors[f"{NAME_PREFIX}{fake.node_id}"]
    ((settings,), _) = actor.arguments
    assert settings.directory == "/cache"
    ((_, wanted),) = actor.made.asked
    assert (wanted.files, wanted.model_name, wanted.config_json) == (FILES, "m", "{}")


def test_agents_are_given_the_config_of_the_model(fake: FakeRay) -> None:
    files = replace(FILES, agents=(AgentCall("unpack"),))
    fetch_to_node(replace(spec(), files=files))
    ((_, wanted),) = of_node(fake).made.asked
    assert wanted.config_json != "{}"


def test_why_files_cannot_be_fetched_is_what_the_actor_says(fake: FakeRay) -> None:
    of_node(fake).made.error = InvalidArgumentError("an agent refuses")
    with pytest.raises(InvalidArgumentError, match="an agent refuses"):
        fetch_to_node(with_files())


def test_a_fault_of_the_actor_is_internal_and_names_it(fake: FakeRay) -> None:
    of_node(fake).made.error = KeyError("row")
    with pytest.raises(InternalError, match="KeyError: 'row'"):
        fetch_to_node(with_files())


def test_an_actor_that_dies_while_it_fetches_is_unavailable_and_says_for_which_model(
    fake: FakeRay,
) -> None:
    actor = of_node(fake)
    fake.held = {"ensure"}
    fake.meanwhile = [actor.die]
    with pytest.raises(UnavailableError, match=r"ended while it did so for model 'm'"):
        fetch_to_node(with_files())


def test_a_node_that_has_files_of_a_load_is_the_one_that_offers_them(fake: FakeRay) -> None:
    location = location_of(OTHER_NODE, "/tmp/load")
    assert offer_files(SETTINGS, location) == "10.0.0.1:7000"
    assert fake.actors[f"{NAME_PREFIX}{OTHER_NODE}"].made.asked == [("offer", location)]


def test_a_node_that_leaves_while_it_offers_is_unavailable(fake: FakeRay) -> None:
    location = location_of(OTHER_NODE, "/tmp/load")
    actor = of_node(fake, OTHER_NODE)
    fake.held = {"offer"}
    fake.meanwhile = [actor.die]
    with pytest.raises(UnavailableError, match=f"node {OTHER_NODE} ended .* with '/tmp/load'"):
        offer_files(SETTINGS, location)


@pytest.mark.parametrize(
    ("method", "tell", "noted"),
    [
        ("withdraw", lambda: withdraw_files({"kept"}), ("withdraw", ("kept",))),
        ("tell_agents", lambda: tell_agents("k", Action.LOAD), ("tell", "k", Action.LOAD)),
    ],
)
def test_a_node_that_dies_or_hangs_keeps_nothing_from_the_others(
    fake: FakeRay, method: str, tell: Callable[[], None], noted: tuple[object, ...]
) -> None:
    first, second = of_node(fake), of_node(fake, OTHER_NODE)
    fake.have(CONTROLLER_NAME, Files())
    fake.failures[method] = [ActorDiedError()]
    tell()
    assert (first.made.asked, second.made.asked) == ([], [noted])
    assert fake.actors[CONTROLLER_NAME].made.asked == []
    fake.held = {method}
    tell()
    # Of two that hang, the second costs no time of its own.
    assert 0 < fake.now_s <= 60


def test_agents_that_take_a_while_are_waited_for(fake: FakeRay) -> None:
    actor = of_node(fake)
    fake.held = {"tell_agents"}
    fake.meanwhile = [actor.let_go]
    tell_agents("k", Action.UNLOAD)
    assert actor.made.asked == [("tell", "k", Action.UNLOAD)]


def test_an_error_of_an_agent_is_no_error_of_the_controller(fake: FakeRay) -> None:
    of_node(fake).made.error = InvalidArgumentError("an agent fails")
    tell_agents("k", Action.LOAD)


def test_the_actors_of_all_nodes_end_and_no_others(
    fake: FakeRay, monkeypatch: pytest.MonkeyPatch
) -> None:
    of_node(fake)
    of_node(fake, OTHER_NODE)
    fake.have(CONTROLLER_NAME, Files())
    names = list(fake.actors)
    # One has ended by itself after it was listed.
    monkeypatch.setattr(calls, "actor_names", lambda: [f"{NAME_PREFIX}gone", *names])
    end_node_files()
    assert list(fake.actors) == [CONTROLLER_NAME]


async def test_a_prefetch_starts_the_actor_of_the_node(fake: FakeRay) -> None:
    assert await prefetch_to_node(SETTINGS, OTHER_NODE, "m", FILES, 0.5) == Prefetched(
        Outcome.THERE, 5
    )
    asked = fake.actors[f"{NAME_PREFIX}{OTHER_NODE}"].made.asked
    assert asked == [("prefetch", "m", FILES, 0.5)]


async def test_a_node_that_dies_while_it_prefetches_is_unavailable(fake: FakeRay) -> None:
    of_node(fake)
    fake.failures["prefetch"] = [ActorDiedError()]
    with pytest.raises(UnavailableError, match=r"does not fetch those of model 'm'"):
        await prefetch_to_node(SETTINGS, fake.node_id, "m", FILES, 0.5)


async def test_why_files_cannot_be_prefetched_is_what_the_actor_says(fake: FakeRay) -> None:
    of_node(fake).made.error = InvalidArgumentError("no such file")
    with pytest.raises(TritonError, match="no such file"):
        await prefetch_to_node(SETTINGS, fake.node_id, "m", FILES, 0.5)


async def test_an_actor_of_a_release_without_prefetches_is_said_to_do_none(fake: FakeRay) -> None:
    fake.have(f"{NAME_PREFIX}{fake.node_id}", Earlier())
    with pytest.raises(UnavailableError, match="no method prefetch"):
        await prefetch_to_node(SETTINGS, fake.node_id, "m", FILES, 0.5)
    assert await view_of_cache(fake.node_id, ["k"], 0.5) is None
    stop_prefetch([fake.node_id])


async def test_a_look_at_a_cache_starts_no_actor(fake: FakeRay) -> None:
    assert await view_of_cache(fake.node_id, ["k"], 0.5) is None
    stop_prefetch([fake.node_id])
    assert not fake.actors


async def test_a_cache_is_seen_by_its_actor_unless_that_has_died(fake: FakeRay) -> None:
    of_node(fake)
    assert await view_of_cache(fake.node_id, ["k"], 0.5) == CacheView(("k",), 9)
    fake.failures["view"] = [ActorDiedError()]
    assert await view_of_cache(fake.node_id, ["k"], 0.5) is None


async def test_a_head_that_is_away_tells_of_no_cache(fake: FakeRay) -> None:
    of_node(fake)
    fake.is_away = True
    assert await view_of_cache(fake.node_id, ["k"], 0.5) is None


def test_prefetches_stop_on_all_nodes_that_have_an_actor_and_none_is_waited_for(
    fake: FakeRay,
) -> None:
    actor = of_node(fake, OTHER_NODE)
    stop_prefetch(["gone", OTHER_NODE])
    assert actor.made.asked == [("stop",)]
    fake.held = {"stop_prefetch"}
    stop_prefetch([OTHER_NODE])
    assert (len(actor.waiting), fake.now_s) == (1, 0.0)
