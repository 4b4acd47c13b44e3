# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Backends that are a model.py in the backend directory, which serves models without one."""

import json
import sys
from pathlib import Path

import numpy as np
import pytest

from backends.api.errors import InternalError, InvalidArgumentError, UnsupportedError
from backends.api.request import tensor_as_numpy
from tests.support.models import auto_complete, context_of, load
from tests.support.recording import execute, recorded

# Multiplies by what model.json of each model says.
BACKEND = """
import json
import os
import triton_python_backend_utils as pb_utils
from parts_zq.scale import scaled


class TritonPythonModel:
    @staticmethod
    def auto_complete_config(config):
        config.set_max_batch_size(8)
        config.add_input({"name": "X", "data_type": "TYPE_FP32", "dims": [-1]})
        config.add_output({"name": "Y", "data_type": "TYPE_FP32", "dims": [-1]})
        return config

    def initialize(self, args):
        self.args = args
        with open(os.path.join(pb_utils.get_model_dir(), "model.json")) as file:
            self.factor = json.load(file)["factor"]

    def execute(self, requests):
        arrays = [pb_utils.get_input_tensor_by_name(each, "X").as_numpy() for each in requests]
        return [
            pb_utils.InferenceResponse([pb_utils.Tensor("Y", scaled(array, self.factor))])
            for array in arrays
        ]
"""


@pytest.fixture
def backends(tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "path", [*sys.path])
    for name in [each for each in sys.modules if each.startswith("parts_zq")]:
        monkeypatch.delitem(sys.modules, name)
    folder = tmp_path / "backends" / "scale"
    (folder / "parts_zq").mkdir(parents=True)
    (folder / "model.py").write_text(BACKEND)
    (folder / "parts_zq/scale.py").write_text("def scaled(array, by):\n    return array * by\n")
    return folder.parent


def model_of(backends, name="m", *, factor=3, config="", backend="scale"):
    text = f'name: "{name}" backend: "{backend}" {config}'
    settings = {"backend-directory": str(backends)}
    context = context_of(backends.parent / "models", text, backend_config=settings)
    Path(context.version_dir, "model.json").write_text(json.dumps({"factor": factor}))
    return context


IO = "".join(
    f'{kind} {{ name: "{name}" data_type: TYPE_FP32 dims: [ -1 ] }} '
    for kind, name in (("input", "X"), ("output", "Y"))
)


def test_one_file_serves_every_model_of_the_backend(backends):
    for name, factor in (("one", 2), ("other", 5)):
        instance = load(model_of(backends, name, factor=factor, config=IO))
        request = recorded({"X": np.array([1, 2], np.float32)})
        execute(instance, request)
        assert tensor_as_numpy(request.response.outputs[0]).tolist() == [factor, 2 * factor]


def test_model_is_told_of_itself_not_of_its_backend(backends):
    context = model_of(backends, config=IO)
    args = load(context)._model.args
    assert (args["model_repository"], args["model_name"]) == (context.model_dir, "m")


def test_backend_completes_the_config(backends):
    config = auto_complete(model_of(backends))
    assert (config.max_batch_size, config.input[0].name, config.output[0].name) == (8, "X", "Y")


def test_runtime_says_that_it_is_one(backends):
    load(model_of(backends, config=IO + 'runtime: "model.py"'))


def test_file_named_for_the_model_is_not_the_backends(backends):
    load(model_of(backends, config=IO + 'default_model_filename: "model.json"'))


def test_its_modules_win_and_those_of_the_model_are_not_seen(backends):
    context = model_of(backends, config=IO)
    load(context)
    assert sys.path[0] == str(backends / "scale")
    assert context.model_dir not in sys.path


def test_unknown_backend_and_missing_file_have_the_texts_of_triton(backends):
    with pytest.raises(
        InvalidArgumentError, match="unable to find backend library for backend 'x'"
    ):
        load(model_of(backends, backend="x"))
    with pytest.raises(InvalidArgumentError) as raised:
        load(model_of(backends, backend="x", config='runtime: "model.py"'))
    assert raised.value.message == (
        "unable to find Python backend based backend library 'model.py' for model 'm', searched: "
        f"'{backends}/x/model.py'"
    )


def test_mistakes_of_the_backend_name_its_file(backends):
    file = backends / "scale/model.py"
    file.write_text("class TritonPythonModel: ...")
    with pytest.raises(InternalError) as raised:
        load(model_of(backends, config=IO))
    assert raised.value.message == f"Python model {file} does not implement `execute` method."
    file.write_text("x = 1")
    with pytest.raises(InternalError, match="module 'model' has no attribute 'TritonPythonModel'"):
        load(model_of(backends, config=IO))


def test_directory_of_tritons_backends_replaces_none_of_mantas(backends):
    (backends / "identity").mkdir()
    (backends / "identity/model.py").write_text("raise RuntimeError")
    load(model_of(backends, backend="identity", config=IO))
    with pytest.raises(InternalError, match="RuntimeError"):
        load(model_of(backends, backend="identity", config=IO + 'runtime: "model.py"'))


@pytest.mark.parametrize("backend", ["scale", "python"])
def test_stub_that_a_model_brings_is_refused_by_its_path(backends, backend):
    context = model_of(backends, backend=backend, config=IO)
    stub = Path(context.model_dir, "triton_python_backend_stub")
    stub.touch()
    for act in (load, auto_complete):
        with pytest.raises(UnsupportedError, match=f"model 'm' brings '{stub}'") as raised:
            act(context)
        assert "EXECUTION_ENV_PATH" in raised.value.message
        assert "\n" not in raised.value.message
