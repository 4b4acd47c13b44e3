# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""How the arbiter of a node is started and ended, and when its process ends itself."""

import asyncio
import secrets
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from ray.exceptions import ActorDiedError

from backends.api.errors import UnavailableError
from cluster.actors import arbiter, calls
from cluster.actors.arbiter import (
    NAME_PREFIX,
    ResourceArbiterActor,
    end_arbiters,
    start_arbiter,
)
from deployments.rate_limiter.arbiter import Limit
from deployments.rate_limiter.server import ArbiterServer
from deployments.reactor.reactor import Reactor
from tests.support.fake_ray import FakeRay

LIMITS = (Limit("slots", 2),)


class Ready:
    """An arbiter that serves at once, and notes what it was made with."""

    def __init__(self, *arguments: object) -> None:
        self.arguments = arguments

    async def ready(self) -> None:
        """Return when claims can join."""


@pytest.fixture
def starts(fake: FakeRay, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> FakeRay:
    """A node on which arbiters can be started."""
    monkeypatch.setattr(arbiter, "ResourceArbiterActor", Ready)
    monkeypatch.setattr(calls, "time", fake)
    monkeypatch.setattr(arbiter, "_session_folder", lambda: tmp_path)
    return fake


def test_instances_of_a_node_share_the_arbiter_that_the_first_has_started(starts: FakeRay) -> None:
    assert start_arbiter(LIMITS) == start_arbiter(list(LIMITS))
    ((name, actor),) = starts.actors.items()
    assert name.startswith(f"{NAME_PREFIX}{starts.node_id}/")
    assert actor.made.arguments[:2] == (start_arbiter(LIMITS), LIMITS)


def test_an_arbiter_outlives_the_instance_that_has_started_it_and_is_on_its_node(
    starts: FakeRay,
) -> None:
    start_arbiter(LIMITS)
    (actor,) = starts.actors.values()
    assert (actor.options["lifetime"], actor.options["max_restarts"]) == ("detached", -1)
    strategy = actor.options["scheduling_strategy"]
    assert (strategy.node_id, strategy.soft) == (starts.node_id, False)


def test_other_limits_are_those_of_another_arbiter(starts: FakeRay) -> None:
    assert start_arbiter(LIMITS) != start_arbiter((Limit("slots", 3),))
    assert len({actor.made.arguments[2] for actor in starts.actors.values()}) == 2


def test_an_arbiter_of_an_ending_server_is_waited_out(starts: FakeRay) -> None:
    starts.failures["ready"] = [ActorDiedError(), ActorDiedError()]
    path = start_arbiter(LIMITS)
    assert path.startswith(f"\0manta/arbiter/{starts.node_id}/")
    assert 0 < starts.now_s < 1


def test_a_name_that_is_taken_meanwhile_is_asked_for_again(
    starts: FakeRay, monkeypatch: pytest.MonkeyPatch
) -> None:
    def take(*arguments: Any) -> Any:
        monkeypatch.setattr(starts, "start", start)
        raise ValueError("the name is taken")

    start = starts.start
    monkeypatch.setattr(starts, "start", take)
    assert start_arbiter(LIMITS)


def test_an_arbiter_that_dies_whenever_it_is_started_is_unavailable_in_bounds(
    starts: FakeRay,
) -> None:
    starts.failures["ready"] = [ActorDiedError() for _ in range(5000)]
    with pytest.raises(UnavailableError, match=f"node {starts.node_id} does not start"):
        start_arbiter(LIMITS)
    assert 30 < starts.now_s < 120


def test_an_arbiter_that_never_serves_is_unavailable(starts: FakeRay) -> None:
    starts.held = {"ready"}
    with pytest.raises(UnavailableError, match="does not start: TimeoutError"):
        start_arbiter(LIMITS)


def test_a_head_that_is_away_while_an_arbiter_starts_is_waited_for(starts: FakeRay) -> None:
    starts.is_away = True
    starts.meanwhile = [lambda: None, lambda: setattr(starts, "is_away", False)]
    assert start_arbiter(LIMITS)


def test_the_arbiters_of_all_nodes_end_and_no_other_actor(fake: FakeRay) -> None:
    for name in (f"{NAME_PREFIX}aa11/0", f"{NAME_PREFIX}bb22/0", "model-controller"):
        fake.have(name, Ready())
    end_arbiters()
    assert list(fake.actors) == ["model-controller"]


def test_an_arbiter_that_has_ended_by_itself_keeps_no_other_alive(
    fake: FakeRay, monkeypatch: pytest.MonkeyPatch
) -> None:
    listed = [f"{NAME_PREFIX}aa11/0", f"{NAME_PREFIX}bb22/0"]
    monkeypatch.setattr(calls, "actor_names", lambda: listed)
    fake.have(listed[1], Ready())
    end_arbiters()
    assert not fake.actors


class Process:
    """The process of an arbiter, of which the thread that serves can be ended."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.path = f"\0manta-test/{secrets.token_hex(8)}"
        self.roster_path = folder / "roster"
        self.exited = threading.Event()
        self.codes: list[int] = []
        self.reactor: Reactor | None = None
        self.ends = False
        self.opened: list[ArbiterServer] = []
        process = self

        class Turned(Reactor):
            def turn(self, timeout_s: float | None = None) -> None:
                process.reactor = self
                if process.ends:
                    raise MemoryError("no more")
                super().turn(timeout_s)

        def serve(*arguments: Any) -> ArbiterServer:
            self.opened.append(ArbiterServer(*arguments))
            return self.opened[-1]

        monkeypatch.setattr(arbiter, "Reactor", Turned)
        monkeypatch.setattr(arbiter, "ArbiterServer", serve)
        monkeypatch.setattr(arbiter, "os", SimpleNamespace(_exit=self._exit))

    def start(self) -> ResourceArbiterActor:
        return ResourceArbiterActor(self.path, LIMITS, self.roster_path)

    def crash(self) -> None:
        """Have the thread that serves meet an error that nobody expects."""
        self.ends = True
        if self.reactor is not None:
            self.reactor.interrupt()

    def _exit(self, code: int) -> None:
        self.codes.append(code)
        self.exited.set()


@pytest.fixture
def process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Process]:
    made = Process(tmp_path, monkeypatch)
    yield made
    made.crash()
    assert made.exited.wait(10)
    for server in made.opened:
        server.close()
    if made.reactor is not None:
        made.reactor.close()


async def within(wait: Callable[[], Any]) -> None:
    async with asyncio.timeout(10):
        await wait()


async def test_an_arbiter_is_ready_once_it_listens(process: Process) -> None:
    made = process.start()
    await within(made.ready)
    with pytest.raises(OSError, match="in use"):
        ArbiterServer(Reactor(), process.path, *_other(process.roster_path))


async def test_an_arbiter_waits_until_the_one_before_it_has_let_go_of_the_socket(
    process: Process, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    first_reactor = Reactor()
    first = ArbiterServer(first_reactor, process.path, *_other(tmp_path / "first"))

    def wait(delay_s: float) -> None:
        first.close()

    monkeypatch.setattr(arbiter, "time", SimpleNamespace(sleep=wait))
    await within(process.start().ready)
    first_reactor.close()


async def test_an_arbiter_whose_thread_fails_ends_its_process_so_that_ray_starts_another(
    process: Process,
) -> None:
    made = process.start()
    await within(made.ready)
    process.crash()
    assert process.exited.wait(10)
    assert process.codes == [1]


async def test_an_arbiter_that_nobody_has_joined_is_unused_for_ever_longer(
    process: Process, monkeypatch: pytest.MonkeyPatch
) -> None:
    now_s = [100.0]
    made = process.start()
    await within(made.ready)
    monkeypatch.setattr(arbiter, "time", SimpleNamespace(monotonic=lambda: now_s[0]))
    assert await made.unused_s(False) == 0.0
    now_s[0] += 7.0
    assert await made.unused_s(False) == 7.0


async def test_an_arbiter_that_has_members_counts_anew_once_they_have_left(
    process: Process, monkeypatch: pytest.MonkeyPatch
) -> None:
    now_s, members = [100.0], [0]
    made = process.start()
    await within(made.ready)
    monkeypatch.setattr(arbiter, "time", SimpleNamespace(monotonic=lambda: now_s[0]))
    monkeypatch.setattr(ArbiterServer, "member_count", property(lambda self: members[0]))
    await made.unused_s(False)
    members[0], now_s[0] = 1, 107.0
    assert await made.unused_s(False) == 0.0
    members[0], now_s[0] = 0, 110.0
    assert await made.unused_s(False) == 0.0
    now_s[0] = 111.0
    assert await made.unused_s(False) == 1.0


def _other(roster_path: Path) -> tuple[Any, Any]:
    return arbiter.ResourceArbiter(LIMITS, is_open=False), arbiter.Roster(roster_path)
