# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""How a server starts, joins, and leaves a Ray cluster that may be gone."""

import contextlib
import logging
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from ray.exceptions import ActorDiedError
from ray.serve.exceptions import RayServeException

from backends.api.errors import InvalidArgumentError, TritonError, UnavailableError
from cluster.actors.controller_client import CONTROLLER_NAME
from cluster.controller.durable_state import STATE_PREFIX
from cluster.controller.ownership import Owner
from cluster.options.parsing import from_mapping
from cluster.server import ray_cluster, start_controller
from cluster.server.ray_cluster import Controller, RayCluster
from cluster.server.ray_environment import WITHOUT_DASHBOARD
from tests.support.fake_ray import FakeRay

OPTIONS = from_mapping({"model_repository": "/m"})
MINE = Owner("mine")


class Ended:
    """The model controller, which notes that it is to end."""

    def __init__(self, owner: Owner = MINE) -> None:
        self.of = owner
        self.drained_s: list[float] = []

    def owner(self) -> tuple[Owner, float]:
        return self.of, 0.0

    def shutdown(self, timeout_s: float) -> None:
        self.drained_s.append(timeout_s)

    def start(self) -> list[Any]:
        raise InvalidArgumentError("no model repository")


class Beside:
    """What runs beside an embedded Ray; all write into one log."""

    def __init__(self, name: str, log: list[str]) -> None:
        self.name = name
        self.log = log
        self.has_ended = False

    def look(self) -> bool:
        return self.has_ended

    @contextlib.contextmanager
    def in_front_of_workers(self) -> Iterator[None]:
        self.log.append(f"{self.name} before")
        yield
        self.log.append(f"{self.name} begun")

    def __getattr__(self, name: str) -> Any:
        return lambda: self.log.append(f"{self.name} {name}")


class Application:
    """Serve, as the cluster takes the ingress off it."""

    def __init__(self, fake: FakeRay) -> None:
        self.fake = fake
        self.log: list[Any] = []
        self.error: Exception | None = None
        self.takes_s = 0.0
        self.runs = False

    def is_running(self) -> bool:
        return self.runs

    def start_serve(self) -> None:
        self.log.append("start")

    def deploy(self, application: Any, check: Any) -> None:
        self.log.append(application)

    def delete(self, *, and_serve: bool, timeout_s: float) -> None:
        self.log.append(and_serve)
        self.fake.now_s += self.takes_s
        if self.error is not None:
            raise self.error


@pytest.fixture
def serve(fake: FakeRay, monkeypatch: pytest.MonkeyPatch) -> Application:
    made = Application(fake)
    monkeypatch.setattr(ray_cluster, "serve_application", made)
    monkeypatch.setattr(ray_cluster, "application", lambda options, follow_nodes: follow_nodes)
    monkeypatch.setattr(ray_cluster, "time", fake)
    monkeypatch.setattr(start_controller, "time", fake)
    return made


@pytest.fixture
def joined(fake: FakeRay, serve: Application) -> RayCluster:
    """A cluster that this process has joined, with the ingress on it."""
    cluster = RayCluster({})
    cluster.join("auto")
    cluster.deploy(OPTIONS, lambda: None)
    return cluster


def test_a_ray_that_is_not_there_is_unavailable_and_is_not_left(fake: FakeRay) -> None:
    fake.is_away = True
    cluster = RayCluster({})
    with pytest.raises(UnavailableError, match=r"cannot join .* 'auto': Could not find any"):
        cluster.join("auto")
    fake.is_initialized = True
    cluster.leave()
    assert fake.is_initialized


def test_a_ray_that_asks_for_a_token_says_how_to_give_one(
    fake: FakeRay, monkeypatch: pytest.MonkeyPatch
) -> None:
    def init(**_arguments: Any) -> None:
        raise ConnectionError("cannot connect") from RuntimeError("InvalidAuthToken")

    monkeypatch.setattr(ray_cluster.ray, "init", init)
    with pytest.raises(UnavailableError, match="RAY_AUTH_MODE=token"):
        RayCluster({}).join("h:6379")


def test_a_process_that_is_part_of_a_cluster_joins_no_other_and_stays(fake: FakeRay) -> None:
    fake.is_initialized = True
    cluster = RayCluster({})
    cluster.join("auto")
    cluster.leave()
    assert (fake.joined, fake.is_initialized) == ([], True)


def test_a_cluster_that_was_joined_is_left(fake: FakeRay, joined: RayCluster) -> None:
    joined.leave()
    assert not fake.is_initialized


@pytest.fixture
def beside(fake: FakeRay, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What is done with what runs beside an embedded Ray."""
    log: list[str] = []
    monkeypatch.setattr(ray_cluster, "start_reaper", lambda: Beside("reaper", log))
    monkeypatch.setattr(ray_cluster, "logs_folder", lambda: Path("/logs"))
    monkeypatch.setattr(
        ray_cluster, "WorkerOutput", lambda folder, manner: Beside(f"{folder}", log)
    )

    def noting(name: str, call: Any) -> Any:
        return lambda **given: (call(**given), log.append(name))

    for name in ("init", "shutdown"):
        monkeypatch.setattr(ray_cluster.ray, name, noting(name, getattr(fake, name)))
    return log


@pytest.mark.parametrize("dashboard", [True, False])
def test_a_ray_of_ones_own_ends_with_what_runs_beside_it(
    fake: FakeRay, beside: list[str], dashboard: bool
) -> None:
    cluster = RayCluster(environment := {})
    cluster.start(from_mapping({"model_repository": "/m", "dashboard": dashboard}))
    assert [each["include_dashboard"] for each in fake.joined] == [dashboard]
    assert (WITHOUT_DASHBOARD.items() <= environment.items()) is not dashboard
    cluster.leave()
    # Without a dashboard the raylet itself has one that stands in for the dashboard's agent.
    reaper = ["reaper kill", "reaper wait"] if dashboard else []
    assert beside == ["init", "shutdown", "/logs stop", *reaper]
    assert not cluster.has_restarted_fork_server()


@pytest.mark.parametrize("verbose", [True, False])
def test_what_ray_says_comes_with_verbose_alone(
    fake: FakeRay, beside: list[str], verbose: bool
) -> None:
    RayCluster({}).start(from_mapping({"model_repository": "/m", "verbose": verbose}))
    (options,) = fake.joined
    assert options["log_to_driver"] is verbose
    assert (options["logging_level"] == logging.INFO) is verbose


def test_workers_are_forked_from_the_start_of_ray_and_the_fork_server_ends_after_it(
    beside: list[str],
) -> None:
    forks: Any = Beside("forks", beside)
    cluster = RayCluster({}, forks)
    cluster.start(from_mapping({"model_repository": "/m"}))
    assert beside == ["forks before", "init", "forks begun"]
    cluster.leave()
    assert beside[3:] == ["shutdown", "/logs stop", "forks end"]


@pytest.mark.parametrize("has_ended", [True, False])
def test_a_fork_server_that_has_ended_is_looked_after(beside: list[str], has_ended: bool) -> None:
    forks: Any = Beside("forks", beside)
    forks.has_ended = has_ended
    assert RayCluster({}, forks).has_restarted_fork_server() is has_ended


@pytest.mark.parametrize("is_lost", [True, False])
def test_a_ray_of_ones_own_that_has_lost_its_raylet_is_not_drained(
    beside: list[str], serve: Application, monkeypatch: pytest.MonkeyPatch, is_lost: bool
) -> None:
    monkeypatch.setattr(ray_cluster, "has_lost_raylet", lambda: is_lost)
    cluster = RayCluster({})
    assert not cluster.has_lost_raylet()
    cluster.start(OPTIONS)
    cluster.deploy(OPTIONS, lambda: None)
    assert cluster.has_lost_raylet() is is_lost
    serve.log.clear()
    controller: Any = Beside("controller", beside)
    controller.shutdown = lambda timeout_s: None
    cluster.end(controller, 5.0)
    assert serve.log == ([] if is_lost else [False])


def test_serve_is_ended_only_by_the_server_that_has_started_it(
    fake: FakeRay, serve: Application, joined: RayCluster
) -> None:
    assert joined.starts_serve
    serve.runs = True
    joined.look_for_serve()
    assert not joined.starts_serve


def test_the_ingress_ends_first_and_the_controller_gets_the_time_that_is_left(
    fake: FakeRay, serve: Application, joined: RayCluster
) -> None:
    actor = fake.have(CONTROLLER_NAME, made := Ended())
    serve.takes_s = 12.0
    fake.meanwhile = [actor.die]
    joined.end(Controller(start_controller.find_controller(), "mine"), 30.0)
    assert serve.log == ["start", True, True]
    assert made.drained_s == [18.0]


def test_a_controller_is_asked_to_end_also_when_the_time_is_over(
    fake: FakeRay, serve: Application, joined: RayCluster
) -> None:
    actor = fake.have(CONTROLLER_NAME, made := Ended())
    serve.takes_s = 60.0
    fake.meanwhile = [actor.die]
    joined.end(Controller(start_controller.find_controller(), "mine"), 30.0)
    assert made.drained_s == [1.0]


def test_a_controller_of_another_owner_is_not_ended(
    fake: FakeRay, serve: Application, joined: RayCluster
) -> None:
    fake.have(CONTROLLER_NAME, made := Ended(Owner("other")))
    joined.end(Controller(start_controller.find_controller(), "mine"), 30.0)
    assert not made.drained_s
    assert fake.now_s < 10


@pytest.mark.parametrize(
    "error", [ActorDiedError(), RayServeException("gone"), TimeoutError("replicas do not end")]
)
def test_an_ingress_that_cannot_be_drained_is_logged_and_the_end_goes_on(
    fake: FakeRay,
    serve: Application,
    joined: RayCluster,
    caplog: pytest.LogCaptureFixture,
    error: Exception,
) -> None:
    fake.have(CONTROLLER_NAME, Ended())
    serve.error = error
    joined.end(Controller(start_controller.find_controller(), "mine"), 30.0)
    assert "drain was cut short" in caplog.text
    joined.leave()
    assert not fake.is_initialized


def test_a_controller_that_dies_while_it_drains_is_logged(
    fake: FakeRay, serve: Application, joined: RayCluster, caplog: pytest.LogCaptureFixture
) -> None:
    actor = fake.have(CONTROLLER_NAME, Ended())
    fake.held = {"shutdown"}
    fake.meanwhile = [actor.die]
    joined.end(Controller(start_controller.find_controller(), "mine"), 30.0)
    assert "drain was cut short" in caplog.text


def test_a_cluster_that_has_gone_is_not_drained(
    fake: FakeRay, serve: Application, joined: RayCluster
) -> None:
    fake.is_initialized = False
    joined.end(Controller(SimpleNamespace(), "mine"), 30.0)
    assert serve.log == ["start", True]


def test_the_owner_of_a_controller_that_is_lost_makes_another_that_goes_on(
    fake: FakeRay, joined: RayCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[Any] = []
    monkeypatch.setattr(ray_cluster, "claim", lambda options, owner: SimpleNamespace())
    monkeypatch.setattr(ray_cluster, "create_another", lambda *given: made.append(given))
    controller = joined.take(OPTIONS, MINE)
    assert (controller.is_there(), controller.is_left()) == (False, False)
    fake.rows[STATE_PREFIX + b"1"] = b"state"
    assert controller.is_left()
    controller.make_another()
    assert made == [(OPTIONS, MINE)]


def test_a_start_that_fails_in_the_controller_fails_with_its_error(
    fake: FakeRay, serve: Application
) -> None:
    fake.have(CONTROLLER_NAME, Ended())
    controller = Controller(start_controller.find_controller())
    fake.held = {"start"}
    controller.begin_loading()
    assert not controller.has_loaded()
    fake.actors[CONTROLLER_NAME].let_go()
    assert controller.has_loaded()
    with pytest.raises(TritonError, match="no model repository"):
        controller.wait_loaded(lambda: None)


def test_a_head_that_is_away_answers_nothing(fake: FakeRay, joined: RayCluster) -> None:
    joined.ask_head()
    fake.is_away = True
    with pytest.raises(Exception, match="failed to connect to GCS"):
        joined.ask_head()
