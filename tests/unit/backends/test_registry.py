# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
import sys
from importlib.metadata import EntryPoint, EntryPoints

import pytest

from backends import registry
from backends.api.errors import InvalidArgumentError
from backends.api.model_config import ModelConfig
from backends.identity.backend import IdentityBackend
from tests.support.models import context_of


def test_platform_names_choose_the_backend_that_implements_them():
    assert registry.backend_name("", "onnxruntime_onnx") == "onnxruntime"
    assert registry.backend_name("python", "onnxruntime_onnx") == "python"


@pytest.mark.parametrize("name", ["identity", "onnxruntime", "onnxruntime_onnx", "python"])
def test_built_in_backends_are_created_by_name(name):
    assert registry.create_backend(name) is not None


def test_unknown_backend_has_the_text_of_triton(tmp_path):
    context = context_of(tmp_path, 'name: "m" backend: "unknown"')
    with pytest.raises(InvalidArgumentError) as raised:
        registry.create_backend("unknown").load(context)
    assert raised.value.message == (
        "unable to find backend library for backend 'unknown', try specifying runtime on the "
        "model configuration."
    )


def test_backend_whose_package_is_missing_says_which(monkeypatch):
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    monkeypatch.delitem(sys.modules, "backends.onnxruntime.backend", raising=False)
    monkeypatch.delitem(sys.modules, "backends.onnxruntime.session", raising=False)
    with pytest.raises(InvalidArgumentError, match="package 'onnxruntime' is not installed"):
        registry.create_backend("onnxruntime")


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
    assert environment.command.endswith("environment.py /e.tar.gz")
    assert registry.environment_of(ModelConfig("m", backend="onnxruntime"), "/m") is None


def test_entry_points_add_environments_for_backends_of_their_own(monkeypatch):
    def installed(*, group, name):
        points = EntryPoints(
            EntryPoint(added, "backends.python.launcher:environment_of", registry.ENVIRONMENT_GROUP)
            for added in ("mine", "identity")
        )
        return points.select(group=group, name=name)

    monkeypatch.setattr(registry, "entry_points", installed)
    parameters = {"EXECUTION_ENV_PATH": "/e"}
    mine, own = (ModelConfig("m", backend=b, parameters=parameters) for b in ("mine", "identity"))
    assert registry.environment_of(mine, "/m").path == "/e"
    assert registry.environment_of(own, "/m") is None
