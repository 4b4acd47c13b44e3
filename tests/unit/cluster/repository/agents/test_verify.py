# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
import base64
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric import ed448
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
)

from backends.api.errors import InvalidArgumentError, UnavailableError
from cluster.repository.agents.contracts import Action, AgentModel
from cluster.repository.agents.verify import AGENT
from tests.support.signed_models import sign_model


def private_pem(key: Ed25519PrivateKey | ed448.Ed448PrivateKey) -> bytes:
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())


def public_pem(key: Ed25519PrivateKey | ed448.Ed448PrivateKey) -> bytes:
    return key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)


KEY, STRANGER = Ed25519PrivateKey.generate(), Ed25519PrivateKey.generate()


@pytest.fixture
def keys(tmp_path: Path) -> Path:
    folder = tmp_path / "keys"
    folder.mkdir()
    (folder / "release.pem").write_bytes(public_pem(KEY))
    (folder / "other.pem").write_bytes(public_pem(Ed25519PrivateKey.generate()))
    (folder / "notes.txt").write_text("no key")
    return folder


@pytest.fixture
def model(tmp_path: Path, keys: Path) -> AgentModel:
    directory = tmp_path / "m"
    for version in ("1", "2"):
        (directory / version).mkdir(parents=True)
        (directory / version / "model.onnx").write_bytes(b"weights")
    (directory / "config.pbtxt").write_text('backend: "onnxruntime"')
    sign_model(directory, private_pem(KEY))
    return AgentModel("m", directory, {"keys": str(keys)})


def verify(model: AgentModel) -> None:
    AGENT.act(Action.LOAD, model)


def refusal(model: AgentModel) -> str:
    with pytest.raises(InvalidArgumentError) as caught:
        verify(model)
    return caught.value.message


def test_a_model_signed_by_a_known_key_loads(model: AgentModel, keys: Path):
    verify(model)
    verify(AgentModel("m", model.directory, {"keys": str(keys / "release.pem")}))


def test_signing_again_is_the_same(model: AgentModel):
    before = (model.directory / "1" / "manifest.sig").read_bytes()
    sign_model(model.directory, private_pem(KEY))
    assert (model.directory / "1" / "manifest.sig").read_bytes() == before


def test_a_signature_may_be_its_bytes(model: AgentModel):
    file = model.directory / "2" / "manifest.sig"
    file.write_bytes(base64.b64decode(file.read_bytes()))
    verify(model)


def append(path: str) -> Callable[[Path], object]:
    return lambda root: (root / path).write_bytes((root / path).read_bytes() + b" ")


def remove(path: str) -> Callable[[Path], object]:
    return lambda root: (root / path).unlink()


def write(path: str, content: bytes = b"x") -> Callable[[Path], object]:
    return lambda root: (root / path).write_bytes(content)


def sign_as_stranger(root: Path) -> None:
    sign_model(root, private_pem(STRANGER))


def swap_signatures(root: Path) -> None:
    (root / "2" / "model.onnx").write_bytes(b"others")
    sign_model(root, private_pem(KEY))
    (root / "1" / "manifest.sig").write_bytes((root / "2" / "manifest.sig").read_bytes())


@pytest.mark.parametrize(
    ("tamper", "told"),
    [
        (append("1/model.onnx"), "'model.onnx' of version 1 of model 'm' has 8 bytes"),
        (
            write("1/model.onnx", b"WEIGHTS"),
            "Mismatched SHA256 hash for file model.onnx of version 1",
        ),
        (write("2/extra"), "file 'extra' of version 2 of model 'm' is there and not"),
        (remove("2/model.onnx"), "file 'model.onnx' of version 2 of model 'm' is in the manifest"),
        (append("config.pbtxt"), "file 'config.pbtxt' of model 'm' has"),
        (write("labels.txt"), "file 'labels.txt' of model 'm' is there and not"),
        (append("1/manifest.json"), "the signature of version 1 of model 'm' is by no key"),
        (
            remove("1/manifest.json"),
            "version 1 of model 'm' is not signed: there is no 'manifest.json'",
        ),
        (
            remove("1/manifest.sig"),
            "version 1 of model 'm' is not signed: there is no 'manifest.sig'",
        ),
        (remove("manifest.json"), "model 'm' is not signed"),
        (write("1/manifest.sig"), "no Ed25519 signature"),
        (write("1/manifest.sig", b"x" * 64), "is by no key that the server trusts (other.pem, "),
        (sign_as_stranger, "is by no key that the server trusts"),
        (swap_signatures, "the signature of version 1 of model 'm' is by no key"),
    ],
)
def test_a_model_that_was_tampered_with_does_not_load(
    model: AgentModel, tamper: Callable[[Path], object], told: str
):
    tamper(model.directory)
    assert told in refusal(model)


def test_a_version_that_is_not_signed_does_not_load(model: AgentModel):
    (model.directory / "3").mkdir()
    assert "version 3 of model 'm' is not signed" in refusal(model)


def test_a_model_of_versions_only_needs_no_manifest_of_its_own(model: AgentModel):
    for name in ("config.pbtxt", "manifest.json", "manifest.sig"):
        (model.directory / name).unlink()
    verify(model)


def test_an_empty_model_is_not_signed(tmp_path: Path, keys: Path):
    (tmp_path / "m").mkdir()
    assert "is not signed" in refusal(AgentModel("m", tmp_path / "m", {"keys": str(keys)}))


def test_keys_that_are_none_are_told(model: AgentModel, keys: Path, tmp_path: Path):
    def with_keys(value: str) -> AgentModel:
        return AgentModel("m", model.directory, {"keys": value})

    assert "knows no keys" in refusal(AgentModel("m", model.directory, {}))
    assert "expected an absolute path" in refusal(with_keys("keys"))
    assert "No such file" in refusal(with_keys(str(tmp_path / "none")))
    assert "cannot be read" in refusal(with_keys(str(keys / "notes.txt")))
    (tmp_path / "empty").mkdir()
    assert "no trusted key in folder" in refusal(with_keys(str(tmp_path / "empty")))
    (keys / "wrong.pem").write_bytes(public_pem(ed448.Ed448PrivateKey.generate()))
    assert "expected an Ed25519 key" in refusal(with_keys(str(keys)))


def test_a_key_to_sign_with_has_to_be_ed25519(model: AgentModel):
    for pem in (b"", b"x", private_pem(ed448.Ed448PrivateKey.generate()), public_pem(KEY)):
        with pytest.raises(InvalidArgumentError, match="the key to sign with"):
            sign_model(model.directory, pem)


def test_without_cryptography_the_extra_is_named(
    model: AgentModel, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setitem(sys.modules, "cryptography.hazmat.primitives.serialization", None)
    with pytest.raises(UnavailableError, match=r"manta-serve\[security\]"):
        verify(model)


@pytest.mark.parametrize("action", [action for action in Action if action is not Action.LOAD])
def test_only_a_load_is_verified(model: AgentModel, action: Action):
    AGENT.act(action, AgentModel("m", model.directory, {}))
