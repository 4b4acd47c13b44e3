# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
import json
import os

import pytest

from backends.api.errors import InvalidArgumentError
from backends.api.model_config import ModelConfig
from cluster.placement.environments import environment_stamp, requirements_of, runtime_env_of


def env_of(tmp_path, *, backend="python", **parameters):
    config = ModelConfig("m", backend=backend, parameters=parameters)
    return runtime_env_of(config, str(tmp_path))


def lines_of(tmp_path, *, backend="python", **parameters):
    config = ModelConfig("m", backend=backend, parameters=parameters)
    found = requirements_of(config, str(tmp_path), 1)
    return found and found.lines


@pytest.fixture
def requirements(tmp_path):
    (tmp_path / "1").mkdir()
    return tmp_path / "1" / "requirements.txt"


def test_model_without_a_wish_runs_in_the_servers_environment(tmp_path):
    assert env_of(tmp_path) == {}


def test_environment_path_starts_the_process_through_the_launcher(tmp_path):
    found = env_of(tmp_path, EXECUTION_ENV_PATH="$$TRITON_MODEL_DIRECTORY/my env.tar.gz")
    assert found["py_executable"].endswith(f"launcher.py '{tmp_path}/my env.tar.gz'")


def test_environment_path_may_not_depend_on_the_servers_folder(tmp_path):
    with pytest.raises(InvalidArgumentError, match="absolute path"):
        env_of(tmp_path, EXECUTION_ENV_PATH="env.tar.gz")


def test_runtime_env_goes_to_ray_as_it_is(tmp_path):
    given = {"uv": ["a"], "env_vars": {"K": "v"}}
    assert env_of(tmp_path, runtime_env=json.dumps(given)) == given


@pytest.mark.parametrize("text", ["", "[]", "{", '{"pip": 3}', '{"pip": ["a"], "uv": ["a"]}'])
def test_runtime_env_that_ray_would_refuse_is_refused(tmp_path, text):
    with pytest.raises(InvalidArgumentError, match="parameter 'runtime_env' of model 'm'"):
        env_of(tmp_path, runtime_env=text)


def test_environment_path_takes_other_fields_of_runtime_env_along(tmp_path):
    found = env_of(tmp_path, EXECUTION_ENV_PATH="/e", runtime_env='{"env_vars": {"K": "v"}}')
    assert found.keys() == {"env_vars", "py_executable"}
    with pytest.raises(InvalidArgumentError, match="give one of them"):
        env_of(tmp_path, EXECUTION_ENV_PATH="/e", runtime_env='{"uv": ["a"]}')


def test_requirements_are_installed_unless_a_parameter_is_given(tmp_path, requirements):
    requirements.write_text("a==1\n")
    assert lines_of(tmp_path) == ("a==1",)
    assert not env_of(tmp_path)
    assert lines_of(tmp_path, runtime_env="{}") is None
    assert lines_of(tmp_path, EXECUTION_ENV_PATH="/e") is None
    assert lines_of(tmp_path, backend="onnxruntime") is None


def test_models_of_every_backend_may_name_an_environment(tmp_path):
    found = env_of(tmp_path, backend="onnxruntime", EXECUTION_ENV_PATH="/e")
    assert found["py_executable"].endswith("launcher.py /e")
    given = {"env_vars": {"K": "v"}}
    assert env_of(tmp_path, backend="onnxruntime", runtime_env=json.dumps(given)) == given


def test_python_based_backend_brings_its_packages(tmp_path):
    config = ModelConfig("m", backend="b", runtime="model.py")
    library = tmp_path / "b/model.py"
    library.parent.mkdir()
    stamps = {environment_stamp(config, "/m", str(library))}
    library.touch()
    stamps.add(environment_stamp(config, "/m", str(library)))
    (library.parent / "requirements.txt").write_text("a==1\n")
    found = requirements_of(config, "/m", 1, str(library))
    assert found.lines == ("a==1",)
    (library.parent / "pb_exec_env_model.py.tar.gz").touch()
    assert requirements_of(config, "/m", 1, str(library)) is None
    assert runtime_env_of(config, "/m", str(library)).keys() == {"py_executable"}
    stamps.add(environment_stamp(config, "/m", str(library)))
    assert len(stamps) == 3


def test_stamp_without_an_environment_tells_nothing_of_the_node():
    assert not environment_stamp(ModelConfig("m", backend="python"), "/m")


def test_stamp_follows_the_file(tmp_path):
    parameters = {"EXECUTION_ENV_PATH": "$$TRITON_MODEL_DIRECTORY/e"}
    config = ModelConfig("m", backend="python", parameters=parameters)
    stamps = {environment_stamp(config, str(tmp_path))}
    (tmp_path / "e").write_text("1")
    stamps.add(environment_stamp(config, str(tmp_path)))
    os.utime(tmp_path / "e", ns=(1, 1))
    stamps.add(environment_stamp(config, str(tmp_path)))
    assert len(stamps) == 3
