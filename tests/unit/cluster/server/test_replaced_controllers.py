# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Which controller there is in the end, whatever becomes of the one before it."""

from dataclasses import replace
from typing import Any

import pytest
from ray.exceptions import ActorDiedError, ActorUnavailableError, RayError

from backends.api.errors import UnsupportedError
from cluster.actors.controller_client import CONTROLLER_NAME
from cluster.controller.durable_state import HANDOVER_KEY, STATE_PREFIX
from cluster.controller.handover import Handover
from cluster.controller.ownership import Owner
from cluster.options.parsing import ServerOptions, from_mapping
from cluster.options.secret_values import SECRETS_KEY
from cluster.release import own_release
from cluster.server import start_controller
from cluster.server.start_controller import (
    ToldRelease,
    create_another,
    find_controller,
    get_or_create_controller,
    has_left_state,
    kill_controller,
    left_behind,
    replace_controller,
    told_release,
    wait_gone,
)
from deployments.contracts.protocols import told
from tests.support.fake_ray import FakeRay

OPTIONS = from_mapping({"model_repository": "/m"})
OTHERS = from_mapping({"model_repository": "/m", "log_verbose": 1})
MINE = Owner("mine", "process 1 on h")
OLD = "0.9+abc"


class Controller:
    """A controller that tells what it was started with."""

    def __init__(
        self,
        options: ServerOptions,
        owner: Owner,
        *,
        resumes: bool = False,
        has_secrets: bool = False,
        release: str = "",
        protocols: Any = None,
    ) -> None:
        self.options, self.of = options, owner
        self.resumes, self.has_secrets = resumes, has_secrets
        self.name = release or str(own_release())
        self.protocols = told() if protocols is None else protocols

    def release(self) -> dict[str, Any]:
        return {"release": self.name, "protocols": self.protocols}

    def server_options(self) -> ServerOptions:
        return self.options

    def owner(self) -> tuple[Owner, float]:
        return self.of, 0.0

    def hand_over(self) -> None:
        """Write all that waits to be written."""


class Untold:
    """A controller of a release that does not tell it."""


@pytest.fixture(autouse=True)
def _on_the_double(fake: FakeRay, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(start_controller, "ModelController", Controller)
    monkeypatch.setattr(start_controller, "time", fake)


def running(fake: FakeRay, options: ServerOptions = OPTIONS, **changes: Any) -> Controller:
    """Have a controller that somebody has started."""
    made = Controller(options, changes.pop("owner", MINE), **changes)
    fake.have(CONTROLLER_NAME, made)
    return made


def now(fake: FakeRay) -> Controller:
    found: Controller = fake.actors[CONTROLLER_NAME].made
    return found


def test_a_first_controller_is_the_one_that_is_found(fake: FakeRay) -> None:
    assert find_controller() is None
    get_or_create_controller(OPTIONS, MINE)
    assert find_controller().fake.made is now(fake)
    assert (now(fake).of, now(fake).resumes) == (MINE, False)


def test_a_controller_is_on_the_head_and_starts_again_when_it_dies(fake: FakeRay) -> None:
    get_or_create_controller(OPTIONS, MINE)
    options = fake.actors[CONTROLLER_NAME].options
    assert list(options["resources"]) == ["node:__internal_head__"]
    assert (options["lifetime"], options["max_restarts"]) == ("detached", -1)


def test_a_controller_with_the_same_options_is_kept(fake: FakeRay) -> None:
    made = running(fake)
    fake.rows[HANDOVER_KEY] = b"left"
    get_or_create_controller(OPTIONS, MINE)
    assert now(fake) is made
    assert HANDOVER_KEY in fake.rows


def test_a_controller_with_other_options_hands_over_and_ends_before_the_next_starts(
    fake: FakeRay,
) -> None:
    running(fake)
    fake.rows[HANDOVER_KEY] = b"left"
    get_or_create_controller(OTHERS, MINE)
    assert fake.calls[-1] == (CONTROLLER_NAME, "hand_over")
    assert (now(fake).options, now(fake).resumes) == (OTHERS, True)
    assert HANDOVER_KEY not in fake.rows


@pytest.mark.parametrize("release", ["", OLD])
@pytest.mark.parametrize("is_restarted", [True, False])
def test_a_controller_that_dies_while_it_hands_over_is_replaced_and_gone_on_from(
    fake: FakeRay, release: str, is_restarted: bool
) -> None:
    running(fake, release=release)
    actor = fake.actors[CONTROLLER_NAME]
    fake.held = {"hand_over"}
    fake.meanwhile = [actor.restart if is_restarted else actor.die]
    get_or_create_controller(OTHERS, MINE)
    assert (now(fake).options, now(fake).resumes) == (OTHERS, True)


def test_a_controller_that_dies_before_it_says_whose_it_is_is_begun_anew(fake: FakeRay) -> None:
    running(fake)
    fake.held = {"owner"}
    fake.meanwhile = [fake.actors[CONTROLLER_NAME].die]
    get_or_create_controller(OTHERS, MINE)
    assert (now(fake).options, now(fake).resumes) == (OTHERS, False)


def test_a_controller_of_another_release_is_gone_on_from_whatever_its_options(
    fake: FakeRay,
) -> None:
    running(fake, release=OLD)
    get_or_create_controller(OPTIONS, MINE)
    assert fake.calls[-1] == (CONTROLLER_NAME, "hand_over")
    assert (now(fake).name, now(fake).resumes) == (str(own_release()), True)


def test_a_controller_that_cannot_be_taken_over_from_runs_on(fake: FakeRay) -> None:
    protocols = {name: (first + 1000, last + 1000) for name, (first, last) in told().items()}
    made = running(fake, release=OLD, protocols=protocols)
    with pytest.raises(UnsupportedError, match="cannot take over"):
        get_or_create_controller(OPTIONS, MINE)
    assert now(fake) is made
    assert "hand_over" not in {call[1] for call in fake.calls}


def test_a_release_that_does_not_tell_itself_is_no_release_of_ours(fake: FakeRay) -> None:
    fake.have(CONTROLLER_NAME, Untold())
    assert told_release(find_controller()) == ToldRelease()
    with pytest.raises(UnsupportedError):
        get_or_create_controller(OPTIONS, MINE)


def test_an_upgrade_whose_controller_has_ended_starts_one_where_its_code_is(
    fake: FakeRay,
) -> None:
    theirs = ToldRelease(OLD, told())
    replace_controller(None, theirs, OPTIONS, MINE, {"working_dir": "/new"})
    assert now(fake).resumes
    assert fake.actors[CONTROLLER_NAME].options["runtime_env"] == {"working_dir": "/new"}


def test_a_server_that_has_lost_its_controller_takes_the_one_that_another_has_started(
    fake: FakeRay,
) -> None:
    create_another(OPTIONS, MINE)
    first = now(fake)
    assert first.resumes
    create_another(OPTIONS, Owner("other"))
    assert now(fake) is first


def test_secrets_are_in_the_store_and_in_no_argument_of_the_controller(fake: FakeRay) -> None:
    restriction = (("health",), "key", "hidden")
    get_or_create_controller(replace(OPTIONS, http_restricted_api=(restriction,)), MINE)
    assert now(fake).has_secrets
    assert not now(fake).options.http_restricted_api
    assert b"hidden" in fake.rows[SECRETS_KEY]


def test_a_killed_controller_is_waited_for_and_one_that_is_gone_is_no_error(fake: FakeRay) -> None:
    running(fake)
    handle = find_controller()
    kill_controller(handle)
    assert find_controller() is None
    kill_controller(handle)


def test_an_ending_controller_is_waited_for_until_its_name_is_free(fake: FakeRay) -> None:
    running(fake)
    fake.meanwhile = [lambda: None, fake.actors[CONTROLLER_NAME].die]
    wait_gone(5.0)
    assert find_controller() is None
    assert fake.now_s < 1.0


def test_a_controller_that_does_not_end_is_waited_for_in_bounds(fake: FakeRay) -> None:
    running(fake)
    wait_gone(5.0)
    assert 5.0 <= fake.now_s < 6.0


def test_state_that_was_left_is_told_from_none(fake: FakeRay) -> None:
    assert not has_left_state()
    assert left_behind() is None
    fake.rows[STATE_PREFIX + b"1"] = b"state"
    handover = Handover(OLD, OPTIONS, MINE)
    fake.rows[HANDOVER_KEY] = handover.encoded()
    assert has_left_state()
    assert left_behind() == handover


@pytest.mark.parametrize(
    "error", [ActorDiedError(), ActorUnavailableError("its process ended", bytes(16))]
)
def test_a_release_that_a_dying_controller_does_not_tell_is_an_error_of_ray(
    fake: FakeRay, error: RayError
) -> None:
    running(fake)
    fake.failures["release"] = [error]
    with pytest.raises(RayError):
        told_release(find_controller())
