# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""A cluster carries one server: who gets it, who is refused, who is ended."""

from dataclasses import dataclass
from typing import Any

import pytest
from ray.exceptions import ActorDiedError, GetTimeoutError

from backends.api.errors import AlreadyExistsError, UnavailableError
from cluster.controller.ownership import LEASE_S, SILENCE_S, Owner
from cluster.options.parsing import from_mapping
from cluster.server.claim import claim, claim_again, require_unclaimed

OPTIONS = from_mapping({"model_repository": "/m"})
DRIVER = Owner("driver", "process 1 on h", lease_s=LEASE_S)
OTHER = Owner("other", "process 2 on h", lease_s=LEASE_S)
HEARTBEAT_S = 2.0


@dataclass
class Controller:
    owner: Owner
    heard_s: float = 0.0
    beats: bool = True
    hangs: bool = False


class Actors:
    """A cluster with at most one controller, and a clock that sleeping moves."""

    def __init__(self, controller: Controller | None = None) -> None:
        self.controller = controller
        self.now_s = 0.0
        self.calls: list[str] = []

    def find(self) -> Controller | None:
        return self.controller

    def ask(self, handle: Controller, method: str, timeout_s: float | None) -> Any:
        self.calls.append(method)
        if handle is not self.controller:
            raise ActorDiedError
        if handle.hangs:
            raise GetTimeoutError
        if method == "end":
            self.controller = None
            raise ActorDiedError
        if method == "heartbeat":
            return None
        if handle.beats:
            handle.heard_s = self.now_s - self.now_s % HEARTBEAT_S
        return handle.owner, self.now_s - handle.heard_s

    def create(self, options: Any, owner: Owner) -> Controller:
        self.controller = self.controller or Controller(owner, self.now_s)
        return self.controller

    def wait_gone(self, timeout_s: float) -> None:
        self.calls.append("wait gone")

    def sleep(self, delay_s: float) -> None:
        self.now_s += delay_s


def test_a_cluster_without_a_server_is_free():
    actors = Actors()
    require_unclaimed(actors)
    assert claim(OPTIONS, DRIVER, actors).owner is DRIVER


def test_a_server_whose_owner_beats_refuses_a_second_with_its_name():
    actors = Actors(Controller(OTHER))
    actors.now_s = 1.0
    with pytest.raises(AlreadyExistsError, match="started by process 2 on h"):
        require_unclaimed(actors)
    assert actors.now_s <= 1.0 + HEARTBEAT_S + 0.1
    assert "end" not in actors.calls


def test_a_server_whose_owner_is_silent_is_ended_by_who_comes_next():
    actors = Actors(Controller(OTHER, beats=False))
    require_unclaimed(actors)
    assert actors.now_s > SILENCE_S
    assert actors.calls[-2:] == ["end", "wait gone"]
    assert claim(OPTIONS, DRIVER, actors).owner is DRIVER


def test_a_server_that_lives_for_ever_refuses_a_second_at_once():
    actors = Actors(Controller(Owner("x", "somebody"), beats=False))
    with pytest.raises(AlreadyExistsError):
        require_unclaimed(actors)
    assert actors.now_s == 0


@pytest.mark.parametrize("is_deployed", [True, False])
def test_an_application_on_serve_owns_its_server_while_it_is_there(is_deployed):
    actors = Actors(Controller(Owner("serve", "an application", is_deployed=lambda: is_deployed)))
    if is_deployed:
        with pytest.raises(AlreadyExistsError, match="an application"):
            require_unclaimed(actors)
    else:
        require_unclaimed(actors)
        assert actors.controller is None


def test_a_server_that_hangs_is_said_with_its_actor():
    with pytest.raises(UnavailableError, match="actor model-controller"):
        require_unclaimed(Actors(Controller(OTHER, hangs=True)))


def test_of_two_who_claim_at_once_the_second_is_refused():
    actors = Actors()
    claim(OPTIONS, OTHER, actors)
    with pytest.raises(AlreadyExistsError, match="process 2"):
        claim(OPTIONS, DRIVER, actors)


def test_an_owner_claims_its_cluster_again_and_is_heard():
    actors = Actors(Controller(DRIVER))
    assert claim_again(OPTIONS, DRIVER, actors).owner is DRIVER
    assert actors.calls[-1] == "heartbeat"


def test_another_owner_cannot_claim_again():
    with pytest.raises(AlreadyExistsError):
        claim_again(OPTIONS, DRIVER, Actors(Controller(OTHER)))
