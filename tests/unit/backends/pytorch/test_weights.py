# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Weights that instances share."""

import logging
import multiprocessing
import tempfile
from pathlib import Path

import numpy as np
import pytest

from tests.support.models import context_of, load
from tests.support.recording import execute, recorded

torch = pytest.importorskip("torch")

from tests.support import torch_models as models  # noqa: E402 - needs PyTorch

CONFIG = """
name: "m" backend: "pytorch" max_batch_size: 8
input { name: "x" data_type: TYPE_FP32 dims: [ 16 ] }
output { name: "y" data_type: TYPE_FP32 dims: [ 10 ] }
parameters { key: "ENABLE_WEIGHT_SHARING" value { string_value: "true" } }
"""


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "shared"))
    (tmp_path / "shared").mkdir()
    return tmp_path / "shared"


def files(folder):
    return list(folder.glob("*/*"))


def script(tmp_path, text=CONFIG, module=None):
    context = context_of(tmp_path, text)
    models.save_script(module or models.Layers(), context.model_path("model.pt"))
    return context


def exported(tmp_path):
    context = context_of(tmp_path, CONFIG + 'platform: "torch_aoti"')
    models.save_export(models.Layers(), context.model_path("model.pt2"), torch.zeros(2, 16))
    return context


def source(tmp_path):
    context = context_of(tmp_path, CONFIG + 'runtime: "model.py"')
    Path(context.version_dir, "model.py").write_text(
        "from tests.support.torch_models import Layers as Net"
    )
    torch.save(models.Layers().state_dict(), f"{context.version_dir}/model.pt")
    return context


def answer(instance):
    request = recorded({"x": np.ones((2, 16), np.float32)})
    execute(instance, request)
    return request.arrays()["y"]


@pytest.mark.parametrize("make", [script, exported, source])
def test_instances_that_share_answer_as_one_that_does_not(tmp_path, folder, caplog, make):
    context = make(tmp_path)
    with torch.no_grad():
        expected = models.Layers()(torch.ones(2, 16)).numpy()
    with caplog.at_level(logging.INFO):
        first = load(context)
        assert "Reusing TorchScript model for instance 'm_0_0'" not in caplog.messages
        second = load(context)
    assert "Reusing TorchScript model for instance 'm_0_0'" in caplog.messages
    assert len(files(folder)) == 1
    for instance in (first, second):
        np.testing.assert_allclose(answer(instance), expected, rtol=1e-6)


def test_the_file_goes_with_the_last_instance(tmp_path, folder):
    context = script(tmp_path)
    first, second = load(context), load(context)
    first.close()
    assert len(files(folder)) == 1
    assert answer(second).shape == (2, 10)
    second.close()
    del first, second
    assert files(folder) == []


def _hold(context, ready, end):
    instance = load(context)
    ready.send(answer(instance).tolist())
    end.wait(60)


@pytest.mark.slow
def test_a_file_of_an_instance_that_was_killed_goes_with_the_next(tmp_path, folder):
    context = script(tmp_path)
    process = multiprocessing.get_context("spawn")
    here, there = process.Pipe()
    end = process.Event()
    other = process.Process(target=_hold_in, args=(str(folder), context, there, end))
    other.start()
    assert here.poll(60)
    assert np.allclose(here.recv(), answer(load(context)))
    assert len(files(folder)) == 1
    other.kill()
    other.join()
    changed = script(tmp_path, module=models.Layers(8))
    instance = load(changed)
    assert len(files(folder)) == 1
    assert answer(instance).shape == (2, 10)


def _hold_in(folder, context, ready, end):
    tempfile.tempdir = folder
    _hold(context, ready, end)


def test_what_an_instance_writes_to_its_weights_is_its_own(tmp_path):
    text = CONFIG.replace("[ 10 ]", "[ 16 ]")
    context = script(tmp_path, text, models.Running(16))
    first, second = load(context), load(context)
    for instance, total in ((first, 1), (first, 2), (second, 1)):
        request = recorded({"x": np.ones((1, 16), np.float32)})
        execute(instance, request)
        assert request.arrays()["y"].max() == total


def test_weights_that_cannot_be_shared_are_the_instances_own(tmp_path, folder, caplog):
    folder.rmdir()
    folder.write_text("no folder")
    assert answer(load(script(tmp_path))).shape == (2, 10)
    assert "weights of model instance 'm_0_0' are its own: they cannot be shared" in caplog.text


def test_tensors_of_every_kind_keep_what_they_hold(tmp_path):
    from backends.pytorch.weights import share_weights

    context = script(tmp_path)
    tensors = {
        "bool": torch.tensor([True, False]),
        "half": torch.arange(5, dtype=torch.bfloat16),
        "scalar": torch.tensor(7, dtype=torch.int64),
        "empty": torch.zeros(0, 3),
        "turned": torch.arange(6.0).reshape(2, 3).T,
    }
    before = {name: tensor.clone() for name, tensor in tensors.items()}
    share_weights(context, context.model_path("model.pt"), tensors)
    assert all(torch.equal(tensors[name], before[name]) for name in tensors)
