# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
import hashlib
from pathlib import Path

import pytest

from backends.api.errors import InvalidArgumentError, TritonError, UnsupportedError
from cluster.repository.agents.checksum import AGENT
from cluster.repository.agents.contracts import Action, AgentModel


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    (tmp_path / "1").mkdir()
    (tmp_path / "1" / "model.so").write_bytes(b"code")
    (tmp_path / "data_file").write_bytes(b"data")
    return tmp_path


def load(directory: Path, **parameters: str) -> None:
    AGENT.act(Action.LOAD, AgentModel("m", directory, parameters))


def refusal(directory: Path, key: str, value: str = "x") -> TritonError:
    with pytest.raises(TritonError) as caught:
        AGENT.act(Action.LOAD, AgentModel("m", directory, {key: value}))
    return caught.value


def test_files_with_the_digests_named_load(directory: Path):
    md5 = hashlib.md5(b"code").hexdigest()
    sha256 = hashlib.sha256(b"data").hexdigest()
    load(directory, **{"MD5:1/model.so": md5, "md5:1/model.so": md5, "SHA256:data_file": sha256})


def test_a_mismatch_is_told_in_tritons_words(directory: Path):
    error = refusal(directory, "MD5:1/model.so", "invalid_checksum")
    assert isinstance(error, InvalidArgumentError)
    assert error.message == (
        "Mismatched MD5 hash for file 1/model.so, expect: invalid_checksum, got: "
        + hashlib.md5(b"code").hexdigest()
    )
    assert "Mismatched SHA256 hash" in refusal(directory, "sha256:1/model.so").message


def test_one_wrong_digest_among_right_ones_is_enough(directory: Path):
    right = hashlib.md5(b"data").hexdigest()
    with pytest.raises(InvalidArgumentError, match="Mismatched MD5 hash for file 1/model"):
        load(directory, **{"MD5:data_file": right, "MD5:1/model.so": right})


def test_a_missing_file_is_told_in_tritons_words(directory: Path):
    told = refusal(directory, "MD5:1/none").message
    assert told == "failed to open text file for read 1/none: No such file or directory"


def test_an_unknown_algorithm_is_unsupported(directory: Path):
    error = refusal(directory, "CRC32:data_file")
    assert isinstance(error, UnsupportedError)
    assert error.message.startswith("Unsupported checksum algorithm: CRC32")


def test_a_key_without_an_algorithm_is_refused(directory: Path):
    assert refusal(directory, "data_file").message.startswith("failed to parse key: data_file")


@pytest.mark.parametrize("path", ["../outside", "/etc/hostname", "1/../../outside", "a\0b"])
def test_a_file_outside_of_the_model_is_not_read(directory: Path, path: str):
    assert refusal(directory, f"MD5:{path}").message.startswith("failed to open text file")


@pytest.mark.parametrize("action", [action for action in Action if action is not Action.LOAD])
def test_only_a_load_is_checked(directory: Path, action: Action):
    AGENT.act(action, AgentModel("m", directory, {"MD5:data_file": "wrong"}))
