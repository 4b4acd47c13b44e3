# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Files that came with a load, as a process on another node finds them."""

from pathlib import Path

import msgspec
import pytest

from backends.api.errors import InvalidArgumentError, ResourceExhaustedError, UnavailableError
from backends.api.model_config import ModelConfig
from deployments.instance import model_files
from deployments.instance.model_files import pack, with_local_files
from deployments.instance.spec import InstanceSpec
from deployments.model_files.contracts import ModelFiles


class Store:
    """What the controller has put into the cluster's store."""

    def __init__(self, **files: bytes) -> None:
        self.values = files
        self.fetched: list[str] = []

    def __call__(self, key: str) -> bytes | None:
        self.fetched.append(key)
        return self.values.get(key)


@pytest.fixture(autouse=True)
def held(monkeypatch):
    """Lets go of what a test holds, as the end of its process would."""
    monkeypatch.setattr(model_files, "_caches", [])
    yield
    let_go()


def let_go() -> None:
    while model_files._caches:
        model_files._caches.pop().close()


@pytest.fixture
def controllers_folder(tmp_path: Path) -> Path:
    folder = tmp_path / "node-1" / "manta-model-a"
    (folder / "1" / "deep").mkdir(parents=True)
    (folder / "1" / "model.py").write_bytes(b"x = 1")
    (folder / "1" / "deep" / "data").write_bytes(bytes(1000))
    return folder


@pytest.fixture
def node(tmp_path: Path) -> Path:
    return tmp_path / "node-2"


def spec(key: str, node: Path, max_bytes: int = 0, model_dir: str = "/elsewhere/m") -> InstanceSpec:
    return InstanceSpec(
        "m/1#0@1",
        1,
        "m",
        1,
        0,
        "m_0",
        ModelConfig("m"),
        False,
        model_dir,
        files_key=key,
        model_cache_directory=str(node),
        model_cache_max_bytes=max_bytes,
    )


def test_an_instance_on_another_node_finds_the_files(controllers_folder, node):
    content = pack(controllers_folder, 1 << 20)
    local = with_local_files(spec("a", node), Store(a=content))
    assert Path(local.model_dir).is_relative_to(node)
    assert Path(local.model_dir, "1", "model.py").read_bytes() == b"x = 1"
    assert Path(local.model_dir, "1", "deep", "data").read_bytes() == bytes(1000)


def test_where_the_directory_is_nothing_is_fetched(controllers_folder, node):
    store = Store()
    own = spec("a", node, model_dir=str(controllers_folder))
    assert with_local_files(own, store) is own
    repository = spec("", node)
    assert with_local_files(repository, store) is repository
    assert (store.fetched, node.exists()) == ([], False)


def test_instances_of_a_node_fetch_once(controllers_folder, node):
    store = Store(a=pack(controllers_folder, 1 << 20))
    first = with_local_files(spec("a", node), store)
    assert with_local_files(spec("a", node), store).model_dir == first.model_dir
    assert store.fetched == ["a"]


def test_files_nobody_uses_go_when_others_come_and_have_no_room(controllers_folder, node):
    contents = {}
    for name in "abc":
        (controllers_folder / "1" / "deep" / "data").write_bytes(name.encode() * 1000)
        contents[name] = pack(controllers_folder, 1 << 20)
    store = Store(**contents)
    first = with_local_files(spec("a", node, 2100), store).model_dir
    second = with_local_files(spec("b", node, 2100), store).model_dir
    with pytest.raises(ResourceExhaustedError, match="unload models"):
        with_local_files(spec("c", node, 2100), store)
    assert Path(first).is_dir()
    let_go()
    with_local_files(spec("c", node, 1100), store)
    assert not Path(first).exists()
    assert not Path(second).exists()


def test_what_was_cut_short_is_written_anew(controllers_folder, node):
    store = Store(a=pack(controllers_folder, 1 << 20))
    key = ModelFiles("load:a", ()).key()
    (node / "making" / key).mkdir(parents=True)
    (node / "making" / key / "rubbish").write_text("x")
    local = with_local_files(spec("a", node), store)
    assert sorted(path.name for path in Path(local.model_dir).iterdir()) == ["1"]


def test_equal_files_of_two_loads_are_kept_once(controllers_folder, node):
    content = pack(controllers_folder, 1 << 20)
    store = Store(a=content, b=content)
    first, second = (Path(with_local_files(spec(key, node), store).model_dir) for key in "ab")
    assert (first / "1" / "model.py").samefile(second / "1" / "model.py")


def test_files_that_are_gone_are_said_with_what_to_do(node):
    with pytest.raises(UnavailableError, match="load the model with its files again"):
        with_local_files(spec("a", node), Store())


def test_a_file_that_leads_out_of_its_directory_is_refused(node):
    with pytest.raises(InvalidArgumentError, match=r"'../x' .* cannot be a model's"):
        with_local_files(spec("a", node), Store(a=msgspec.msgpack.encode({"../x": b""})))
    assert not (node / "x").exists()


def test_files_larger_than_the_limit_are_not_packed(controllers_folder):
    assert pack(controllers_folder, 1005) is not None
    assert pack(controllers_folder, 1004) is None
