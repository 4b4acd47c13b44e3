# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml
from hypothesis import example, given
from hypothesis import strategies as st

from backends.api.errors import (
    InvalidArgumentError,
    NotFoundError,
    UnavailableError,
    UnsupportedError,
)
from cluster.repository.stores.contracts import Store
from cluster.repository.stores.mlflow_flavours import show_artifacts
from cluster.repository.stores.opening import open_store
from cluster.repository.stores.plain_models import PlainModel
from cluster.repository.stores.retry import RetryPolicy
from deployments.model_files.contracts import FileChangedError
from tests.support.mlflow_server import MlflowServer

CONTENT = bytes(range(256)) * 100
QUICK = RetryPolicy(attempts=3, base_s=0.001, cap_s=0.01)


def mlmodel(**flavours: object) -> bytes:
    return yaml.safe_dump({"artifact_path": "model", "flavors": flavours}).encode()


def onnx_files(content: bytes = CONTENT, **more: bytes) -> dict[str, bytes]:
    about = mlmodel(onnx={"data": "model.onnx"}, python_function={"data": "model.onnx"})
    return {"MLmodel": about, "conda.yaml": b"", "model.onnx": content, **more}


@pytest.fixture
def server() -> Iterator[MlflowServer]:
    with MlflowServer(user="me:very-secret") as running:
        yield running


def opened(server: MlflowServer, rest: str = "models/net") -> Store:
    return open_store(f"mlflow://{server.address}/{rest}", server.environ, QUICK)


def listed(store: Store, path: str = "") -> list[str]:
    return [file.path for file in store.find(path)]


def test_registered_versions_are_versions(server: MlflowServer):
    for number in (1, 2, 10):
        server.register("net", number, onnx_files())
    server.register("net", 11, onnx_files(), status="PENDING_REGISTRATION")
    server.register("other", 3, onnx_files())
    store = opened(server)
    versions = ["net/1/model.onnx", "net/10/model.onnx", "net/2/model.onnx"]
    assert listed(store) == versions
    assert store.read("net/10/model.onnx", 700, 1000) == CONTENT[700:1700]
    node = opened(server, "models/net/net")
    assert listed(node) == ["1/model.onnx", "10/model.onnx", "2/model.onnx"]


def test_one_version_or_alias_is_served_alone(server: MlflowServer):
    for number in (1, 2, 3):
        server.register("net", number, onnx_files(b"%d" % number))
    server.aliases["net", "champion"] = 2
    assert listed(opened(server, "models/net/1")) == ["net/1/model.onnx"]
    assert listed(opened(server, "models/net@champion")) == ["net/2/model.onnx"]
    assert opened(server, "models/net@champion/net").read("2/model.onnx") == b"2"


def test_a_server_without_ranges_sends_a_file_once(server: MlflowServer):
    server.register("net", 1, onnx_files())
    store = opened(server)
    (file,) = store.find()
    before = len(server.requests)
    parts = [store.read(file.path, at, 512, file.stamp) for at in range(0, len(CONTENT), 512)]
    assert b"".join(parts) == CONTENT
    assert len(server.requests) - before == 1


def test_a_poll_of_a_registry_that_did_not_change_asks_for_versions_only(server: MlflowServer):
    server.register("net", 1, onnx_files())
    store = opened(server)
    first = list(store.find())
    before = len(server.requests)
    assert list(store.find()) == first
    assert len(server.requests) - before == 1
    server.register("net", 2, onnx_files())
    assert len(list(store.find())) == 2


def test_a_node_reads_one_version_without_looking_at_the_others(server: MlflowServer):
    for number in range(1, 6):
        server.register("net", number, onnx_files())
    stamp = next(f.stamp for f in opened(server).find() if f.path == "net/4/model.onnx")
    server.requests.clear()
    node = opened(server, "models/net/net")
    assert node.read("4/model.onnx", 0, 10, stamp) == CONTENT[:10]
    assert not any("search" in path for path in server.requests)
    assert all("net-4" in path for path in server.requests if "artifacts" in path)


def test_a_version_that_was_made_anew_is_another(server: MlflowServer):
    server.register("net", 1, onnx_files())
    store = opened(server)
    (file,) = store.find()
    server.register("net", 1, onnx_files(CONTENT[::-1]))
    server.versions["net", 1]["creation_timestamp"] = 2000
    assert list(store.find()) != [file]
    with pytest.raises(FileChangedError):
        store.read(file.path, 0, 10, file.stamp)
    del server.versions["net", 1]
    with pytest.raises(FileChangedError):
        opened(server).read(file.path, 0, 10, file.stamp)


def test_artifacts_may_lie_in_a_store(server: MlflowServer, tmp_path: Path):
    for name, content in onnx_files().items():
        (tmp_path / name).write_bytes(content)
    server.register("net", 1, {}, uri=tmp_path.as_uri())
    store = opened(server)
    (file,) = store.find()
    assert store.read(file.path, 5, 10, file.stamp) == CONTENT[5:15]
    (tmp_path / "model.onnx").write_bytes(b"other")
    with pytest.raises(FileChangedError):
        store.read(file.path, 5, 10, file.stamp)
    assert store.read(file.path) == b"other"


def test_other_artifact_locations_are_refused(server: MlflowServer):
    server.register("net", 1, {}, uri="dbfs:/x")
    with pytest.raises(UnsupportedError, match="at 'dbfs:', expected mlflow-artifacts:"):
        listed(opened(server))


def test_a_newest_version_that_cannot_be_served_is_told(server: MlflowServer):
    server.register("net", 1, onnx_files())
    sklearn = {"MLmodel": mlmodel(sklearn={"pickled_model": "model.pkl"}), "model.pkl": b"x"}
    server.register("net", 2, sklearn)
    with pytest.raises(InvalidArgumentError, match=r"version 2 .*'sklearn'.*skl2onnx"):
        listed(opened(server))
    server.register("net", 3, onnx_files())
    assert listed(opened(server)) == ["net/1/model.onnx", "net/3/model.onnx"]


def test_a_model_that_is_not_registered_is_named(server: MlflowServer):
    server.register("net", 1, onnx_files())
    with pytest.raises(NotFoundError, match="'no' has no version that is ready"):
        listed(opened(server, "models/no"))
    with pytest.raises(NotFoundError, match="no such model, version or alias"):
        listed(opened(server, "models/net/7"))


def test_a_refused_password_is_not_shown(server: MlflowServer):
    environ = server.environ | {"MLFLOW_TRACKING_PASSWORD": "wrong-secret"}
    store = open_store(f"mlflow://{server.address}/models/net", environ, QUICK)
    with pytest.raises(UnavailableError, match=r"access is denied .*MLFLOW_TRACKING") as caught:
        listed(store)
    assert "wrong-secret" not in caught.value.message


def test_a_registry_is_only_read(server: MlflowServer):
    server.register("net", 1, onnx_files())
    with pytest.raises(UnsupportedError, match="only read"):
        opened(server).write("net/2/model.onnx", b"")
    with pytest.raises(UnsupportedError, match="only read"):
        opened(server).remove("net/1/model.onnx")


@pytest.mark.parametrize(
    ("flavours", "paths", "version", "shared"),
    [
        (
            {"onnx": {"data": "model.onnx"}},
            ["model.onnx", "0f-uuid", "requirements.txt", "metadata/x"],
            ["0f-uuid", "model.onnx"],
            [],
        ),
        (
            {"onnx": {"data": "model.onnx"}},
            ["model.onnx", "config.pbtxt", "labels.txt"],
            ["model.onnx"],
            ["config.pbtxt", "labels.txt"],
        ),
        (
            {"tensorflow": {"saved_model_dir": "tf2model"}},
            ["tf2model/saved_model.pb", "tf2model/variables/variables.index"],
            ["model.savedmodel/saved_model.pb", "model.savedmodel/variables/variables.index"],
            [],
        ),
        (
            {"tensorflow": {"data": "data", "model_type": "keras"}},
            ["data/keras_module.txt", "data/model/saved_model.pb", "data/model/assets/v.txt"],
            ["model.savedmodel/assets/v.txt", "model.savedmodel/saved_model.pb"],
            [],
        ),
        (
            {"tensorflow": {"saved_model_dir": "."}},
            ["saved_model.pb", "variables/variables.index"],
            [
                # What lies beside it is part of it, MLflow's own files too.
                "model.savedmodel/MLmodel",
                "model.savedmodel/conda.yaml",
                "model.savedmodel/saved_model.pb",
                "model.savedmodel/variables/variables.index",
            ],
            [],
        ),
        ({"pytorch": {"model_data": "data"}}, ["data/model.pth"], ["model.pt"], []),
        ({"pytorch": {"model_data": "data"}}, ["data/model.pt2"], ["model.pt2"], []),
        ({"xgboost": {"data": "model.xgb"}}, ["model.xgb"], ["xgboost.model"], ["config.pbtxt"]),
        ({"xgboost": {"data": "model.json"}}, ["model.json"], ["xgboost.json"], ["config.pbtxt"]),
        ({"xgboost": {"data": "model.ubj"}}, ["model.ubj"], ["xgboost.ubj"], ["config.pbtxt"]),
        ({"lightgbm": {"data": "model.lgb"}}, ["model.lgb"], ["model.txt"], ["config.pbtxt"]),
        (
            {"triton": {"data": "net"}},
            ["net/config.pbtxt", "net/1/model.py", "net/3/model.py", "net/labels.txt"],
            ["model.py"],
            ["config.pbtxt", "labels.txt"],
        ),
    ],
)
def test_flavours(
    flavours: dict[str, object], paths: list[str], version: list[str], shared: list[str]
):
    shown = show_artifacts(["MLmodel", "conda.yaml", *paths], mlmodel(**flavours))
    assert isinstance(shown, PlainModel)
    assert (sorted(shown.version), sorted(shown.shared)) == (version, shared)


@pytest.mark.parametrize(
    ("text", "paths", "problem"),
    [
        (b"- x", [], "is no YAML with 'flavors'"),
        (b"\xff", [], "is no YAML with 'flavors'"),
        (mlmodel(onnx={"data": "gone.onnx"}), [], "'onnx' names 'gone.onnx', which is not there"),
        (mlmodel(lightgbm={"data": "model.pkl"}), ["model.pkl"], "a pickle"),
        (mlmodel(keras={"data": "data"}), ["data/model.keras"], "no SavedModel in 'data'"),
        (mlmodel(python_function={}), [], "the flavours 'python_function', expected onnx"),
        (mlmodel(triton={"data": "net"}), ["net/config.pbtxt"], "no version directory"),
    ],
)
def test_artifacts_that_cannot_be_served(text: bytes, paths: list[str], problem: str):
    shown = show_artifacts(paths, text)
    assert isinstance(shown, str)
    assert problem in shown


_PATH = st.lists(
    st.sampled_from(["1", "a", "..", "model.onnx", "model.pth", "saved_model.pb", "model.lgb", ""]),
    max_size=3,
).map("/".join)
_VALUE = st.one_of(_PATH, st.none(), st.integers(), st.lists(_PATH, max_size=1))
_FLAVOUR = st.dictionaries(
    st.sampled_from(["data", "model_data", "saved_model_dir"]), _VALUE, max_size=3
)
_NAMES = st.sampled_from(["onnx", "triton", "tensorflow", "pytorch", "xgboost", "sklearn"])


@given(st.dictionaries(_NAMES, st.one_of(_FLAVOUR, _VALUE)), st.sets(_PATH))
@example({"tensorflow": {}}, {"/saved_model.pb"})
@example({"tensorflow": {}}, {"saved_model.pb"})
def test_any_artifact_is_shown_from_its_own_files_or_told_why_not(
    flavours: dict[str, object], paths: set[str]
):
    shown = show_artifacts(paths, mlmodel(**flavours))
    if isinstance(shown, str):
        assert shown
        return
    assert shown.filename
    assert shown.version
    sources = {*shown.version.values(), *shown.shared.values()}
    assert {source for source in sources if isinstance(source, str)} <= paths
