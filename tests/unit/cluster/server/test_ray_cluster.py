# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""How a driver finds its controller."""

from types import SimpleNamespace
from typing import Any

import pytest
from ray.exceptions import ActorDiedError, ActorUnavailableError

from backends.api.errors import UnavailableError
from cluster.controller.ownership import Owner
from cluster.server import ray_cluster
from cluster.server.ray_cluster import Controller


def test_a_driver_beats_to_the_controller_that_an_upgrade_has_put_in_the_place_of_its_own():
    def actor(name: str) -> Any:
        return SimpleNamespace(
            heartbeat=SimpleNamespace(remote=lambda token: heard.append((name, token)))
        )

    heard: list[tuple[str, str]] = []
    found = [actor("new"), None]
    controller = Controller(actor("old"), "mine", lambda: found.pop(0))
    controller.heartbeat()
    # While it restarts there may be none.
    controller.heartbeat()
    assert heard == [("new", "mine"), ("new", "mine")]


class References:
    """Ray's calls on references that are functions, which make the answer."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now_s = 0.0
        monkeypatch.setattr(ray_cluster.ray, "get", lambda reference: reference())
        monkeypatch.setattr(ray_cluster.ray, "wait", lambda references, timeout: (references, []))
        monkeypatch.setattr(ray_cluster, "time", self)

    def monotonic(self) -> float:
        return self.now_s

    def sleep(self, delay_s: float) -> None:
        self.now_s += delay_s


def controller_whose_calls(*answers: Any) -> Controller:
    """Return a controller that answers each call so, and the last way from then on."""
    left = list(answers)

    def answer() -> Any:
        value = left.pop(0) if len(left) > 1 else left[0]
        if isinstance(value, Exception):
            raise value
        return value

    method = SimpleNamespace(remote=lambda: answer)
    actor = SimpleNamespace(start=method, status=method, process_settings=method)
    return Controller(actor, "mine", lambda: actor)


@pytest.mark.parametrize("call", ["wait_loaded", "status", "process_settings"])
def test_a_controller_that_dies_while_the_server_starts_is_asked_again(call, monkeypatch):
    References(monkeypatch)
    dead, away = ActorDiedError(), ActorUnavailableError("is restarting", bytes(16))
    controller = controller_whose_calls(dead, away, away, ["rows"])
    controller.begin_loading()
    arguments = [lambda: None] if call == "wait_loaded" else []
    assert getattr(controller, call)(*arguments) == ["rows"]


def test_a_controller_that_dies_again_and_again_ends_the_start_with_its_name(monkeypatch):
    time = References(monkeypatch)
    controller = controller_whose_calls(ActorDiedError())
    controller.begin_loading()
    with pytest.raises(UnavailableError, match="log of actor model-controller"):
        controller.wait_loaded(lambda: None)
    assert 60 < time.now_s < 300


def test_a_start_whose_controller_dies_can_be_interrupted(monkeypatch):
    References(monkeypatch)
    controller = controller_whose_calls(ActorDiedError())
    controller.begin_loading()

    def interrupt() -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        controller.wait_loaded(interrupt)


def test_no_other_controller_is_made_once_the_server_ends(monkeypatch):
    made: list[str] = []
    owner = SimpleNamespace(remote=lambda: lambda: (Owner("another"), 0.0))
    actor = SimpleNamespace(owner=owner)
    References(monkeypatch)
    controller = Controller(actor, "mine", lambda: actor, lambda: made.append("made"))
    controller.make_another()
    controller.shutdown(1.0)
    controller.make_another()
    assert made == ["made"]


def test_a_heartbeat_that_fails_is_followed_by_the_next_one():
    def find() -> Any:
        raise OSError("the GCS is away")

    Controller(SimpleNamespace(), "mine", find).heartbeat()
