# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
import subprocess
import sys
import tomllib
from importlib.metadata import EntryPoint, EntryPoints
from pathlib import Path

import pytest

from backends import registry
from backends.api.backend import Environment
from backends.api.errors import InvalidArgumentError
from backends.api.model_config import ModelConfig
from backends.identity.backend import IdentityBackend
from tests.support.models import context_of


def test_platform_names_choose_the_backend_that_implements_them():
    assert registry.backend_name("", "onnxruntime_onnx") == "onnxruntime"
    assert registry.backend_name("python", "onnxruntime_onnx") == "python"


@pytest.mark.parametrize(
    ("name", "made"),
    [
        ("fil", "backends.fil.backend.FilBackend"),
        ("identity", "backends.identity.backend.IdentityBackend"),
        ("llm", "backends.llm.backend.LlmBackend"),
        ("onnxruntime", "backends.onnxruntime.backend.OnnxRuntimeBackend"),
        ("onnxruntime_onnx", "backends.onnxruntime.backend.OnnxRuntimeBackend"),
        ("openvino", "backends.openvino.backend.OpenVinoBackend"),
        ("python", "backends.python.backend.PythonBackend"),
        ("pytorch", "backends.pytorch.backend.PyTorchBackend"),
    ],
)
def test_built_in_backends_are_created_by_name(name, made):
    found = type(registry.create_backend(name))
    assert f"{found.__module__}.{found.__qualname__}" == made


def test_unknown_backend_has_the_text_of_triton(tmp_path):
    context = context_of(tmp_path, 'name: "m" backend: "unknown"')
    with pytest.raises(InvalidArgumentError) as raised:
        registry.backend_for(context)
    assert raised.value.message == (
        "unable to find backend library for backend 'unknown', try specifying runtime on the "
        "model configuration."
    )


@pytest.mark.parametrize(
    ("name", "hint"),
    [("pytohn", "did you mean 'python'?"), ("onnx-runtime", "did you mean 'onnxruntime'?")],
)
def test_a_mistyped_backend_has_the_nearest_one(name, hint):
    with pytest.raises(InvalidArgumentError) as raised:
        registry.create_backend(name)
    assert raised.value.message.endswith(f"model configuration. {hint}")


def test_backend_whose_package_is_missing_says_which(monkeypatch):
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    monkeypatch.delitem(sys.modules, "backends.onnxruntime.backend", raising=False)
    monkeypatch.delitem(sys.modules, "backends.onnxruntime.session", raising=False)
    with pytest.raises(InvalidArgumentError) as raised:
        registry.create_backend("onnxruntime")
    assert raised.value.message == (
        "unable to find backend library for backend 'onnxruntime', try specifying runtime on the "
        "model configuration. Its Python package 'onnxruntime' is not installed; pip install "
        "manta-serve[cpu]"
    )


@pytest.mark.parametrize(
    ("backend", "extra"),
    [
        ("fil", "trees"),
        ("llm", "llm"),
        ("openvino", "openvino"),
        ("pytorch", "pytorch"),
        ("tensorflow", "tensorflow"),
        ("tensorrt", "tensorrt"),
    ],
)
def test_framework_that_an_instance_lacks_is_named_with_its_extra_in_one_line(backend, extra):
    with pytest.raises(InvalidArgumentError) as raised, registry.extra_named(backend):
        import no_such_framework_zq  # noqa: F401
    assert raised.value.message.endswith(
        f"package 'no_such_framework_zq' is not installed; pip install manta-serve[{extra}]"
    )
    assert "\n" not in raised.value.message


@pytest.mark.parametrize("backend", ["dali", "tensorrtllm", "vllm"])
def test_backend_that_users_of_triton_know_is_refused_with_advice(backend):
    with pytest.raises(InvalidArgumentError, match=r"configuration\. \w+"):
        registry.create_backend(backend)


SERVER_WITHOUT_MODELS = """
import sys
import cluster.cli, cluster.app, cluster.controller.controller, deployments.ingress
import deployments.instance.actor
frameworks = "onnxruntime torch tensorflow openvino openvino_genai tensorrt tensorrt_lean treelite"
frameworks += " xgboost lightgbm sklearn scipy"
print([name for name in frameworks.split() if name in sys.modules])
"""


@pytest.mark.slow
def test_server_without_models_imports_no_framework():
    done = subprocess.run(
        [sys.executable, "-c", SERVER_WITHOUT_MODELS], check=True, capture_output=True, text=True
    )
    assert done.stdout.strip() == "[]"


def test_entry_points_add_backends_but_never_replace_built_in_ones(monkeypatch):
    def installed(*, group, name=None):
        points = EntryPoints(
            EntryPoint(
                added, "backends.identity.backend:IdentityBackend", registry.ENTRY_POINT_GROUP
            )
            for added in ("mine", "python")
        )
        return points.select(group=group, **({"name": name} if name else {}))

    monkeypatch.setattr(registry, "entry_points", installed)
    assert isinstance(registry.create_backend("mine"), IdentityBackend)
    assert not isinstance(registry.create_backend("python"), IdentityBackend)


def test_environment_of_a_model_is_found_without_importing_its_backend(monkeypatch):
    config = ModelConfig("m", backend="python", parameters={"EXECUTION_ENV_PATH": "/e.tar.gz"})
    monkeypatch.setitem(sys.modules, "backends.python.backend", None)
    environment = registry.environment_of(config, "/m")
    assert environment is not None
    assert environment.path == "/e.tar.gz"
    assert environment.command.endswith("launcher.py /e.tar.gz")
    assert registry.environment_of(ModelConfig("m", backend="python"), "/m") is None


@pytest.mark.parametrize("backend", ["onnxruntime", "identity", "pytorch", "unknown"])
def test_models_of_every_backend_may_bring_an_environment(backend):
    config = ModelConfig("m", backend=backend, parameters={"EXECUTION_ENV_PATH": "/e"})
    assert registry.environment_of(config, "/m").path == "/e"


def test_python_based_backend_brings_an_environment_for_models_without_one(tmp_path):
    library = tmp_path / "model.py"
    packed = tmp_path / "pb_exec_env_model.py.tar.gz"
    config = ModelConfig("m", backend="b")
    assert registry.environment_of(config, "/m", str(library)) is None
    packed.touch()
    assert registry.environment_of(config, "/m", str(library)).path == str(packed)
    own = ModelConfig("m", backend="b", parameters={"EXECUTION_ENV_PATH": "/e"})
    assert registry.environment_of(own, "/m", str(library)).path == "/e"


def test_python_based_backend_is_known_without_loading_it(tmp_path):
    (tmp_path / "b").mkdir()
    (tmp_path / "b/model.py").write_text("raise RuntimeError")

    def library(backend="b", runtime=""):
        config = ModelConfig("m", backend=backend, runtime=runtime)
        return registry.python_library(config, "/nowhere", 1, str(tmp_path))

    assert library() == library(runtime="model.py") == f"{tmp_path}/b/model.py"
    assert library("c") == library("python") == library("python", "model.py") == ""


def test_entry_points_add_environments_for_backends_of_their_own(monkeypatch):
    def installed(*, group, name):
        points = EntryPoints(
            EntryPoint(
                added,
                "tests.unit.backends.test_registry:environment_at_x",
                registry.ENVIRONMENT_GROUP,
            )
            for added in ("mine", "identity")
        )
        return points.select(group=group, name=name)

    monkeypatch.setattr(registry, "entry_points", installed)
    parameters = {"EXECUTION_ENV_PATH": "/e"}
    mine, own = (ModelConfig("m", backend=b, parameters=parameters) for b in ("mine", "identity"))
    assert registry.environment_of(mine, "/m").path == "/x"
    assert registry.environment_of(own, "/m").path == "/e"


def environment_at_x(config, model_dir):
    return Environment("X", "/x", "")


def test_extras_that_are_named_exist_and_all_cpu_has_those_for_cpus():
    project = tomllib.loads((Path(__file__).parents[3] / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"]
    named = set(registry._EXTRA_OF_BACKEND.values())
    assert named <= extras.keys()
    (everything,) = extras["all-cpu"]
    assert set(everything.removeprefix("manta-serve[").rstrip("]").split(",")) == named - {
        "tensorrt"
    }
