# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""What repository agents would say of a model is in the check, for directories and for stores."""

import hashlib
from pathlib import Path
from uuid import uuid4

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
)

from cluster.cli import main
from cluster.repository.agents.decrypt import encrypt_file
from cluster.repository.stores.opening import open_store
from tests.support.broken_repositories import CPU, TENSORS, onnx_file
from tests.support.signed_models import sign_model

CONFIG = f'backend: "onnxruntime"\n{TENSORS}{CPU}'
WEIGHTS = "1/model.onnx"


def agents(*texts: str) -> str:
    return f"model_repository_agents {{ agents [ {', '.join(texts)} ] }}\n"


def checksum(digest: str, path: str = WEIGHTS) -> str:
    return f'{{ name: "checksum" parameters {{ key: "MD5:{path}" value: "{digest}" }} }}'


RIGHT = hashlib.md5(onnx_file(), usedforsecurity=False).hexdigest()


@pytest.fixture(params=["directory", "store"])
def is_store(request: pytest.FixtureRequest) -> bool:
    return bool(request.param == "store")


class Repository:
    """A repository with a model, checked where it lies or from a store."""

    def __init__(self, root: Path, capsys: pytest.CaptureFixture[str], is_store: bool) -> None:
        self.model = root / "m"
        self._root = root
        self._capsys = capsys
        self._is_store = is_store

    def write(self, config: str, **files: bytes) -> None:
        (self.model / "1").mkdir(parents=True, exist_ok=True)
        (self.model / "config.pbtxt").write_text(config)
        for path, content in (files or {WEIGHTS: onnx_file()}).items():
            (self.model / path).write_bytes(content)

    def check(self, *flags: str) -> list[str]:
        """Return what is said; the last line has the numbers."""
        location = str(self._root)
        if self._is_store:
            location = f"memory://{uuid4().hex}/models"
            store = open_store(location)
            for path in self._root.rglob("*"):
                if path.is_file():
                    store.write(path.relative_to(self._root).as_posix(), path)
        code = main(["check", location, *flags])
        lines = self._capsys.readouterr().out.replace(f"{location}/", "").splitlines()
        assert code == int(any(": error: " in line for line in lines))
        return [line for line in lines if ": note: " not in line or "agents" in line]


@pytest.fixture
def repository(tmp_path: Path, capsys: pytest.CaptureFixture[str], is_store: bool) -> Repository:
    return Repository(tmp_path / "models", capsys, is_store)


def test_a_checksum_that_differs_is_told_with_its_place_and_the_fix(repository: Repository) -> None:
    repository.write(CONFIG + agents(checksum("0" * 32)))
    assert repository.check() == [
        f"m/config.pbtxt:6:1: error: Mismatched MD5 hash for file {WEIGHTS}, expect: {'0' * 32}, "
        f"got: {RIGHT}; copy the file anew, or correct the digest",
        "0 of 1 models load, 1 errors, 0 warnings",
    ]


def test_other_defects_are_told_beside_a_checksum_that_differs(repository: Repository) -> None:
    repository.write(CONFIG + agents(checksum("0" * 32)), **{"1/other.onnx": b""})
    errors = repository.check()[:-1]
    told = ("failed to open text file for read", "unable to find")
    assert all(text in line for text, line in zip(told, errors, strict=True))


def test_a_checksum_that_fits_is_no_defect(repository: Repository) -> None:
    repository.write(CONFIG + agents(checksum(RIGHT)))
    assert repository.check() == ["1 of 1 models load, 0 errors, 0 warnings"]


def test_a_checksum_of_a_file_that_is_not_there_is_told(repository: Repository) -> None:
    repository.write(CONFIG + agents(checksum(RIGHT, "1/weights")))
    (error, _) = repository.check()
    assert "failed to open text file for read 1/weights: No such file or directory" in error


@pytest.fixture
def keys(tmp_path: Path) -> tuple[bytes, tuple[str, ...]]:
    """A private key, and the flags of a server that knows it."""
    key = Ed25519PrivateKey.generate()
    public = key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    (tmp_path / "key.pem").write_bytes(public)
    private = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    return private, ("--require-signed-models=true", f"--trusted-keys={tmp_path / 'key.pem'}")


def test_a_signed_model_loads_where_models_must_be_signed(
    repository: Repository, keys: tuple[bytes, tuple[str, ...]]
) -> None:
    repository.write(CONFIG)
    sign_model(repository.model, keys[0])
    assert repository.check(*keys[1]) == ["1 of 1 models load, 0 errors, 0 warnings"]


@pytest.mark.parametrize("path", [WEIGHTS, "config.pbtxt"])
def test_a_file_that_was_changed_after_signing_is_told(
    repository: Repository, keys: tuple[bytes, tuple[str, ...]], path: str
) -> None:
    repository.write(CONFIG)
    sign_model(repository.model, keys[0])
    file = repository.model / path
    content = file.read_bytes()
    file.write_bytes(content[:-1] + bytes([content[-1] ^ 1]) if path == WEIGHTS else content + b"#")
    (error, _) = repository.check(*keys[1])
    name = path.rpartition("/")[2]
    assert f"file {name}" in error or f"file '{name}'" in error
    assert error.count("; ") == 1


def test_a_model_that_is_not_signed_says_what_to_do(
    repository: Repository, keys: tuple[bytes, tuple[str, ...]]
) -> None:
    repository.write(CONFIG)
    (error, _) = repository.check(*keys[1])
    assert error.endswith("sign the model with a key that the server trusts")


def test_what_an_agent_makes_of_files_is_checked_or_said_to_be_open(
    repository: Repository, tmp_path: Path, is_store: bool
) -> None:
    (tmp_path / "key").write_bytes(bytes(32))
    parameter = f'parameters {{ key: "key_file" value: "{tmp_path / "key"}" }}'
    repository.write(CONFIG + agents(f'{{ name: "decrypt" {parameter} }}'), **{"1/plain": b""})
    (repository.model / "1/plain").write_bytes(onnx_file())
    sealed = repository.model / f"{WEIGHTS}.enc"
    encrypt_file(repository.model / "1/plain", sealed, bytes(32))
    (repository.model / "1/plain").unlink()
    lines = repository.check()
    assert lines[-1] == "1 of 1 models load, 0 errors, 0 warnings"
    assert [": note: not checked: what the repository agents decrypt make" in x for x in lines] == (
        [True, False] if is_store else [False]
    )
    if not is_store:
        sealed.write_bytes(sealed.read_bytes()[:-1])
        assert "encrypted with another key, or has been changed" in repository.check()[0]


def test_a_file_that_differs_from_its_manifest_is_told_for_a_directory(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "net.onnx").write_bytes(onnx_file())
    models = tmp_path / "models"
    add = ["model", "add", str(tmp_path / "net.onnx"), "--name", "m", "--to", str(models)]
    assert main(add) == 0
    (models / "m" / WEIGHTS).write_bytes(onnx_file(batched=True))
    capsys.readouterr()
    assert main(["check", str(models)]) == 1
    assert "the manifest says" in capsys.readouterr().out
