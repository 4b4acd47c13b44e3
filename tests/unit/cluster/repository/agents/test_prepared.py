# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import ClassVar

import pytest

from backends.api.errors import InternalError, InvalidArgumentError
from cluster.repository.agents import registry
from cluster.repository.agents.contracts import Action, AgentModel
from cluster.repository.agents.prepared import PreparedFiles, PreparedModels
from cluster.repository.agents.registry import ENTRY_POINT_GROUP, find_agent
from deployments.model_files.contracts import AgentCall


class Looking:
    changes_files = False
    log: ClassVar[list[str]] = []

    def act(self, action: Action, model: AgentModel) -> None:
        self.log.append(action.value)
        if "refuse" in model.parameters:
            raise InvalidArgumentError("refused")


class Changing(Looking):
    changes_files = True


@pytest.fixture(autouse=True)
def _agents(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    def entry_points(group: str) -> list[EntryPoint]:
        return [
            EntryPoint(name.lower(), f"{__name__}:{name}", group)
            for name in ("Looking", "Changing")
        ]

    monkeypatch.setattr(registry, "entry_points", entry_points)
    assert ENTRY_POINT_GROUP == "manta.repository_agents"
    find_agent.cache_clear()
    Looking.log = []
    yield
    find_agent.cache_clear()


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "copies"


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    (tmp_path / "m" / "1").mkdir(parents=True)
    (tmp_path / "m" / "1" / "model.py").write_text("x")
    return tmp_path / "m"


def prepare(
    models: PreparedModels, directory: Path, *names: str, key: str = "a1", refuse: bool = False
) -> PreparedFiles:
    parameters = (("refuse", "1"),) if refuse else ()
    calls = [AgentCall(name, parameters) for name in names or ("changing",)]
    return models.prepare("m", calls, directory, key, lambda: "{}")


def test_the_same_files_are_prepared_once(root: Path, directory: Path):
    models = PreparedModels(root)
    first = prepare(models, directory)
    assert prepare(models, directory) is first
    assert Looking.log == ["LOAD"]
    assert (first.directory / "1" / "model.py").read_text() == "x"
    assert root.stat().st_mode & 0o077 == 0
    assert prepare(models, directory, key="a2").directory != first.directory


def test_many_readers_at_once_prepare_once(root: Path, directory: Path):
    models = PreparedModels(root)
    together = threading.Barrier(4)

    def read() -> PreparedFiles:
        together.wait()
        return prepare(models, directory)

    with ThreadPoolExecutor(4) as threads:
        found = [each.result() for each in [threads.submit(read) for _ in range(4)]]
    assert len(set(map(id, found))) == 1
    assert Looking.log == ["LOAD"]
    assert [models.release(files) for files in found] == [False, False, False, True]


def test_agents_that_look_work_on_the_repository_itself(root: Path, directory: Path):
    models = PreparedModels(root)
    files = prepare(models, directory, "looking")
    assert files.directory == directory
    assert not files.is_copy
    models.release(files)
    assert directory.is_dir()
    assert not root.exists()


def test_a_whole_life_is_told(root: Path, directory: Path):
    models = PreparedModels(root)
    files = prepare(models, directory)
    models.loaded(files)
    models.loaded(files)
    models.unloading(files)
    assert files.directory.is_dir()
    models.release(files)
    assert Looking.log == ["LOAD", "LOAD_COMPLETE", "UNLOAD", "UNLOAD_COMPLETE"]
    assert not root.exists()


def test_a_load_that_came_to_nothing_is_told(root: Path, directory: Path):
    models = PreparedModels(root)
    models.release(prepare(models, directory))
    assert Looking.log == ["LOAD", "LOAD_FAIL"]
    assert not root.exists()
    prepare(models, directory)
    assert Looking.log == ["LOAD", "LOAD_FAIL", "LOAD"]


def test_a_poll_in_between_changes_nothing(root: Path, directory: Path):
    models = PreparedModels(root)
    serving = prepare(models, directory)
    models.loaded(serving)
    assert not models.release(prepare(models, directory))
    assert Looking.log == ["LOAD", "LOAD_COMPLETE"]
    assert serving.directory.is_dir()


def test_what_was_left_out_is_told_before(root: Path, directory: Path):
    models = PreparedModels(root)
    first = prepare(models, directory)
    models.unloading(first)
    assert Looking.log == ["LOAD", "LOAD_COMPLETE", "UNLOAD"]
    models.loaded(first)
    models.release(first)
    assert Looking.log == ["LOAD", "LOAD_COMPLETE", "UNLOAD", "UNLOAD_COMPLETE"]
    Looking.log.clear()
    second = prepare(models, directory)
    models.loaded(second)
    models.release(second)
    assert Looking.log == ["LOAD", "LOAD_COMPLETE", "UNLOAD", "UNLOAD_COMPLETE"]


def test_files_that_are_about_to_go_are_not_given_to_others(root: Path, directory: Path):
    models = PreparedModels(root)
    leaving = prepare(models, directory)
    models.loaded(leaving)
    models.unloading(leaving)
    newer = prepare(models, directory)
    assert newer.directory != leaving.directory
    models.release(leaving)
    assert newer.directory.is_dir()
    assert prepare(models, directory) is newer


def test_what_replaces_the_same_files_is_no_unload(root: Path, directory: Path):
    models = PreparedModels(root)
    before = prepare(models, directory)
    models.loaded(before)
    after = prepare(models, directory)
    models.loaded(after)
    models.unloading(before)
    assert not models.release(before)
    assert Looking.log == ["LOAD", "LOAD_COMPLETE"]


def test_a_refusal_is_not_kept(root: Path, directory: Path):
    models = PreparedModels(root)
    for _ in range(2):
        with pytest.raises(InvalidArgumentError, match="refused"):
            prepare(models, directory, refuse=True)
    assert Looking.log == ["LOAD", "LOAD_FAIL"] * 2
    assert not root.exists()


def test_a_later_process_goes_on_with_what_serves(root: Path, directory: Path):
    before = PreparedModels(root)
    serving, other = prepare(before, directory), prepare(before, directory, key="a2")
    Looking.log.clear()
    after = PreparedModels(root)
    after.adopt([str(serving.directory), "/elsewhere"])
    assert not other.directory.exists()
    found = prepare(after, directory)
    assert found.directory == serving.directory
    assert Looking.log == []
    after.loaded(found)
    after.release(found)
    assert Looking.log == ["LOAD_COMPLETE", "UNLOAD", "UNLOAD_COMPLETE"]
    assert not root.exists()


def test_there_may_be_nothing_to_go_on_with(root: Path):
    PreparedModels(root).adopt(["/elsewhere"])


def test_a_place_for_copies_that_cannot_be_made_is_told(directory: Path, tmp_path: Path):
    (tmp_path / "file").write_text("")
    with pytest.raises(InternalError, match="cannot be made"):
        prepare(PreparedModels(tmp_path / "file" / "copies"), directory)


def test_another_users_place_for_copies_is_refused(
    root: Path, directory: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("os.getuid", lambda: -1)
    with pytest.raises(InternalError, match="belongs to another user"):
        prepare(PreparedModels(root), directory)
