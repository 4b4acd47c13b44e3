# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""What a controller is started with in the place of another, without Ray."""

from collections.abc import Callable
from typing import Any

import pytest
from ray.exceptions import ActorDiedError

from cluster.controller.ownership import Owner
from cluster.options.parsing import from_mapping
from cluster.release import own_release
from cluster.server import start_controller
from cluster.server.start_controller import ToldRelease, get_or_create_controller

OPTIONS = from_mapping({"model_repository": "/m"})
OTHERS = from_mapping({"model_repository": "/m", "log_verbose": 1})
APPLICATION = Owner("manta", "the application 'manta' on Serve")


class Method:
    """A method of an actor; a call's reference is what makes its answer."""

    def __init__(self, answer: Callable[[], Any]) -> None:
        self._answer = answer

    def remote(self) -> Callable[[], Any]:
        return self._answer


class Running:
    """A controller that runs, as its handle shows it; notes what happens to it."""

    def __init__(self, owner: Owner) -> None:
        self.log: list[str] = []
        self.server_options = Method(lambda: OPTIONS)
        self.owner = Method(lambda: (owner, 0.0))
        self.hand_over = Method(lambda: self.log.append("hand over"))


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """Whether each controller that was started goes on where another has ended."""
    resumed: list[bool] = []

    def create(*_: Any, resumes: bool = False) -> str:
        resumed.append(resumes)
        return "the new one"

    monkeypatch.setattr(start_controller, "_create", create)
    monkeypatch.setattr(start_controller.ray, "get", lambda reference: reference())
    monkeypatch.setattr(start_controller, "told_release", lambda _: ToldRelease(str(own_release())))
    monkeypatch.setattr(start_controller, "kill_controller", lambda h: h.log.append("kill"))
    monkeypatch.setattr(start_controller.Rows, "delete", lambda *_: None)
    return resumed


def run(monkeypatch: pytest.MonkeyPatch, handle: Any, owner: Owner) -> Any:
    def find(*_: Any, **__: Any) -> Any:
        if handle is None:
            raise ValueError
        return handle

    monkeypatch.setattr(start_controller.ray, "get_actor", find)
    return get_or_create_controller(OTHERS, owner)


def test_other_options_of_the_same_owner_begin_nothing_anew(started, monkeypatch):
    handle = Running(APPLICATION)
    assert run(monkeypatch, handle, APPLICATION) == "the new one"
    assert started == [True]
    # All that waits to be written is written first.
    assert handle.log == ["hand over", "kill"]


def test_another_owner_begins_anew(started, monkeypatch):
    run(monkeypatch, handle := Running(Owner("other")), APPLICATION)
    assert (started, handle.log) == ([False], ["kill"])


def test_a_first_controller_begins_anew(started, monkeypatch):
    run(monkeypatch, None, APPLICATION)
    assert started == [False]


def test_a_controller_that_dies_while_it_hands_over_is_gone_on_from_all_the_same(
    started, monkeypatch
):
    handle = Running(APPLICATION)

    def dies() -> None:
        raise ActorDiedError

    handle.hand_over = Method(dies)
    run(monkeypatch, handle, APPLICATION)
    assert started == [True]
