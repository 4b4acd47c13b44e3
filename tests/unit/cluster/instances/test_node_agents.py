# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Repository agents of models in stores, as the node that fetches the files runs them."""

import hashlib
import stat
import zipfile
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
)

from backends.api.errors import InvalidArgumentError
from cluster.repository.agents.decrypt import encrypt_file
from cluster.repository.agents.run import make_tree
from cluster.repository.stores.local import LocalStore
from cluster.repository.stores.source import StoreSource
from cluster.repository.trees import copy_tree
from deployments.instance.node_files import NodeFiles, PeerAddress
from deployments.model_files.cache import NodeCache
from deployments.model_files.contracts import AgentCall, ModelFile, ModelFiles
from deployments.model_files.registry import MemoryRegistry
from tests.support.signed_models import sign_model

KEY = bytes(range(32))
WEIGHTS = b"weights" * 1000


@pytest.fixture
def model(tmp_path: Path) -> Path:
    """The model's directory, as the store has it."""
    directory = tmp_path / "store" / "m"
    (directory / "1").mkdir(parents=True)
    (directory / "config.pbtxt").write_text('backend: "python"')
    (directory / "1" / "weights").write_bytes(WEIGHTS)
    return directory


@pytest.fixture
def cache(tmp_path: Path) -> Path:
    return tmp_path / "cache"


@pytest.fixture
def node(cache: Path, model: Path) -> Iterator[NodeFiles]:
    source = StoreSource(LocalStore(str(model)))
    made = NodeFiles(
        str(cache), 0, b"s" * 32, PeerAddress("127.0.0.1"), MemoryRegistry(), lambda _: source, "n1"
    )
    yield made
    made.close()


def files_of(model: Path, *agents: AgentCall) -> ModelFiles:
    found = LocalStore(str(model)).find()
    files = (ModelFile(file.path, file.size_bytes, file.stamp) for file in found)
    return ModelFiles("s3://bucket/m", tuple(sorted(files, key=lambda f: f.path)), agents)


def ensure(node: NodeFiles, files: ModelFiles) -> None:
    node.ensure("m", files, partial(make_tree, "m", files.agents, "{}"))


def loaded(node: NodeFiles, cache: Path, files: ModelFiles) -> dict[str, bytes]:
    """Return what an instance of the node finds."""
    ensure(node, files)
    with NodeCache(cache) as of_instance:
        directory = of_instance.find(files)
        assert directory is not None
        return {
            str(path.relative_to(directory)): path.read_bytes()
            for path in directory.rglob("*")
            if path.is_file()
        }


def refusal(node: NodeFiles, cache: Path, files: ModelFiles) -> str:
    with pytest.raises(InvalidArgumentError) as caught:
        ensure(node, files)
    with NodeCache(cache) as of_instance:
        assert of_instance.find(files) is None
    return caught.value.message


def checksum(digest: str) -> AgentCall:
    return AgentCall("checksum", (("SHA256:1/weights", digest),))


def test_files_with_the_right_checksum_are_loaded(node, cache, model):
    files = files_of(model, checksum(hashlib.sha256(WEIGHTS).hexdigest()))
    assert loaded(node, cache, files) == {
        "1/weights": WEIGHTS,
        "config.pbtxt": b'backend: "python"',
    }


def test_what_agents_only_look_at_takes_no_room_of_its_own(node, cache, model):
    files = files_of(model, checksum(hashlib.sha256(WEIGHTS).hexdigest()))
    ensure(node, files)
    with NodeCache(cache) as of_instance:
        directory = of_instance.find(files)
        assert directory is not None
        assert (directory / "1" / "weights").stat().st_nlink > 1


def test_a_checksum_mismatch_refuses_the_files(node, cache, model):
    files = files_of(model, checksum("0" * 64))
    assert "Mismatched SHA256 hash for file 1/weights" in refusal(node, cache, files)


def test_a_refused_model_is_asked_for_again_with_the_next_load(node, cache, model):
    refusal(node, cache, files_of(model, checksum("0" * 64)))
    (model / "1" / "weights").write_bytes(b"other")
    right = files_of(model, checksum(hashlib.sha256(b"other").hexdigest()))
    assert loaded(node, cache, right)["1/weights"] == b"other"


def test_archives_become_the_files_in_them(node, cache, model):
    with zipfile.ZipFile(model / "1" / "more.zip", "w") as archive:
        archive.writestr("vocabulary", "words")
    found = loaded(node, cache, files_of(model, AgentCall("unpack")))
    assert found["1/vocabulary"] == b"words"
    assert "1/more.zip" not in found


def test_encrypted_files_are_decrypted_in_a_tree_of_their_own(node, cache, model, tmp_path):
    encrypt_file(model / "1" / "weights", model / "1" / "secret.enc", KEY)
    (tmp_path / "key").write_bytes(KEY)
    call = AgentCall("decrypt", (("key_file", str(tmp_path / "key")),))
    assert loaded(node, cache, files_of(model, call))["1/secret"] == WEIGHTS
    assert "1/secret.enc" in loaded(node, cache, files_of(model))


@pytest.fixture
def signed(model: Path, tmp_path: Path) -> AgentCall:
    key = Ed25519PrivateKey.generate()
    pem = key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    (tmp_path / "key.pem").write_bytes(pem)
    sign_model(model, key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
    return AgentCall("verify", (("keys", str(tmp_path / "key.pem")),))


def test_a_signed_model_is_loaded_from_files_that_are_no_links(node, cache, model, signed):
    files = files_of(model, signed)
    assert loaded(node, cache, files)["1/weights"] == WEIGHTS
    with NodeCache(cache) as of_instance:
        directory = of_instance.find(files)
        assert directory is not None
        assert (directory / "1" / "weights").stat().st_nlink == 1


def test_a_model_that_changed_after_it_was_signed_is_refused(node, cache, model, signed):
    (model / "1" / "weights").write_bytes(WEIGHTS[:-1] + b"!")
    assert "Mismatched SHA256 hash" in refusal(node, cache, files_of(model, signed))


def test_an_agent_may_write_into_the_files_it_gets(tmp_path):
    source = tmp_path / "file"
    source.write_bytes(b"one")
    source.chmod(0o444)
    (tmp_path / "m").mkdir()
    source.rename(tmp_path / "m" / "file")
    copy_tree(tmp_path / "m", tmp_path / "copy", links=False)
    assert (tmp_path / "copy" / "file").stat().st_mode & stat.S_IWUSR
