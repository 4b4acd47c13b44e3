# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
import logging
from collections.abc import Callable
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import ClassVar

import pytest

from backends.api.errors import InternalError, InvalidArgumentError, UnavailableError
from cluster.repository.agents import registry
from cluster.repository.agents.contracts import Action, AgentModel, RepositoryAgent
from cluster.repository.agents.registry import ENTRY_POINT_GROUP, find_agent
from cluster.repository.agents.run import AgentChain
from cluster.repository.manifest import make_manifest, render_manifest
from deployments.model_files.contracts import AgentCall


class Agent:
    """Notes its calls; fails where it is told to."""

    log: ClassVar[list[str]] = []

    def __init__(
        self,
        name: str = "own",
        *,
        changes_files: bool = False,
        fails: dict[Action, Exception] | None = None,
        change: Callable[[Path], object] = lambda _: None,
    ) -> None:
        self.name, self.changes_files = name, changes_files
        self.fails, self.change = fails or {}, change
        self.models: list[AgentModel] = []

    def act(self, action: Action, model: AgentModel) -> None:
        self.log.append(f"{self.name} {action.value}")
        self.models.append(model)
        if action in self.fails:
            raise self.fails[action]
        if action is Action.LOAD:
            self.change(model.directory)


@pytest.fixture(autouse=True)
def _empty_log() -> None:
    Agent.log = []
    find_agent.cache_clear()


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    (tmp_path / "m" / "1").mkdir(parents=True)
    (tmp_path / "m" / "1" / "model.py").write_text("x")
    return tmp_path / "m"


def chain(*agents: Agent) -> AgentChain:
    by_name: dict[str, RepositoryAgent] = {agent.name: agent for agent in agents}
    calls = [AgentCall(agent.name, (("key", agent.name),)) for agent in agents]
    return AgentChain("m", calls, '{"name":"m"}', by_name.__getitem__)


def test_agents_are_called_in_the_orders_of_triton(directory: Path, tmp_path: Path):
    made = chain(Agent("a"), Agent("b"))
    assert made.load(directory, tmp_path / "copy") == directory
    for action in (Action.LOAD_COMPLETE, Action.UNLOAD, Action.UNLOAD_COMPLETE):
        made.notify(action)
    assert Agent.log == [
        *("a LOAD", "b LOAD", "b LOAD_COMPLETE", "a LOAD_COMPLETE"),
        *("a UNLOAD", "b UNLOAD", "b UNLOAD_COMPLETE", "a UNLOAD_COMPLETE"),
    ]


def test_an_agent_is_told_of_its_model(directory: Path, tmp_path: Path):
    agent = Agent("a")
    chain(agent).load(directory, tmp_path / "copy")
    assert agent.models == [AgentModel("m", directory, {"key": "a"}, '{"name":"m"}')]


def test_after_a_refusal_those_that_were_asked_are_told_in_reverse(directory: Path, tmp_path: Path):
    refusal = InvalidArgumentError("not this one")
    made = chain(Agent("a"), Agent("b", fails={Action.LOAD: refusal}), Agent("c"))
    with pytest.raises(InvalidArgumentError, match="not this one"):
        made.load(directory, tmp_path / "copy")
    assert Agent.log == ["a LOAD", "b LOAD", "b LOAD_FAIL", "a LOAD_FAIL"]


def test_an_agent_that_breaks_is_an_internal_error_that_names_it(directory: Path, tmp_path: Path):
    with pytest.raises(InternalError) as caught:
        chain(Agent("a", fails={Action.LOAD: KeyError("x")})).load(directory, tmp_path / "copy")
    assert caught.value.message == "repository agent 'a' failed on LOAD of model 'm': KeyError: 'x'"


def test_agents_that_change_files_share_one_copy(directory: Path, tmp_path: Path):
    first = Agent("a", changes_files=True, change=lambda d: (d / "1" / "new").write_text("a"))
    second = Agent("b")
    third = Agent("c", changes_files=True, change=lambda d: (d / "1" / "model.py").unlink())
    made = chain(first, second, third)
    assert made.changes_files
    copy = made.load(directory, tmp_path / "copy")
    assert copy == tmp_path / "copy"
    assert [agent.models[0].directory for agent in (first, second, third)] == [copy] * 3
    assert [path.name for path in (copy / "1").iterdir()] == ["new"]
    assert [path.name for path in (directory / "1").iterdir()] == ["model.py"]


def test_an_agent_that_writes_into_a_file_does_not_reach_the_repository(
    directory: Path, tmp_path: Path
):
    def write(copy: Path) -> None:
        with (copy / "1" / "model.py").open("r+") as file:
            file.write("changed")

    chain(Agent(changes_files=True, change=write)).load(directory, tmp_path / "copy")
    assert (directory / "1" / "model.py").read_text() == "x"


def test_agents_before_the_first_that_changes_files_see_the_repository(
    directory: Path, tmp_path: Path
):
    first, second = Agent("a"), Agent("b", changes_files=True)
    chain(first, second).load(directory, tmp_path / "copy")
    assert first.models[0].directory == directory
    assert second.models[0].directory == tmp_path / "copy"


def test_a_refused_load_leaves_no_copy(directory: Path, tmp_path: Path):
    made = chain(Agent(changes_files=True, fails={Action.LOAD: UnavailableError("later")}))
    with pytest.raises(UnavailableError):
        made.load(directory, tmp_path / "copy")
    assert not (tmp_path / "copy").exists()


def test_a_copy_that_cannot_be_written_is_told(directory: Path, tmp_path: Path):
    (tmp_path / "file").write_text("")
    with pytest.raises(InternalError, match="cannot be copied to"):
        chain(Agent(changes_files=True)).load(directory, tmp_path / "file" / "copy")
    assert Agent.log == []


def test_an_error_afterwards_is_logged_and_the_others_are_told(
    directory: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
):
    made = chain(Agent("a"), Agent("b", fails={Action.LOAD_COMPLETE: InternalError("no")}))
    made.load(directory, tmp_path / "copy")
    with caplog.at_level(logging.ERROR):
        made.notify(Action.LOAD_COMPLETE)
    assert "Agent model returns error on TRITONREPOAGENT_ACTION_LOAD_COMPLETE: Internal: no" in (
        caplog.text
    )
    assert Agent.log[-1] == "a LOAD_COMPLETE"


def test_an_agent_may_go_on_with_what_another_process_had_made(directory: Path):
    agent = Agent()
    made = chain(agent)
    made.resume(directory)
    made.notify(Action.UNLOAD)
    assert agent.models[0].directory == directory


@pytest.mark.parametrize("name", ["checksum", "decrypt", "manifest", "unpack", "verify"])
def test_shipped_agents_are_found(name: str):
    assert find_agent(name) is find_agent(name)


def test_an_unknown_agent_is_told_in_tritons_words():
    with pytest.raises(InvalidArgumentError) as caught:
        find_agent("other")
    told = caught.value.message
    assert told.startswith("unable to find 'libtritonrepoagent_other.so' for repo agent 'other', ")
    assert "Agents in C are not loaded" in told
    assert "There are: checksum, decrypt, manifest, unpack, verify" in told


def entry_points(*values: str) -> Callable[..., list[EntryPoint]]:
    found = [EntryPoint("own", value, ENTRY_POINT_GROUP) for value in values]
    return lambda group: found if group == ENTRY_POINT_GROUP else []


def test_an_own_agent_is_found_by_its_entry_point(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(registry, "entry_points", entry_points(f"{__name__}:Agent"))
    assert isinstance(find_agent("own"), Agent)
    with pytest.raises(InvalidArgumentError, match="manifest, own, unpack"):
        find_agent("other")


@pytest.mark.parametrize(
    ("value", "told"),
    [("no.such.module:Agent", "ModuleNotFoundError"), ("builtins:dict", "it has no 'act'")],
)
def test_an_own_agent_that_is_none_is_told(monkeypatch: pytest.MonkeyPatch, value: str, told: str):
    monkeypatch.setattr(registry, "entry_points", entry_points(value))
    with pytest.raises(InternalError, match=f"'own' \\({value}\\) cannot be made: .*{told}"):
        find_agent("own")


def test_manifests_that_are_there_are_verified(directory: Path):
    manifest_agent = AgentChain("m", [AgentCall("manifest")])
    copy = Path("/nowhere")
    manifest_agent.load(directory, copy)
    content = render_manifest(make_manifest(directory / "1"))
    (directory / "1" / "manifest.json").write_bytes(content)
    (directory / "manifest.json").write_bytes(
        render_manifest(make_manifest(directory, versions_apart=True))
    )
    manifest_agent.load(directory, copy)
    (directory / "1" / "model.py").write_text("y")
    with pytest.raises(InvalidArgumentError, match="Mismatched SHA256 hash for file model"):
        manifest_agent.load(directory, copy)
