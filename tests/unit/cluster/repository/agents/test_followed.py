# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""What agents of models in stores hear on the nodes that have fetched the files."""

from pathlib import Path

import pytest

from backends.api.errors import InvalidArgumentError
from cluster.repository.agents.contracts import Action, AgentModel, RepositoryAgent
from cluster.repository.agents.followed import FollowedAgents
from cluster.repository.agents.run import AgentChain
from deployments.model_files.contracts import AgentCall


class Noting:
    changes_files = False

    def __init__(self, log: list[str], name: str) -> None:
        self.log, self.name = log, name

    def act(self, action: Action, model: AgentModel) -> None:
        assert model.directory == Path("/cache/trees/k")
        self.log.append(f"{self.name} {action.value}")


@pytest.fixture
def log() -> list[str]:
    return []


@pytest.fixture
def agents(log: list[str]) -> FollowedAgents:
    made = FollowedAgents()
    follow(made, log)
    return made


def follow(followed: FollowedAgents, log: list[str]) -> None:
    agents: dict[str, RepositoryAgent] = {name: Noting(log, name) for name in "ab"}
    calls = [AgentCall(name) for name in agents]
    followed.follow(
        "k", Path("/cache/trees/k"), lambda: AgentChain("m", calls, "{}", agents.__getitem__)
    )


def test_agents_hear_what_those_of_local_models_hear(agents: FollowedAgents, log: list[str]):
    for action in (Action.LOAD_COMPLETE, Action.UNLOAD, Action.UNLOAD_COMPLETE):
        agents.tell("k", action)
    assert log == [
        *("b LOAD_COMPLETE", "a LOAD_COMPLETE"),
        *("a UNLOAD", "b UNLOAD"),
        *("b UNLOAD_COMPLETE", "a UNLOAD_COMPLETE"),
    ]


def test_agents_hear_of_a_load_that_failed_once(agents: FollowedAgents, log: list[str]):
    agents.tell("k", Action.LOAD_FAIL)
    agents.tell("k", Action.LOAD_FAIL)
    assert log == ["b LOAD_FAIL", "a LOAD_FAIL"]
    follow(agents, log)
    agents.tell("k", Action.LOAD_COMPLETE)
    assert log[2:] == ["b LOAD_COMPLETE", "a LOAD_COMPLETE"]


def test_a_restarted_controller_that_tells_again_tells_nothing_new(
    agents: FollowedAgents, log: list[str]
):
    agents.tell("k", Action.LOAD_COMPLETE)
    heard = list(log)
    for action in (Action.LOAD_COMPLETE, Action.LOAD_FAIL):
        agents.tell("k", action)
    follow(agents, log)
    assert log == heard


def test_what_was_left_out_is_told_first(agents: FollowedAgents, log: list[str]):
    # As on a node that got an instance after the model was loaded.
    agents.tell("k", Action.UNLOAD)
    assert [line for line in log if line.startswith("a")] == ["a LOAD_COMPLETE", "a UNLOAD"]


def test_a_node_that_has_not_fetched_the_files_has_nobody_to_tell(
    agents: FollowedAgents, log: list[str]
):
    agents.tell("other", Action.LOAD_COMPLETE)
    assert log == []


def test_an_agent_that_cannot_be_made_is_an_error():
    def make() -> AgentChain:
        raise InvalidArgumentError("no such agent")

    with pytest.raises(InvalidArgumentError):
        FollowedAgents().follow("k", Path(), make)
