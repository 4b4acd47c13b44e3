# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Whatever is broken off, readers see all of a version or nothing."""

from pathlib import Path

import pytest

from backends.api.errors import AlreadyExistsError, UnavailableError
from cluster.commands.publish.stored_models import find_stored, require_stored, state_of
from cluster.commands.publish.targets import LocalTarget, StoreTarget
from cluster.repository.repository import ModelRepository
from cluster.repository.stores.local import LocalStore

FILES = {"model.onnx": b"model", "weights.bin": b"weights"}
SHARED = {"config.pbtxt": b"# config"}
# Writes and removals of publishing a version to a store: the mark, the files, the config, the
# manifest, and the mark again.
STEPS = 6


class BreakingStore(LocalStore):
    """Goes away after some writes and removals."""

    def __init__(self, directory: Path, left: int) -> None:
        super().__init__(str(directory))
        self.left = left

    def _step(self) -> None:
        if not self.left:
            raise UnavailableError("the store is away")
        self.left -= 1

    def write(self, path: str, content: bytes | Path, *, if_absent: bool = False) -> bool:
        self._step()
        return super().write(path, content, if_absent=if_absent)

    def remove(self, path: str) -> None:
        self._step()
        super().remove(path)


def state(root: Path, version: int) -> str:
    store = LocalStore(str(root))
    model = find_stored(store, "m")
    return "" if model is None or version not in model.versions else state_of(store, model, version)


@pytest.mark.parametrize("steps", range(STEPS + 1))
def test_a_version_in_a_store_is_incomplete_until_it_is_whole(tmp_path: Path, steps: int) -> None:
    store = BreakingStore(tmp_path, steps)
    if steps < STEPS:
        with pytest.raises(UnavailableError):
            StoreTarget(store).add("m", 2, FILES, SHARED)
        assert state(tmp_path, 2) == ("incomplete" if steps else "")
    else:
        StoreTarget(store).add("m", 2, FILES, SHARED)
        assert store.left == 0
        assert state(tmp_path, 2) == "complete"


@pytest.mark.parametrize("steps", range(1, 5))
def test_a_version_in_a_store_is_incomplete_while_it_is_removed(tmp_path: Path, steps: int) -> None:
    StoreTarget(LocalStore(str(tmp_path))).add("m", 2, FILES, SHARED)
    store = BreakingStore(tmp_path, steps)
    with pytest.raises(UnavailableError):
        StoreTarget(store).remove(require_stored(store, "m"), 2)
    assert state(tmp_path, 2) == "incomplete"
    # Which is finished by removing it once more.
    whole = LocalStore(str(tmp_path))
    StoreTarget(whole).remove(require_stored(whole, "m"), 2)
    assert state(tmp_path, 2) == ""


def test_what_was_broken_off_in_a_store_is_not_mixed_with_another_upload(tmp_path: Path) -> None:
    with pytest.raises(UnavailableError):
        StoreTarget(BreakingStore(tmp_path, 2)).add("m", 2, FILES, SHARED)
    with pytest.raises(AlreadyExistsError, match="broken off"):
        StoreTarget(LocalStore(str(tmp_path))).add("m", 2, {"model.onnx": b"other"}, {})


def test_a_directory_shows_nothing_of_what_cannot_be_copied(tmp_path: Path) -> None:
    LocalTarget(tmp_path).add("m", 1, FILES, SHARED)
    files = {**FILES, "z": tmp_path / "missing"}
    with pytest.raises(UnavailableError, match="missing"):
        LocalTarget(tmp_path).add("m", 2, files, {"labels.txt": b""})
    with pytest.raises(UnavailableError, match="missing"):
        LocalTarget(tmp_path).add("other", 1, files, {})
    assert [path.name for path in tmp_path.iterdir()] == ["m"]
    assert sorted(path.name for path in (tmp_path / "m").iterdir()) == ["1", "config.pbtxt"]


def test_a_version_that_came_in_between_is_not_replaced(tmp_path: Path) -> None:
    LocalTarget(tmp_path).add("m", 1, FILES, {})
    with pytest.raises(AlreadyExistsError):
        LocalTarget(tmp_path).add("m", 1, {"model.onnx": b"other"}, {})
    assert (tmp_path / "m/1/model.onnx").read_bytes() == b"model"


def test_publishing_does_not_look_like_a_model_meanwhile(tmp_path: Path) -> None:
    # What a crash leaves behind is hidden, too.
    (tmp_path / ".publish.x" / "m" / "1").mkdir(parents=True)
    LocalTarget(tmp_path).add("m", 1, FILES, {})
    assert list(ModelRepository([str(tmp_path)]).scan().directories) == ["m"]


def test_a_version_that_came_in_between_is_left_as_it_is(tmp_path: Path) -> None:
    store = LocalStore(str(tmp_path))
    StoreTarget(store).add("m", 2, FILES, SHARED)
    with pytest.raises(AlreadyExistsError, match="use --next"):
        StoreTarget(store).add("m", 2, {"model.onnx": b"late"}, {})
    assert state(tmp_path, 2) == "complete"
    assert store.read("m/2/model.onnx") == FILES["model.onnx"]
