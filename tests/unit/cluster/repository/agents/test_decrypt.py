# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
import base64
import itertools
import sys
import tempfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from backends.api.errors import InvalidArgumentError, TritonError, UnavailableError
from cluster.repository.agents.contracts import Action, AgentModel
from cluster.repository.agents.decrypt import AGENT, decrypt_file, encrypt_file, read_key

KEY = bytes(range(32))
CHUNK = 16


@pytest.fixture
def model(tmp_path: Path) -> AgentModel:
    directory = tmp_path / "m"
    (directory / "1").mkdir(parents=True)
    (directory / "1" / "plain").write_bytes(b"weights")
    encrypt_file(directory / "1" / "plain", directory / "1" / "model.onnx.enc", KEY)
    (directory / "1" / "plain").unlink()
    (tmp_path / "key").write_bytes(KEY)
    return AgentModel("m", directory, {"key_file": str(tmp_path / "key")})


def with_parameters(model: AgentModel, **parameters: str) -> AgentModel:
    return AgentModel(model.name, model.directory, parameters)


def refusal(model: AgentModel) -> str:
    with pytest.raises(InvalidArgumentError) as caught:
        AGENT.act(Action.LOAD, model)
    return caught.value.message


def sealed(folder: Path, content: bytes, chunk_bytes: int = CHUNK) -> Path:
    (folder / "plain").write_bytes(content)
    encrypt_file(folder / "plain", folder / "sealed", KEY, chunk_bytes=chunk_bytes)
    return folder / "sealed"


def cannot_be_opened(file: Path) -> None:
    with pytest.raises(InvalidArgumentError):
        decrypt_file(file, file.with_name("opened"), KEY)
    assert not file.with_name("opened").exists()
    assert not list(file.parent.glob("*.partial"))


@given(st.binary(max_size=100), st.integers(1, 40))
def test_what_was_encrypted_comes_back(content: bytes, chunk_bytes: int):
    with tempfile.TemporaryDirectory() as folder:
        file = sealed(Path(folder), content, chunk_bytes)
        decrypt_file(file, Path(folder) / "opened", KEY)
        assert (Path(folder) / "opened").read_bytes() == content


@given(st.integers(0, 2**31), st.integers(1, 255))
def test_a_changed_byte_is_noticed_wherever_it_is(place: int, change: int):
    with tempfile.TemporaryDirectory() as folder:
        file = sealed(Path(folder), b"w" * 50)
        content = bytearray(file.read_bytes())
        content[place % len(content)] ^= change
        file.write_bytes(content)
        cannot_be_opened(file)


@given(st.integers(0, 2**31))
def test_a_cut_is_noticed_wherever_it_is(place: int):
    with tempfile.TemporaryDirectory() as folder:
        file = sealed(Path(folder), b"w" * 64)
        content = file.read_bytes()
        file.write_bytes(content[: place % len(content)])
        cannot_be_opened(file)


def test_chunks_cannot_be_moved_repeated_or_left_out(tmp_path: Path):
    file = sealed(tmp_path, bytes(range(64)))
    content = file.read_bytes()
    header, step = content[:45], CHUNK + 16
    chunks = [content[at : at + step] for at in range(45, len(content), step)]
    assert len(chunks) == 4
    orders = {o for n in range(6) for o in itertools.product(range(4), repeat=n)}
    for order in sorted(orders - {(0, 1, 2, 3)})[::17]:
        file.write_bytes(header + b"".join(chunks[number] for number in order))
        cannot_be_opened(file)


def test_chunks_of_another_file_cannot_be_put_in(tmp_path: Path):
    first = sealed(tmp_path, b"a" * 32).read_bytes()
    file = sealed(tmp_path, b"b" * 32)
    second = file.read_bytes()
    file.write_bytes(second[: 45 + 32] + first[45 + 32 :])
    cannot_be_opened(file)


def test_equal_files_are_encrypted_differently(tmp_path: Path):
    assert sealed(tmp_path, b"a").read_bytes() != sealed(tmp_path, b"a").read_bytes()


def test_a_file_may_be_replaced_by_what_it_becomes(tmp_path: Path):
    file = tmp_path / "file"
    file.write_bytes(b"weights")
    encrypt_file(file, file, KEY)
    assert b"weights" not in file.read_bytes()
    decrypt_file(file, file, KEY)
    assert file.read_bytes() == b"weights"


def test_encrypted_files_lose_their_ending(model: AgentModel):
    AGENT.act(Action.LOAD, model)
    assert [path.name for path in (model.directory / "1").iterdir()] == ["model.onnx"]
    assert (model.directory / "1" / "model.onnx").read_bytes() == b"weights"


def test_files_of_another_ending_are_replaced(model: AgentModel):
    file = model.directory / "1" / "model.onnx.enc"
    file.rename(file.with_suffix(""))
    AGENT.act(Action.LOAD, with_parameters(model, **model.parameters, files="1/*.onnx,*.plan"))
    assert (model.directory / "1" / "model.onnx").read_bytes() == b"weights"


@pytest.mark.parametrize("text", [KEY.hex(), base64.b64encode(KEY).decode(), f" {KEY.hex()}\n"])
def test_a_key_may_come_from_the_environment(
    model: AgentModel, monkeypatch: pytest.MonkeyPatch, text: str
):
    monkeypatch.setenv("MODEL_KEY", text)
    AGENT.act(Action.LOAD, with_parameters(model, key_env="MODEL_KEY"))
    assert (model.directory / "1" / "model.onnx").read_bytes() == b"weights"


def test_another_key_is_told(model: AgentModel, tmp_path: Path):
    (tmp_path / "key").write_bytes(bytes(32))
    told = refusal(model)
    assert told.startswith("file '1/model.onnx.enc' of model 'm' cannot be decrypted: it was")
    assert [path.name for path in (model.directory / "1").iterdir()] == ["model.onnx.enc"]


def test_what_keeps_a_key_from_being_read_is_told(model: AgentModel, tmp_path: Path):
    assert "either 'key_file' or 'key_env'" in refusal(with_parameters(model))
    both = with_parameters(model, key_file="/x", key_env="X")
    assert "either 'key_file' or 'key_env'" in refusal(both)
    assert "has no parameter 'key'" in refusal(with_parameters(model, key=KEY.hex()))
    assert "'MANTA_NO_KEY', named by" in refusal(with_parameters(model, key_env="MANTA_NO_KEY"))
    assert "No such file" in refusal(with_parameters(model, key_file=str(tmp_path / "none")))
    assert "expected an absolute path" in refusal(with_parameters(model, key_file="key"))


def test_a_bad_key_is_refused_and_not_shown():
    for content in (b"", b"secret", b"s" * 31, b"s" * 33, b"z" * 64):
        with pytest.raises(InvalidArgumentError, match="holds no key") as caught:
            read_key(content, "key file 'k'")
        assert b"s" * 6 not in caught.value.message.encode()


def test_a_model_without_encrypted_files_is_refused(model: AgentModel):
    parameters = {**model.parameters, "files": "*.none"}
    assert "finds no file that matches '*.none'" in refusal(with_parameters(model, **parameters))


def test_a_plain_file_beside_the_encrypted_one_is_refused(model: AgentModel):
    (model.directory / "1" / "model.onnx").write_bytes(b"other")
    assert "'1/model.onnx' is there already" in refusal(model)


def test_a_plain_file_is_told(model: AgentModel):
    (model.directory / "1" / "model.onnx.enc").write_bytes(b"plain" * 100)
    assert "is not encrypted" in refusal(model)


def test_chunks_are_bounded(tmp_path: Path):
    with pytest.raises(InvalidArgumentError, match="allowed"):
        sealed(tmp_path, b"", 1 << 30)
    file = sealed(tmp_path, b"")
    content = bytearray(file.read_bytes())
    content[9:13] = b"\xff" * 4
    file.write_bytes(content)
    cannot_be_opened(file)


def test_without_cryptography_the_extra_is_named(
    model: AgentModel, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setitem(sys.modules, "cryptography.exceptions", None)
    with pytest.raises(UnavailableError, match=r"manta-serve\[security\]"):
        AGENT.act(Action.LOAD, model)


def test_a_key_of_another_length_is_refused(tmp_path: Path):
    (tmp_path / "plain").write_bytes(b"")
    with pytest.raises(TritonError, match="expected 32"):
        encrypt_file(tmp_path / "plain", tmp_path / "sealed", b"short")
    assert not (tmp_path / "sealed").exists()
