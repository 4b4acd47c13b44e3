# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""The ingress application on a Serve that fails, hangs, or is not there."""

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
from ray.exceptions import ActorDiedError, ActorUnavailableError, RayError
from ray.serve.exceptions import RayServeException

from backends.api.errors import InternalError
from cluster.server import serve_application
from cluster.server.serve_application import (
    APPLICATION_NAME,
    INGRESS_NAME,
    PER_NODE_RESOURCE,
    delete,
    deploy,
    has_run,
    ingress_build,
    is_being_replaced,
    is_deployed,
    is_node_draining,
    is_running,
    start_serve,
)
from tests.support.fake_ray import FakeRay

APPLICATION: Any = None
SERVE = "SERVE_CONTROLLER_ACTOR"


def state(status: str, message: str = "", *of_deployments: str) -> Any:
    deployments = {str(i): SimpleNamespace(message=m) for i, m in enumerate(of_deployments)}
    return SimpleNamespace(status=status, message=message, deployments=deployments)


class Serve:
    """What Serve's own calls show, one look after the other; the last stays."""

    def __init__(self) -> None:
        self.shown: list[dict[str, Any]] = [{}]
        self.log: list[Any] = []
        self.is_there = True

    def status(self) -> Any:
        found = self.shown.pop(0) if len(self.shown) > 1 else self.shown[0]
        return SimpleNamespace(applications=found)

    def RunTarget(self, application: Any, **named: Any) -> Any:  # noqa: N802 - Serve's name
        return SimpleNamespace(**named)

    def start(self, **options: Any) -> None:
        self.log.append(options)

    def run_many(self, targets: Any, **waits: bool) -> None:
        assert not any(waits.values())
        self.log.extend(SimpleNamespace(name=target.name) for target in targets)

    def delete(self, name: str, *, _blocking: bool) -> None:
        if not self.is_there:
            raise RayServeException("There is no Serve instance running on this Ray cluster.")
        self.log.append(("delete", name, _blocking))

    def shutdown(self) -> None:
        self.log.append("shutdown")

    def get_replica_context(self) -> Any:
        return SimpleNamespace(app_name="any name")


@pytest.fixture
def serve(fake: FakeRay, monkeypatch: pytest.MonkeyPatch) -> Serve:
    made = Serve()
    monkeypatch.setattr(serve_application, "serve", made)
    monkeypatch.setattr(serve_application, "time", fake)
    return made


class Details:
    """Serve's actor, and what it says of its applications."""

    def __init__(self, applications: dict[str, Any] | None = None, *names: str) -> None:
        self.applications = applications or {}
        self.names = names

    def get_serve_instance_details(self) -> dict[str, Any]:
        return {"applications": self.applications}

    def list_deployment_ids(self) -> list[Any]:
        return [SimpleNamespace(name=name) for name in self.names]


def no_check() -> None:
    """Nothing ends the wait."""


def test_serve_starts_without_proxies(serve: Serve) -> None:
    start_serve()
    assert serve.log == [{"proxy_location": "Disabled"}]


def test_a_deployment_is_waited_for_until_it_runs(serve: Serve, fake: FakeRay) -> None:
    serve.shown = [{}, {APPLICATION_NAME: state("DEPLOYING")}, {APPLICATION_NAME: state("RUNNING")}]
    checks: list[None] = []
    deploy(APPLICATION, lambda: checks.append(None))
    assert len(checks) == 2
    assert [each.name for each in serve.log] == [APPLICATION_NAME]


def test_replicas_that_cannot_start_end_the_wait_with_all_reasons(serve: Serve) -> None:
    serve.shown = [{APPLICATION_NAME: state("DEPLOY_FAILED", "failed", "", "no module named x")}]
    with pytest.raises(InternalError, match="the ingress cannot start: failed no module named x"):
        deploy(APPLICATION, no_check)


def test_a_wait_for_replicas_can_be_interrupted(serve: Serve) -> None:
    serve.shown = [{APPLICATION_NAME: state("DEPLOYING")}]

    def interrupt() -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        deploy(APPLICATION, interrupt)


def test_serve_ends_once_the_last_replica_has(serve: Serve, fake: FakeRay) -> None:
    serve.shown = [{APPLICATION_NAME: state("DELETING")}, {APPLICATION_NAME: state("DELETING")}, {}]
    delete(and_serve=True)
    assert serve.log == [("delete", APPLICATION_NAME, False), "shutdown"]
    assert fake.now_s > 0


@pytest.mark.parametrize(("and_serve", "others"), [(False, {}), (True, {"another": None})])
def test_a_serve_that_is_somebody_elses_or_has_other_applications_runs_on(
    serve: Serve, and_serve: bool, others: dict[str, Any]
) -> None:
    serve.shown = [others]
    delete(and_serve=and_serve)
    assert "shutdown" not in serve.log


def test_replicas_that_do_not_end_are_waited_for_in_bounds(serve: Serve, fake: FakeRay) -> None:
    serve.shown = [{APPLICATION_NAME: state("DELETING")}]
    with pytest.raises(TimeoutError, match="do not end"):
        delete(and_serve=True, timeout_s=30.0)
    assert 30.0 < fake.now_s < 31.0
    assert "shutdown" not in serve.log


def test_an_ingress_without_a_serve_is_deleted_already(serve: Serve) -> None:
    serve.is_there = False
    delete(and_serve=True)
    assert not serve.log


def test_without_serve_nothing_runs_and_nothing_is_deployed(fake: FakeRay) -> None:
    assert (is_running(), is_deployed(), ingress_build()) == (False, False, "")
    fake.have(SERVE, Details())
    assert is_running()


@pytest.mark.parametrize(("names", "expected"), [((INGRESS_NAME,), True), (("Other",), False)])
def test_an_ingress_is_deployed_under_whatever_name_its_application_has(
    fake: FakeRay, names: tuple[str, ...], expected: bool
) -> None:
    fake.have(SERVE, Details(None, *names))
    assert is_deployed() is expected


@pytest.mark.parametrize("ask", [is_deployed, ingress_build])
def test_a_serve_that_dies_or_hangs_is_an_error_and_not_an_absence(
    fake: FakeRay, ask: Callable[[], object]
) -> None:
    actor = fake.have(SERVE, Details(None, INGRESS_NAME))
    fake.held = {"list_deployment_ids", "get_serve_instance_details"}
    with pytest.raises(RayError):
        ask()
    assert 0 < fake.now_s < 60
    fake.meanwhile = [actor.die]
    with pytest.raises(ActorDiedError):
        ask()


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"resources": {"CPU": 1, f"{PER_NODE_RESOURCE}abc-1": 0.6}}, "abc-1"),
        ({"resources": {"CPU": 1}}, ""),
        ({"resources": None}, ""),
        (None, ""),
    ],
)
def test_the_build_of_the_replicas_is_read_from_what_they_need(
    fake: FakeRay, options: Any, expected: str
) -> None:
    deployment = {"deployment_config": {"ray_actor_options": options}}
    application = {"deployments": {INGRESS_NAME: deployment}}
    fake.have(SERVE, Details({APPLICATION_NAME: application}))
    assert ingress_build() == expected


def details(status: str, started_s: float = 11.0) -> Details:
    replicas = [{"state": "RUNNING", "start_time_s": started_s}]
    deployment = {"status": status, "replicas": replicas}
    application = {"last_deployed_time_s": 10.0, "deployments": {INGRESS_NAME: deployment}}
    return Details({"any name": application})


@pytest.mark.parametrize(("status", "expected"), [("UPDATING", True), ("HEALTHY", False)])
async def test_a_replica_learns_that_its_application_replaces_it(
    serve: Serve, fake: FakeRay, status: str, expected: bool
) -> None:
    fake.have(SERVE, details(status))
    assert await is_being_replaced() is expected
    assert await has_run()


async def test_an_application_that_is_being_deleted_replaces_nothing(
    serve: Serve, fake: FakeRay
) -> None:
    fake.have(SERVE, Details({"any name": {"last_deployed_time_s": 1.0}}))
    assert not await is_being_replaced()
    assert not await has_run()


async def test_a_replica_whose_serve_has_died_takes_itself_for_not_replaced(
    serve: Serve, fake: FakeRay
) -> None:
    assert not await is_being_replaced()
    fake.have(SERVE, details("UPDATING"))
    for error in (ActorDiedError(), ActorUnavailableError("away", bytes(16))):
        fake.failures["get_serve_instance_details"] = [error]
        assert not await is_being_replaced()
    fake.is_away = True
    assert not await has_run()


async def test_a_serve_that_does_not_answer_is_waited_for_in_bounds(
    serve: Serve, fake: FakeRay, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(serve_application, "_UPDATING_TIMEOUT_S", 0.01)
    fake.have(SERVE, details("UPDATING"))
    fake.held = {"get_serve_instance_details"}
    assert not await is_being_replaced()


async def test_a_replica_learns_that_its_node_drains(fake: FakeRay) -> None:
    assert not await is_node_draining()
    fake.draining = {"bb" * 28}
    assert not await is_node_draining()
    fake.draining = {fake.node_id}
    assert await is_node_draining()
    fake.is_away = True
    assert not await is_node_draining()
