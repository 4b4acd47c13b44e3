# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""``manta init``: what it writes is a model that ``manta check`` finds nothing wrong with."""

import importlib.util
import json
import sys
from types import ModuleType, SimpleNamespace

import numpy as np
import pytest

from backends.config.pbtxt import parse_pbtxt
from cluster.commands.check.command import main as check
from cluster.commands.scaffold import main


def test_a_python_model_is_written_where_the_repository_is(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert main(["mine"]) == 0
    folder = tmp_path / "models/mine"
    assert (folder / "1/model.py").is_file()
    assert check([str(tmp_path / "models")]) == 0
    output = capsys.readouterr().out
    assert "manta serve --model-repository models" in output
    assert "manta infer mine X=1,2,3,4" in output


def test_the_python_model_answers(tmp_path, monkeypatch):
    assert main([str(tmp_path / "mine")]) == 0
    utils = ModuleType("triton_python_backend_utils")
    utils.get_input_tensor_by_name = lambda request, name: request[name]
    utils.Tensor = lambda name, array: (name, array)
    utils.InferenceResponse = lambda tensors: tensors
    monkeypatch.setitem(sys.modules, utils.__name__, utils)
    spec = importlib.util.spec_from_file_location("model", tmp_path / "mine/1/model.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    model = module.TritonPythonModel()
    model.initialize({})
    x = SimpleNamespace(as_numpy=lambda: np.ones((1, 4), np.float32))
    (((name, y),),) = model.execute([{"X": x}])
    assert (name, y.dtype, y.tolist()) == ("Y", np.float32, [[2, 2, 2, 2]])
    config = parse_pbtxt((tmp_path / "mine/config.pbtxt").read_text(), "config")
    assert [each.dims for each in (*config.input, *config.output)] == [(4,), (4,)]


def test_an_onnx_model_runs_and_needs_no_package_to_be_written(tmp_path):
    runtime = pytest.importorskip("onnxruntime")
    assert main([str(tmp_path / "mine"), "--backend=onnx"]) == 0
    assert check([str(tmp_path)]) == 0
    session = runtime.InferenceSession(tmp_path / "mine/1/model.onnx")
    assert [each.shape for each in session.get_inputs()] == [["batch", 4]]
    (y,) = session.run(None, {"X": np.ones((2, 4), np.float32)})
    assert y.tolist() == [[2] * 4] * 2


def test_an_own_graph_is_copied(tmp_path, capsys):
    graph = tmp_path / "own.onnx"
    graph.write_bytes(b"graph")
    given = [str(tmp_path / "m/mine"), "--backend=onnx", "--model", str(graph), "--json"]
    assert main(given) == 0
    assert (tmp_path / "m/mine/1/model.onnx").read_bytes() == b"graph"
    said = json.loads(capsys.readouterr().out)
    assert said["files"] == ["1/model.onnx", "config.pbtxt"]


def test_nothing_is_overwritten(tmp_path, capsys):
    assert main([str(tmp_path / "mine")]) == 0
    assert main([str(tmp_path / "mine")]) == 1
    assert "is there already" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "code"),
    [(["mine", "--model=x"], 2), (["."], 1), (["mine", "--backend=onnx", "--model=/none"], 1)],
)
def test_what_cannot_be_written_is_said(arguments, code, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert main(arguments) == code
    assert list(tmp_path.iterdir()) == []
