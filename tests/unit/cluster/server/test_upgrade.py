# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""The order of an upgrade, and what stops it, without Ray."""

import json
from collections.abc import Mapping
from contextlib import nullcontext
from typing import Any

import pytest
from ray.exceptions import ActorDiedError

from backends.api.errors import NotFoundError, UnavailableError, UnsupportedError
from cluster.actors import connection
from cluster.controller.handover import Handover
from cluster.controller.ownership import LEASE_S, Owner
from cluster.options.parsing import from_mapping
from cluster.release import own_release
from cluster.server.code_place import find_code
from cluster.server.start_controller import ToldRelease
from cluster.server.upgrade import Standing, standing, upgrade
from cluster.server.upgrade_command import main, rendered
from deployments.contracts.protocols import told

OLD = ToldRelease("0.9+abc", told())
OPTIONS = from_mapping({"model_repository": "/m"})
DRIVER = Owner("1", "process 1 on h", LEASE_S)


def progress(phase: str = "current", done: int = 0, left: int = 0, **more: Any) -> dict[str, Any]:
    row = {"release": "r", "reason": "", "current": "", "instances": {}}
    return row | {"phase": phase, "done": done, "left": left} | more


class FakeServer:
    """A server of another release; notes what is asked of it, in order."""

    def __init__(self, theirs: ToldRelease = OLD, owner: Owner = DRIVER) -> None:
        self.log: list[str] = []
        self.said: list[str] = []
        self.theirs: ToldRelease | None = theirs
        self.owner = owner
        self.build = "abc-1"
        self.progress = [progress("renewing", 0, 2), progress("renewing", 1, 1), progress(done=2)]
        self.code_error: Exception | None = None
        self.options: Any = OPTIONS
        self.left: Handover | None = None

    def find(self) -> ToldRelease | None:
        return self.theirs

    def release_of(self, handle: ToldRelease) -> ToldRelease:
        return handle

    def left_behind(self) -> Handover | None:
        return self.left

    def ask(self, handle: ToldRelease, method: str) -> Any:
        answers = {"server_options": self.options, "owner": (self.owner, 0.0)}
        if method == "renewal":
            return self.progress.pop(0) if len(self.progress) > 1 else self.progress[0]
        if method == "renew":
            self.log.append("renew")
        return answers.get(method)

    def find_code(self) -> Mapping[str, Any]:
        self.log.append("find code")
        if self.code_error:
            raise self.code_error
        return {"py_executable": "/v/bin/python"}

    def replace(self, handle: Any, theirs: Any, options: Any, owner: Any, env: Any) -> ToldRelease:
        assert (options, owner, env) == (OPTIONS, self.owner, {"py_executable": "/v/bin/python"})
        self.log.append("replace")
        return ToldRelease(str(own_release()), told())

    def ingress_build(self) -> str:
        return self.build

    def deploy(self, options: Any, owner: Owner, env: Any) -> None:
        assert (options, owner, env) == (OPTIONS, self.owner, {"py_executable": "/v/bin/python"})
        self.log.append("deploy")

    def sleep(self, delay_s: float) -> None:
        assert delay_s > 0


def test_the_controller_comes_first_then_the_instances_then_the_ingresses() -> None:
    server = FakeServer()
    upgrade(server, server.said.append)
    assert server.log == ["find code", "replace", "deploy"]
    assert server.said == [
        f"from release 0.9+abc to {own_release()}",
        "instances: 0 replaced, 2 left",
        "instances: 1 replaced, 1 left",
        "instances: 2 replaced, none left",
        "the ingresses are replaced",
        f"upgraded to release {own_release()}",
    ]


def test_an_upgrade_that_was_stopped_is_taken_up_where_it_was() -> None:
    server = FakeServer(ToldRelease(str(own_release()), told()))
    upgrade(server, server.said.append)
    assert server.log == ["find code", "renew", "deploy"]
    server.build = f"{own_release().digest}-2"
    server.log.clear()
    upgrade(server, server.said.append)
    assert server.log == ["find code", "renew"]


def test_an_instance_that_does_not_load_leaves_the_ingresses_as_they_are() -> None:
    server = FakeServer()
    server.progress = [progress("failed", 1, 3, reason="instance a is not replaced: no numpy")]
    with pytest.raises(UnavailableError, match="has stopped: instance a is not replaced: no numpy"):
        upgrade(server, server.said.append)
    assert server.log == ["find code", "replace"]


def test_nothing_changes_for_a_release_that_workers_do_not_find() -> None:
    server = FakeServer()
    server.code_error = UnavailableError("workers do not find it")
    with pytest.raises(UnavailableError):
        upgrade(server, server.said.append)
    assert server.log == ["find code"]


@pytest.mark.parametrize(
    ("theirs", "message"),
    [
        (ToldRelease("0.1+a", {"lanes": (1, 2)}), "lanes: it speaks version 1 to 2, this release"),
        (ToldRelease(), "a release that cannot be upgraded while it runs"),
    ],
)
def test_a_release_too_far_away_is_refused_before_anything_changes(
    theirs: ToldRelease, message: str
) -> None:
    server = FakeServer(theirs)
    with pytest.raises(UnsupportedError, match=message):
        upgrade(server, server.said.append)
    assert server.log == []


def test_an_application_on_serve_is_upgraded_by_deploying_it() -> None:
    server = FakeServer(owner=Owner("serve", "an application on Serve", is_deployed=lambda: True))
    with pytest.raises(UnsupportedError, match="an application on Serve; deploy it anew"):
        upgrade(server, server.said.append)
    assert server.log == []


def test_a_cluster_without_a_server_has_nothing_to_upgrade() -> None:
    server = FakeServer()
    server.theirs = None
    with pytest.raises(NotFoundError, match="no Manta server runs"):
        upgrade(server, server.said.append)
    with pytest.raises(NotFoundError):
        standing(server)


@pytest.mark.parametrize("release", ["0.9+abc", str(own_release())])
def test_a_server_whose_new_controller_could_not_start_is_taken_over_from_what_was_left(
    release: str,
) -> None:
    server = FakeServer()
    server.theirs = None
    server.left = Handover(release, OPTIONS, DRIVER, told())
    upgrade(server, server.said.append)
    assert server.log == ["find code", "replace", "deploy"]


def test_a_server_that_is_about_to_end_is_not_upgraded() -> None:
    server = FakeServer()
    server.options = None
    with pytest.raises(UnavailableError, match="about to end"):
        upgrade(server, server.said.append)


def test_the_status_says_which_release_each_part_runs() -> None:
    server = FakeServer()
    server.progress = [
        progress("failed", 1, 2, reason="no numpy", instances={"0.9+abc": 2, "1.0+def": 1})
    ]
    found = standing(server)
    assert list(rendered(found)) == [
        "controller: release 0.9+abc",
        "ingresses: release abc",
        "instances of release 0.9+abc: 2",
        "instances of release 1.0+def: 1",
        "instances: failed, 1 replaced, 2 left",
        "reason: no numpy",
    ]
    assert found.as_row["ingress"] == "abc"
    current = Standing("r", progress("renewing", current="m/1#0@1"), "")
    assert "being replaced: m/1#0@1" in list(rendered(current))


def test_the_command_prints_the_steps_the_status_and_why_it_stopped(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(connection, "connected", lambda _: nullcontext())
    assert main([], FakeServer) == 0
    assert "upgraded to release" in capsys.readouterr().out
    assert main(["--status", "--json"], FakeServer) == 0
    assert json.loads(capsys.readouterr().out)["controller"] == "0.9+abc"
    assert main(["--status"], FakeServer) == 0
    assert capsys.readouterr().out.startswith("controller: release 0.9+abc")
    assert main([], lambda: FakeServer(ToldRelease())) == 1
    assert "cannot take over" in capsys.readouterr().err

    class Gone(FakeServer):
        def ask(self, handle: Any, method: str) -> Any:
            raise ActorDiedError

    assert main([], Gone) == 1
    assert "the controller cannot be reached" in capsys.readouterr().err


def test_workers_that_find_the_release_by_themselves_need_no_environment() -> None:
    assert find_code(ask=lambda _: str(own_release())) == {}


def test_workers_are_told_the_folder_or_the_interpreter() -> None:
    def ask(runtime_env: Mapping[str, Any]) -> str:
        return str(own_release()) if "env_vars" in runtime_env else "0.9+abc"

    assert find_code(ask=ask) == {"env_vars": {"PYTHONPATH": own_release().root}}


def test_what_workers_found_instead_is_said() -> None:
    def ask(runtime_env: Mapping[str, Any]) -> str:
        if runtime_env:
            raise ActorDiedError
        return "0.9+abc"

    with pytest.raises(UnavailableError, match=r"as Ray starts them: release 0\.9\+abc; with /"):
        find_code(ask=ask)
