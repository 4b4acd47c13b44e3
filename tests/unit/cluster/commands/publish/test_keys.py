# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""What `manta model` signs and encrypts loads where models have to be signed."""

import stat
from pathlib import Path
from uuid import uuid4

import pytest

from backends.api.errors import InternalError
from cluster.cli import main
from cluster.repository.agents.policy import AgentPolicy
from cluster.repository.agents.prepared import PreparedModels
from cluster.repository.contents import RepositoryModel
from cluster.repository.repository import ModelRepository
from cluster.repository.stores.opening import open_store
from tests.support.broken_repositories import COMPLETING, PYTHON, onnx_file


@pytest.fixture(params=["directory", "store"])
def location(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    is_store = request.param == "store"
    return f"memory://{uuid4().hex}/models" if is_store else str(tmp_path / "repository")


@pytest.fixture(autouse=True)
def keys(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Keys made by the command, and sources, in the directory that tests run in."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "net.onnx").write_bytes(onnx_file())
    (tmp_path / "other.onnx").write_bytes(onnx_file(batched=True))
    for name in ("release.pem", "strange.pem"):
        assert main(["model", "keygen", name]) == 0
    assert main(["model", "keygen", "model.key", "--encryption"]) == 0


def run(*arguments: str) -> int:
    return main(["model", *arguments])


def add(location: str, *flags: str, path: str = "net.onnx", name: str = "m") -> int:
    return run("add", path, "--name", name, "--to", location, *flags)


def read(location: str, tmp_path: Path, name: str = "m") -> RepositoryModel:
    """Read a model as a server does that wants signatures."""
    repository = ModelRepository(
        [location],
        agents=PreparedModels(tmp_path / f"copies-{uuid4().hex}"),
        policy=AgentPolicy.of(True, "release.pub.pem"),
    )
    return repository.read_model(name)


def checks(location: str) -> int:
    return main(
        ["check", location, "--require-signed-models=true", "--trusted-keys=release.pub.pem"]
    )


def test_keys_are_for_their_owner_only_and_never_replaced(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("release.pem", "model.key"):
        assert stat.S_IMODE((tmp_path / name).stat().st_mode) == 0o600
    before = (tmp_path / "release.pub.pem").read_bytes()
    capsys.readouterr()
    assert run("keygen", "release.pem") == 1
    assert "a key is never replaced" in capsys.readouterr().err
    assert run("keygen", "model.key", "--encryption") == 1
    assert (tmp_path / "release.pub.pem").read_bytes() == before


def test_a_signed_addition_loads_where_models_must_be_signed(location: str, tmp_path: Path) -> None:
    assert add(location, "--sign-with", "release.pem") == 0
    assert add(location, "--sign-with", "release.pem", "--next", path="other.onnx") == 0
    assert read(location, tmp_path).versions == (2,)
    assert checks(location) == 0


def test_a_signed_addition_with_a_config_loads_too(location: str, tmp_path: Path) -> None:
    (tmp_path / "code.py").write_bytes(PYTHON)
    assert add(location, "--sign-with", "release.pem", path="code.py") == 0
    assert read(location, tmp_path).config.backend == "python"


@pytest.mark.parametrize("flags", [(), ("--sign-with", "strange.pem")])
def test_an_addition_that_is_not_signed_by_a_known_key_does_not_load(
    location: str, tmp_path: Path, flags: tuple[str, ...]
) -> None:
    assert add(location, *flags) == 0
    with pytest.raises(InternalError, match="sign"):
        read(location, tmp_path)
    assert checks(location) == 1


def test_a_model_can_be_signed_where_it_is(location: str, tmp_path: Path) -> None:
    (tmp_path / "code.py").write_bytes(COMPLETING)
    assert add(location, path="code.py") == 0
    store = open_store(location)
    store.write("m/config.pbtxt", b'backend: "python"\n')
    assert run("sign", "m", "--with", "release.pem", "--at", location) == 0
    assert read(location, tmp_path).config.backend == "python"
    # And once more after it has been edited.
    store.write("m/config.pbtxt", b'backend: "python" max_batch_size: 0\n')
    with pytest.raises(InternalError, match="manifest"):
        read(location, tmp_path)
    assert run("sign", "m", "--with", "release.pem", "--at", location) == 0
    read(location, tmp_path)


def test_what_has_changed_since_it_was_published_is_not_signed(
    location: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert add(location) == 0
    store = open_store(location)
    store.write("m/1/model.onnx", onnx_file(batched=True))
    assert run("sign", "m", "--with", "release.pem", "--at", location) == 1
    assert "the manifest says" in capsys.readouterr().err
    assert store.look("m/1/manifest.sig") is None


def test_a_config_that_this_key_has_not_signed_is_not_signed_by_an_addition(
    location: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert add(location, "--sign-with", "release.pem") == 0
    store = open_store(location)
    store.write("m/config.pbtxt", b'backend: "python"\n')
    assert add(location, "--sign-with", "release.pem", "--next") == 1
    assert "look at it, then sign it with 'manta model sign m'" in capsys.readouterr().err
    assert store.look("m/2/model.onnx") is None
    assert run("sign", "m", "--with", "release.pem", "--at", location) == 0
    assert add(location, "--sign-with", "release.pem", "--next") == 0


@pytest.fixture
def encrypted(location: str) -> str:
    flags = ("--encrypt-with", "model.key", "--sign-with", "release.pem")
    assert add(location, *flags) == 0
    assert add(location, *flags, "--next") == 0
    return location


def test_an_encrypted_addition_has_no_plain_file_and_says_how_it_is_decrypted(
    encrypted: str, tmp_path: Path
) -> None:
    store = open_store(encrypted)
    assert sorted(file.path for file in store.find("m/2")) == [
        "m/2/manifest.json",
        "m/2/manifest.sig",
        "m/2/model.onnx.enc",
    ]
    assert onnx_file() not in store.read("m/2/model.onnx.enc")
    config = store.read("m/config.pbtxt").decode()
    assert f'"{tmp_path / "model.key"}"' in config
    assert checks(encrypted) == 0


def test_an_encrypted_addition_to_a_directory_loads_decrypted(tmp_path: Path) -> None:
    location = str(tmp_path / "repository")
    assert add(location, "--encrypt-with", "model.key", "--sign-with", "release.pem") == 0
    model = read(location, tmp_path)
    assert Path(model.model_dir, "1/model.onnx").read_bytes() == onnx_file()


def test_an_encrypted_addition_to_a_store_names_its_agents(encrypted: str, tmp_path: Path) -> None:
    files = read(encrypted, tmp_path).files
    if files is not None:
        assert [call.name for call in files[2].agents] == ["verify", "decrypt"]


def test_a_config_that_does_not_decrypt_is_told_what_to_add(
    location: str, capsys: pytest.CaptureFixture[str]
) -> None:
    store = open_store(location)
    store.write("m/config.pbtxt", b'backend: "onnxruntime"\n')
    assert add(location, "--encrypt-with", "model.key") == 1
    assert "add to it: model_repository_agents { agents [" in capsys.readouterr().err
    assert store.look("m/1/model.onnx.enc") is None


@pytest.mark.parametrize("flag", ["--sign-with", "--encrypt-with"])
def test_a_key_that_is_none_is_refused_before_anything_is_written(
    location: str, tmp_path: Path, flag: str, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "none").write_text("no key")
    for path in ("none", "missing"):
        assert add(location, flag, path) == 1
    assert "manta model keygen" in capsys.readouterr().err
    assert open_store(location).look("m/1/model.onnx") is None


def test_a_dry_run_names_signatures_and_encrypted_files(
    location: str, capsys: pytest.CaptureFixture[str]
) -> None:
    flags = ("--encrypt-with", "model.key", "--sign-with", "release.pem", "--dry-run")
    capsys.readouterr()
    assert add(location, *flags) == 0
    names = [line.rpartition("/m/")[2] for line in capsys.readouterr().out.splitlines()[1:]]
    assert names == [
        "config.pbtxt",
        "manifest.json",
        "manifest.sig",
        "1/model.onnx.enc",
        "1/manifest.json",
        "1/manifest.sig",
    ]
