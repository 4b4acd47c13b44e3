# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
import hashlib
from collections.abc import Iterator

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from backends.api.errors import (
    InvalidArgumentError,
    NotFoundError,
    UnavailableError,
    UnsupportedError,
)
from cluster.repository.remote import RemoteFileSystem
from cluster.repository.skeletons import Skeletons
from cluster.repository.stores.contracts import Store
from cluster.repository.stores.hub import show_repository
from cluster.repository.stores.opening import open_store
from cluster.repository.stores.retry import RetryPolicy
from deployments.model_files.contracts import FileChangedError
from tests.support.hub_server import HubServer

LARGE = bytes(range(256)) * 100
QUICK = RetryPolicy(attempts=3, base_s=0.001, cap_s=0.01)


@pytest.fixture
def hub() -> Iterator[HubServer]:
    with HubServer(token="very-secret") as running:
        yield running


def opened(hub: HubServer, location: str = "hf://org/net") -> Store:
    return open_store(location, hub.environ, QUICK)


def listed(store: Store, path: str = "") -> list[str]:
    return [file.path for file in store.find(path)]


def test_a_repository_in_tritons_layout_is_shown_as_it_is(hub: HubServer):
    hub.push(
        "org/net",
        {
            ".gitattributes": b"",
            "README.md": b"#",
            "a/config.pbtxt": b"x",
            "a/1/model.py": b"y",
            "b/2/model.onnx": LARGE,
            "pictures/1/cat.png": b"",
        },
    )
    store = opened(hub)
    assert listed(store) == ["a/1/model.py", "a/config.pbtxt", "b/2/model.onnx"]
    assert listed(opened(hub, "hf://org/net/b")) == ["2/model.onnx"]
    large = next(store.find("b"))
    assert (large.size_bytes, large.sha256) == (len(LARGE), hashlib.sha256(LARGE).hexdigest())


def test_a_repository_with_one_model_file_is_one_model(hub: HubServer):
    hub.push("org/net", {"README.md": b"#", "onnx/model.onnx": LARGE, "onnx/model_fp16.onnx": b""})
    store = opened(hub)
    assert listed(store) == ["net/1/model.onnx"]
    assert store.read("net/1/model.onnx") == LARGE
    assert store.read("net/1/model.onnx", 300, 500) == LARGE[300:800]
    assert store.read("net/1/model.onnx", 25_000) == LARGE[25_000:]
    node = opened(hub, f"{store.location}/net")
    assert node.read("1/model.onnx", 10, 10, next(store.find()).stamp) == LARGE[10:20]


def test_credentials_go_to_the_hub_only(hub: HubServer):
    hub.push("org/net", {"model.onnx": LARGE})
    assert opened(hub).read("net/1/model.onnx", 0, 10) == LARGE[:10]
    assert any(path.startswith("*") for path in hub.requests)
    assert not hub.leaked


def test_a_host_without_ranges_is_read_from(hub: HubServer):
    hub.is_without_ranges = True
    hub.push("org/net", {"model.onnx": LARGE})
    assert opened(hub).read("net/1/model.onnx", 700, 10) == LARGE[700:710]


def test_an_unchanged_repository_costs_one_request(hub: HubServer):
    hub.push("org/net", {f"{n}/1/model.py": b"" for n in "abcdefgh"})
    store = opened(hub)
    assert len(listed(store)) == 8
    before = len(hub.requests)
    assert len(listed(store)) == 8
    assert len(hub.requests) - before == 1


def test_what_was_listed_is_read_even_when_a_commit_follows(hub: HubServer):
    hub.push("org/net", {"model.onnx": b"first", "model.onnx_data": b"weights"})
    store = opened(hub)
    first, weights = store.find()
    hub.push("org/net", {"model.onnx": b"other", "model.onnx_data": b"WEIGHTS"})
    assert store.read(first.path, stamp=first.stamp) == b"first"
    assert store.read(weights.path, stamp=weights.stamp) == b"weights"


def test_a_node_refuses_files_of_another_commit(hub: HubServer):
    hub.push("org/net", {"model.onnx": b"first"})
    (first,) = opened(hub).find()
    hub.push("org/net", {"model.onnx": b"other"})
    with pytest.raises(FileChangedError):
        opened(hub).read(first.path, stamp=first.stamp)


def test_a_commit_that_leaves_a_file_alone_leaves_its_stamp(hub: HubServer):
    hub.push("org/net", {"model.onnx": b"first"})
    store = opened(hub)
    (first,) = store.find()
    hub.push("org/net", {"model.onnx": b"first", "README.md": b"more"})
    assert list(store.find()) == [first]
    assert opened(hub).read(first.path, stamp=first.stamp) == b"first"


@pytest.mark.parametrize("shown", ["v1", "refs%2Fpr%2F1"])
def test_a_revision_is_read(hub: HubServer, shown: str):
    hub.push("org/net", {"model.onnx": b"new"})
    hub.push("org/net", {"model.onnx": b"old"}, shown.replace("%2F", "/"))
    store = opened(hub, f"hf://org/net@{shown}")
    assert store.location == f"hf://org/net@{shown}"
    assert store.read("net/1/model.onnx") == b"old"


def test_a_repository_that_is_not_there_is_named(hub: HubServer):
    with pytest.raises(NotFoundError, match=r"no such repository or revision .'org/net', 'main'"):
        listed(opened(hub))


def test_a_refused_token_is_not_shown(hub: HubServer):
    hub.push("org/net", {"model.onnx": b"x"})
    store = open_store("hf://org/net", hub.environ | {"HF_TOKEN": "wrong-secret"}, QUICK)
    with pytest.raises(UnavailableError, match=r"access is denied .*HF_TOKEN") as caught:
        listed(store)
    assert "wrong-secret" not in caught.value.message


def test_the_hub_is_only_read(hub: HubServer):
    hub.push("org/net", {"model.onnx": b"x"})
    with pytest.raises(UnsupportedError, match="only read"):
        opened(hub).write("net/2/model.onnx", b"")
    with pytest.raises(UnsupportedError, match="only read"):
        opened(hub).remove("net/1/model.onnx")


def test_a_poll_sees_the_models_and_what_changed(hub: HubServer):
    hub.push("org/net", {"a/1/model.py": b"1", "b/1/model.py": b"1"})
    filesystem = RemoteFileSystem(opened(hub), Skeletons())
    assert [each.name for each in filesystem.entries("hf://org/net")] == ["a", "b"]
    before = dict(filesystem.digests)
    hub.push("org/net", {"a/1/model.py": b"1", "b/1/model.py": b"2"})
    filesystem.entries("hf://org/net")
    assert [name for name in before if before[name] != filesystem.digests[name]] == ["b"]


@pytest.mark.parametrize(
    ("paths", "shown"),
    [
        (["1/model.onnx", "config.pbtxt", "README.md"], ["n/1/model.onnx", "n/config.pbtxt"]),
        (["xgboost.json"], ["n/1/xgboost.json", "n/config.pbtxt"]),
        (["net.xml", "net.bin"], ["n/1/model.bin", "n/1/model.xml"]),
        (
            ["saved_model/saved_model.pb", "saved_model/variables/variables.index"],
            [
                "n/1/model.savedmodel/saved_model.pb",
                "n/1/model.savedmodel/variables/variables.index",
            ],
        ),
        (
            ["best.pt", "labels.txt", "config.pbtxt"],
            ["n/1/model.pt", "n/config.pbtxt", "n/labels.txt"],
        ),
        (["model.pt2", "model.onnx", "model.safetensors"], ["n/1/model.onnx"]),
        (["a.onnx", "a.data", "b.data"], ["n/1/a.data", "n/1/model.onnx"]),
    ],
)
def test_layouts(paths: list[str], shown: list[str]):
    assert sorted(show_repository("hf://o/n", "n", paths)) == shown


@pytest.mark.parametrize(
    ("paths", "message"),
    [
        (["README.md"], "there is no model file, expected a model.onnx"),
        (["a.onnx", "b.onnx"], "several model files, 'a.onnx', 'b.onnx': expected one"),
        (["a.onnx", "b.pt"], "several model files"),
    ],
)
def test_repositories_without_one_model_are_refused(paths: list[str], message: str):
    with pytest.raises(InvalidArgumentError, match=message):
        show_repository("hf://o/n", "n", paths)


_FOLDERS = ["1", "2", "a", "é", "variables", ".git", ""]
_FILES = ["model.onnx", "model.onnx_data", "b.pt", "saved_model.pb", "m.xml", "m.bin", "labels.txt"]
_PART = st.sampled_from([*_FOLDERS, *_FILES, "config.pbtxt", "README.md", "xgboost.json"])
_SHOWN = {"model.onnx", "model.onnx_data", "README.md"}


@given(st.sets(st.lists(_PART, min_size=1, max_size=3).map("/".join)))
@example(_SHOWN)
def test_any_tree_is_shown_from_its_own_files_or_refused(paths: set[str]):
    try:
        shown = show_repository("hf://o/n", "n", paths)
    except InvalidArgumentError:
        assert paths != _SHOWN
        return
    assert shown
    assert all("/" in path for path in shown)
    assert {source for source in shown.values() if isinstance(source, str)} <= paths
