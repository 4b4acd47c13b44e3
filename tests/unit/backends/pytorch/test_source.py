# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Classes in model.py, with their weights."""

from pathlib import Path

import numpy as np
import pytest

from backends.api.errors import InternalError, InvalidArgumentError
from tests.support.models import context_of, load
from tests.support.recording import execute, recorded

torch = pytest.importorskip("torch")

from tests.support import torch_models as models  # noqa: E402 - needs PyTorch

CONFIG = """
name: "m" backend: "pytorch" runtime: "model.py" max_batch_size: 8
input { name: "x" data_type: TYPE_FP32 dims: [ 16 ] }
output { name: "y" data_type: TYPE_FP32 dims: [ 10 ] }
"""
SOURCE = """
import torch
from torch.nn import Linear, Module

class Net(Module):
    def __init__(self):
        super().__init__()
        relu = torch.nn.ReLU(inplace=True)
        self.layers = torch.nn.Sequential(Linear(16, 32), relu, Linear(32, 10))

    def forward(self, x):
        return self.layers(x)
"""


def context(tmp_path, source=SOURCE, text=CONFIG, *, weights=True, **fields):
    made = context_of(tmp_path, text, **fields)
    Path(made.version_dir, "model.py").write_text(source)
    if weights:
        torch.save(models.Layers().state_dict(), f"{made.version_dir}/model.pt")
    return made


def answer(instance, rows=2):
    request = recorded({"x": np.ones((rows, 16), np.float32)})
    execute(instance, request)
    return request.arrays()["y"]


def expected(rows=2):
    with torch.no_grad():
        return models.Layers()(torch.ones(rows, 16)).numpy()


# A config that names the weights means the class that they are of.
@pytest.mark.parametrize("named", ["", "model.pt", "model.py"])
def test_a_class_answers_with_its_weights(tmp_path, named):
    text = CONFIG + (f'default_model_filename: "{named}"' if named else "")
    np.testing.assert_allclose(answer(load(context(tmp_path, text=text))), expected(), rtol=1e-6)


def test_the_file_may_be_named(tmp_path):
    made = context(tmp_path, text=CONFIG + 'default_model_filename: "net.py"')
    for suffix in ("py", "pt"):
        Path(made.version_dir, f"model.{suffix}").rename(f"{made.version_dir}/net.{suffix}")
    np.testing.assert_allclose(answer(load(made)), expected(), rtol=1e-6)


def test_torchscript_is_served_as_such(tmp_path):
    made = context_of(tmp_path, CONFIG)
    models.save_script(models.Layers(), f"{made.version_dir}/model.pt")
    np.testing.assert_allclose(answer(load(made)), expected(), rtol=1e-6)


def test_a_class_needs_no_weights(tmp_path):
    source = """
import torch
class Twice(torch.nn.Module):
    def forward(self, x):
        return [2 * x[:, :10]]
"""
    assert answer(load(context(tmp_path, source, weights=False))).tolist() == [[2] * 10] * 2


def test_results_may_have_keys(tmp_path):
    source = """
import torch
class Keys(torch.nn.Module):
    def forward(self, x):
        return {"z": x, "y": 3 * x[:, :10]}
"""
    assert answer(load(context(tmp_path, source, weights=False)), 1).tolist() == [[3] * 10]


def test_a_model_that_places_itself_is_where_its_parameters_are(tmp_path):
    np.testing.assert_allclose(answer(load(context(tmp_path, kind="MODEL"))), expected(), rtol=1e-6)


@pytest.mark.parametrize(
    ("source", "fields", "says"),
    [
        ("x = 1", {}, "Cannot find a subclass of torch.nn.Module"),
        ("1 / 0", {}, "failed to load model 'm': division by zero"),
        (SOURCE.replace("16, 32", "16, 31"), {}, "size mismatch for layers.0.weight"),
        (
            "import torch\nclass N(torch.nn.Module): pass",
            {"weights": False, "kind": "MODEL"},
            "Cannot determine model device",
        ),
    ],
)
def test_what_cannot_be_made_fails_the_load(tmp_path, source, fields, says):
    with pytest.raises(InternalError) as raised:
        load(context(tmp_path, source, **fields))
    assert says in raised.value.message


def test_a_missing_file_lists_what_was_looked_for(tmp_path):
    made = context_of(tmp_path, CONFIG)
    with pytest.raises(InternalError) as raised:
        load(made)
    assert raised.value.message == (
        f"No model found in {made.version_dir}/['model.py', 'model.py', 'model.pt']"
    )


def compiled(options):
    return CONFIG + (
        'parameters { key: "TORCH_COMPILE_OPTIONAL_PARAMETERS" '
        f"value {{ string_value: '{options}' }} }}"
    )


def test_a_class_is_compiled_when_its_config_says_how(tmp_path, monkeypatch):
    seen = []

    def compile_(module, **options):
        seen.append(options)
        return module

    monkeypatch.setattr(torch, "compile", compile_)
    instance = load(context(tmp_path, text=compiled('{"backend": "eager", "dynamic": true}')))
    np.testing.assert_allclose(answer(instance), expected(), rtol=1e-6)
    assert seen == [{"backend": "eager", "dynamic": True}]


def test_a_compiled_class_answers_as_pytorch_does(tmp_path):
    # Without code generation, which takes a compiler and seconds.
    instance = load(context(tmp_path, text=compiled('{"backend": "eager"}')))
    for rows in (1, 3):
        np.testing.assert_allclose(answer(instance, rows), expected(rows), rtol=1e-5)


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ('{"model": 1}', "'model' is not an optional parameter for 'torch.compile'"),
        ("[]", "TORCH_COMPILE_OPTIONAL_PARAMETERS of model 'm' must be a JSON object"),
        ("{", "TORCH_COMPILE_OPTIONAL_PARAMETERS of model 'm' must be a JSON object"),
    ],
)
def test_options_that_compile_cannot_have_are_refused(tmp_path, options, says):
    with pytest.raises(InvalidArgumentError) as raised:
        load(context(tmp_path, text=compiled(options)))
    assert says in raised.value.message


def test_torchscript_is_not_compiled(tmp_path):
    made = context_of(tmp_path, compiled("{}"))
    models.save_script(models.Layers(), f"{made.version_dir}/model.pt")
    with pytest.raises(InvalidArgumentError, match=r"does not compile a TorchScript module"):
        load(made)
