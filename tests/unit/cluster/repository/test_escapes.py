# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""The attack suite's corpus of paths at everything that makes a path of a client's name."""

from pathlib import Path

import pytest

from backends.api.errors import TritonError
from cluster.repository.manifest import is_plain_path
from cluster.repository.override_files import write_override
from cluster.repository.repository import ModelRepository
from deployments.settings.server_settings import Region
from deployments.shared_memory.system import HeldObjects
from tests.attack.families.paths import corpus

NAMES = sorted(set(corpus()))


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A repository with a model, and a file beside it that nobody may reach."""
    model = tmp_path / "models/add_sub/1"
    model.mkdir(parents=True)
    (model / "model.py").write_text("x")
    (tmp_path / "canary.txt").write_text("canary")
    return tmp_path / "models"


def files_of(root: Path) -> set[str]:
    return {path.relative_to(root).as_posix() for path in root.rglob("*")}


def test_the_corpus_has_what_it_shall_have() -> None:
    assert len(NAMES) > 120
    assert {"..", "../canary.txt", "..%2fcanary.txt", "a\0b"} <= set(NAMES)


def test_no_name_of_a_model_leads_out_of_the_repository(root: Path) -> None:
    repository = ModelRepository([str(root)])
    before = files_of(root.parent)
    for name in NAMES:
        with pytest.raises(TritonError) as raised:
            repository.read_model(name)
        assert "canary\n" not in raised.value.message
    assert files_of(root.parent) == before


def test_no_file_of_a_load_is_written_outside_of_its_directory(root: Path) -> None:
    made = root.parent / "made"
    made.mkdir()
    before = files_of(root.parent)
    written = 0
    for name in NAMES:
        for spelled in (f"file:{name}", f"file:1/{name}", f"file:1/../../{name}"):
            try:
                folder = write_override("{}", {spelled: b"x"}, str(made))
            except TritonError:
                continue
            written += 1
            assert Path(folder).parent == made
    assert written
    outside = {path for path in files_of(root.parent) if not path.startswith("made/")}
    assert outside == before
    assert (root.parent / "canary.txt").read_text() == "canary"


def test_no_key_of_a_store_or_a_manifest_is_taken_that_leads_out(root: Path) -> None:
    taken = [name for name in NAMES if is_plain_path(name)]
    assert 0 < len(taken) < len(NAMES)
    for name in taken:
        assert (root / name).resolve().is_relative_to(root.resolve())


def test_no_key_opens_anything_but_shared_memory() -> None:
    held = HeldObjects()
    for name in NAMES:
        for key in (name, f"/{name}", f"//{name}"):
            with pytest.raises(TritonError):
                held.hold(Region("attack", key, 0, 64))
