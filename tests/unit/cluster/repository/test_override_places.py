# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""What a config that comes with a load may not make the nodes do."""

import json
from pathlib import Path

import pytest

from backends.api.errors import TritonError
from cluster.repository.repository import ModelRepository

FETCHING = '{"working_dir": "https://169.254.169.254/latest.zip"}'


def config_with(value: str) -> str:
    parameters = {"runtime_env": {"string_value": value}}
    return json.dumps({"name": "m", "backend": "python", "parameters": parameters})


def write_model(root: Path, config: str = "") -> ModelRepository:
    (root / "m/1").mkdir(parents=True)
    (root / "m/1/model.py").write_text("x")
    (root / "m/config.pbtxt").write_text(config)
    return ModelRepository([str(root)])


def test_a_config_of_a_load_does_not_make_nodes_fetch(tmp_path: Path):
    repository = write_model(tmp_path)
    with pytest.raises(TritonError, match="'runtime_env' of model 'm' cannot come with a load"):
        repository.read_model("m", override_config_json=config_with(FETCHING))


def test_nor_does_one_that_comes_with_files(tmp_path: Path):
    repository = write_model(tmp_path)
    files = {"file:1/model.py": b"x"}
    with pytest.raises(TritonError, match="cannot come with a load"):
        repository.read_model("m", override_config_json=config_with(FETCHING), override_files=files)


def test_a_broken_config_allows_nothing(tmp_path: Path):
    repository = write_model(tmp_path, "no config {")
    with pytest.raises(TritonError, match="cannot come with a load"):
        repository.read_model("m", override_config_json=config_with(FETCHING))


def test_what_the_repository_asks_for_may_be_repeated(tmp_path: Path):
    own = "{}"
    text = 'parameters { key: "runtime_env" value { string_value: "{}" } }'
    repository = write_model(tmp_path, text)
    model = repository.read_model("m", override_config_json=config_with(own))
    assert model.config.parameters["runtime_env"] == own
