# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Repositories in stores: what is listed, read, kept, and refused."""

import hashlib
import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
)

from backends.api.errors import InternalError, UnavailableError
from cluster.repository.agents.policy import AgentPolicy
from cluster.repository.agents.prepared import PreparedModels
from cluster.repository.remote import RemoteFileSystem
from cluster.repository.repository import ModelRepository
from cluster.repository.skeletons import Skeletons
from cluster.repository.stores.contracts import StoredFile
from cluster.repository.stores.local import LocalStore
from deployments.model_files.contracts import AgentCall, ModelFile
from tests.support.signed_models import sign_model


class WatchedStore(LocalStore):
    """A store in a directory that tells what is asked of it, and may be away."""

    def __init__(self, directory: str) -> None:
        super().__init__(directory)
        self.location = "s3://bucket/models"
        self.asked: list[str] = []
        self.is_away = False
        self.before_read: Callable[[str], None] = lambda path: None

    def find(self, path: str = "") -> Iterator[StoredFile]:
        self.asked.append(f"find {path}")
        if self.is_away:
            raise UnavailableError("the store is away")
        return super().find(path)

    def read(
        self, path: str, offset_bytes: int = 0, length_bytes: int | None = None, stamp: str = ""
    ) -> bytes:
        self.asked.append(f"read {path}")
        self.before_read(path)
        return super().read(path, offset_bytes, length_bytes, stamp)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    path = tmp_path / "bucket"
    path.mkdir()
    return path


@pytest.fixture
def store(root: Path) -> WatchedStore:
    return WatchedStore(str(root))


@pytest.fixture
def repository(store: WatchedStore, tmp_path: Path) -> ModelRepository:
    filesystem = RemoteFileSystem(store, Skeletons(str(tmp_path)))
    return ModelRepository(
        [store.location], open_location=lambda location: (filesystem, store.location)
    )


def put(root: Path, **files: str) -> None:
    for name, text in files.items():
        path = root / name.replace("__", "/").replace("_DOT_", ".")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


def put_model(root: Path, config: str = 'backend: "python"') -> None:
    put(
        root,
        m__config_DOT_pbtxt=config,
        m__1__model_DOT_py="one",
        m__2__model_DOT_py="two!",
        m__2__weights="w" * 10,
        m__shared="all",
    )


def test_a_version_is_loaded_from_its_own_files_and_the_shared_ones(
    root: Path, repository: ModelRepository, store: WatchedStore
):
    put_model(root)
    found = repository.read_model("m")
    assert found.files is not None
    files = found.files[2]
    assert files.location == "s3://bucket/models/m"
    assert [(file.path, file.size_bytes, file.sha256) for file in files.files] == [
        ("2/model.py", 4, ""),
        ("2/weights", 10, ""),
        ("config.pbtxt", 17, ""),
        ("shared", 3, ""),
    ]
    assert all(file.stamp for file in files.files)


def test_stand_in_has_all_names_and_small_texts(root: Path, repository: ModelRepository):
    put_model(root)
    folder = Path(repository.read_model("m").model_dir)
    assert folder.name == "m"
    assert (folder / "2/model.py").read_text() == "two!"
    assert (folder / "2/weights").read_bytes() == b""
    assert (folder / "1").is_dir()


def test_stand_in_goes_with_the_last_who_holds_it(root: Path, store: WatchedStore, tmp_path: Path):
    put_model(root)
    skeletons = Skeletons(str(tmp_path / "skeletons"))
    folder = RemoteFileSystem(store, skeletons).localise("s3://bucket/models/m")
    skeletons.hold(folder)
    skeletons.hold(folder)
    skeletons.release(folder)
    assert Path(folder).is_dir()
    skeletons.release(folder)
    assert not Path(folder).exists()
    assert list((tmp_path / "skeletons").iterdir()) == []


def test_only_large_files_that_changed_change_nothing_else(root: Path, repository: ModelRepository):
    put_model(root)
    before = repository.read_model("m")
    put(root, m__1__model_DOT_py="changed")
    after = repository.read_model("m")
    assert before.file_digests[2] == after.file_digests[2]
    assert before.digest != after.digest


def test_scan_asks_for_one_listing_whatever_there_is(
    root: Path, repository: ModelRepository, store: WatchedStore
):
    put_model(root)
    put(root, other__1__model_DOT_py="x", README="no model")
    scan = repository.scan()
    assert list(scan.directories) == ["m", "other"]
    assert store.asked == ["find "]
    assert scan.digests["m"] == repository.read_model("m").digest


def test_a_store_that_is_away_keeps_its_models_and_says_why(
    root: Path, repository: ModelRepository, store: WatchedStore
):
    put_model(root)
    repository.scan()
    store.is_away = True
    scan = repository.scan()
    assert list(scan.directories) == ["m"]
    assert scan.errors == {"s3://bucket/models": "the store is away"}
    assert scan.stale == {"s3://bucket/models"}
    store.is_away = False
    assert repository.scan().errors == {}


def test_a_store_that_was_never_there_has_no_models(
    repository: ModelRepository, store: WatchedStore
):
    store.is_away = True
    scan = repository.scan()
    assert (list(scan.directories), scan.stale) == ([], frozenset())


def test_a_model_that_changes_while_it_is_read_is_read_again(
    root: Path, repository: ModelRepository, store: WatchedStore
):
    put_model(root)

    def upload(path: str) -> None:
        store.before_read = lambda path: None
        put(root, m__2__weights="newer weights")

    store.before_read = upload
    found = repository.read_model("m")
    assert found.files is not None
    assert ("2/weights", 13) in [(file.path, file.size_bytes) for file in found.files[2].files]


def test_a_model_that_never_settles_is_refused(
    root: Path, repository: ModelRepository, store: WatchedStore
):
    put_model(root)
    count = [0]

    def upload(path: str) -> None:
        count[0] += 1
        put(root, m__2__weights="w" * count[0])

    store.before_read = upload
    with pytest.raises(InternalError, match="3 times in a row"):
        repository.read_model("m")


def put_manifest(root: Path, **rows: object) -> None:
    text = json.dumps({"files": {name.replace("_DOT_", "."): row for name, row in rows.items()}})
    put(root, m__2__manifest_DOT_json=text)


def test_manifest_tells_digests(root: Path, repository: ModelRepository):
    put_model(root)
    digest = hashlib.sha256(b"wwwwwwwwww").hexdigest()
    put_manifest(root, weights={"sha256": digest, "size_bytes": 10})
    found = repository.read_model("m")
    assert found.files is not None
    (row,) = [file for file in found.files[2].files if file.path == "2/weights"]
    assert isinstance(row, ModelFile)
    assert row.sha256 == digest


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ({"sha256": "0" * 64, "size_bytes": 11}, "file 'weights' has 10 bytes, manifest 's3://"),
        ({"sha256": "nope", "size_bytes": 10}, "m/2/manifest.json' has 'nope' as sha256"),
        ({"sha256": "0" * 64}, "missing required field `size_bytes`"),
        ("nope", "expected"),
    ],
)
def test_a_manifest_that_does_not_fit_is_refused(
    root: Path, repository: ModelRepository, row: object, message: str
):
    put_model(root)
    put_manifest(root, weights=row)
    with pytest.raises(InternalError) as caught:
        repository.read_model("m")
    assert message in caught.value.message


def test_a_manifest_naming_what_is_not_there_waits_for_its_upload(
    root: Path, repository: ModelRepository
):
    put_model(root)
    put_manifest(root, missing={"sha256": "0" * 64, "size_bytes": 1})
    with pytest.raises(InternalError, match="lists 'missing', which is not there"):
        repository.read_model("m")


class HostileStore(WatchedStore):
    """A store whose keys are no paths."""

    def find(self, path: str = "") -> Iterator[StoredFile]:
        yield StoredFile("m/../../etc/passwd", 1, "x")


def test_keys_that_lead_elsewhere_are_refused(root: Path, tmp_path: Path):
    store = HostileStore(str(root))
    filesystem = RemoteFileSystem(store, Skeletons(str(tmp_path)))
    with pytest.raises(InternalError, match="cannot be a path"):
        filesystem.entries(f"{store.location}/m")


def with_agents(
    store: WatchedStore, tmp_path: Path, policy: AgentPolicy | None = None
) -> ModelRepository:
    filesystem = RemoteFileSystem(store, Skeletons(str(tmp_path / "skeletons")))
    return ModelRepository(
        [store.location],
        open_location=lambda location: (filesystem, store.location),
        agents=PreparedModels(tmp_path / "copies"),
        policy=policy or AgentPolicy(),
    )


def test_agents_travel_with_the_files_that_nodes_fetch(
    root: Path, store: WatchedStore, tmp_path: Path
):
    agents = 'model_repository_agents { agents { name: "unpack" } }'
    put_model(root, f'backend: "python" {agents}')
    found = with_agents(store, tmp_path).read_model("m")
    assert found.files is not None
    assert found.files[2].agents == (AgentCall("unpack"),)
    assert found.prepared is None


def test_an_agent_that_is_unknown_is_refused_before_a_node_is_asked(
    root: Path, store: WatchedStore, tmp_path: Path
):
    put_model(root, 'backend: "python" model_repository_agents { agents { name: "none" } }')
    with pytest.raises(InternalError, match=r"unable to find 'libtritonrepoagent_none\.so'"):
        with_agents(store, tmp_path).read_model("m")


@pytest.fixture
def signed_only(root: Path, store: WatchedStore, tmp_path: Path) -> ModelRepository:
    put_model(root)
    key = Ed25519PrivateKey.generate()
    pem = key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    (tmp_path / "key.pem").write_bytes(pem)
    private = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    sign_model(root / "m", private)
    policy = AgentPolicy(require_signed=True, trusted_keys=str(tmp_path / "key.pem"))
    return with_agents(store, tmp_path, policy)


def test_a_signed_model_is_read_and_verified_again_by_its_node(signed_only: ModelRepository):
    found = signed_only.read_model("m")
    assert found.files is not None
    assert [call.name for call in found.files[2].agents] == ["verify"]


@pytest.mark.parametrize("path", ["config.pbtxt", "2/requirements.txt", "shared.txt"])
def test_a_text_that_nobody_signed_is_refused_before_it_is_used(
    signed_only: ModelRepository, root: Path, path: str
):
    (root / "m" / path).write_text('backend: "python" max_batch_size: 1')
    with pytest.raises(InternalError, match="sign"):
        signed_only.read_model("m")


def test_a_model_without_signature_is_refused_before_its_environment_is_made(
    signed_only: ModelRepository, root: Path
):
    (root / "m" / "manifest.sig").unlink()
    with pytest.raises(InternalError, match="is not signed"):
        signed_only.read_model("m")
