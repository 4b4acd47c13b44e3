# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Writes a repository with one small classifier of digits for each framework.

    python scripts/make_framework_models.py [--output configs/framework_models]
        [--answers configs/framework_answers]

The networks have the weights of one training, the forests are trained by their libraries, all on
the same images. Beside the repository lies what each framework itself answers, in this process, to
the images that no model saw: ``<model>.npy``, FP32[n, 10], and ``images.npy``, ``labels.npy``.
A framework that is not installed is left out.
"""

import argparse
import importlib.util
import logging
import os
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
from make_demo_models import (
    IR_VERSION,
    OPSET,
    SEED,
    Array,
    held_out_digits,
    split_digits,
    write_model,
)
from onnx import TensorProto, helper, numpy_helper
from sklearn.ensemble import RandomForestClassifier
from sklearn.neural_network import MLPClassifier

WIDTH = 32
CLASSES = 10
PIXELS = 64
MOST = 64  # largest batch
BACKENDS = Path(__file__).parent / "demo_backends"

# ``how`` names the framework.
NETWORK = f"""
        name: "{{name}}"
        {{how}}
        max_batch_size: {MOST}
        input {{{{ name: "X" data_type: TYPE_FP32 dims: [ {PIXELS} ] }}}}
        output {{{{ name: "probabilities" data_type: TYPE_FP32 dims: [ {CLASSES} ] }}}}
        dynamic_batching {{{{ max_queue_delay_microseconds: 200 }}}}
"""
FOREST = f"""
        name: "{{name}}"
        backend: "fil"
        max_batch_size: {MOST}
        input {{{{ name: "input__0" data_type: TYPE_FP32 dims: [ {PIXELS} ] }}}}
        output {{{{ name: "output__0" data_type: TYPE_FP32 dims: [ {CLASSES} ] }}}}
        parameters {{{{ key: "model_type" value: {{{{ string_value: "{{how}}" }}}} }}}}
        parameters {{{{ key: "is_classifier" value: {{{{ string_value: "true" }}}} }}}}
        parameters {{{{ key: "predict_proba" value: {{{{ string_value: "true" }}}} }}}}
        dynamic_batching {{{{ max_queue_delay_microseconds: 200 }}}}
"""
TORCH_CLASS = f'''
"""Digits: {PIXELS} pixels to {CLASSES} probabilities."""

import torch
from torch import nn


class Digits(nn.Module):
    def __init__(self):
        super().__init__()
        self.hidden = nn.Linear({PIXELS}, {WIDTH})
        self.head = nn.Linear({WIDTH}, {CLASSES})

    def forward(self, X):
        return torch.softmax(self.head(torch.relu(self.hidden(X / 16))), dim=1)
'''


def train_network() -> dict[str, Array]:
    """Return the weights, FP32, of 64 -> 32 -> 10; a row of pixels times ``hidden`` and so on."""
    images, _, labels, _ = split_digits()
    network = MLPClassifier((WIDTH,), max_iter=200, random_state=SEED)
    with warnings.catch_warnings():
        # It stops before it has converged, which is good enough.
        warnings.simplefilter("ignore")
        network.fit(images / 16, labels)
    arrays = (*network.coefs_, *network.intercepts_)
    names = ("hidden", "head", "hidden_bias", "head_bias")
    return {name: each.astype(np.float32) for name, each in zip(names, arrays, strict=True)}


def make_torch_class(directory: Path, weights: dict[str, Array], images: Array) -> Array:
    """PyTorch, ``runtime: "model.py"``: a class, and its weights beside it."""
    import torch

    write_model(
        directory,
        NETWORK.format(name=directory.name, how='backend: "pytorch" runtime: "model.py"'),
        source=TORCH_CLASS,
    )
    module = _torch_module(directory / "1" / "model.py", weights)
    torch.save(module.state_dict(), directory / "1" / "model.pt")
    return _torch_answer(module, images)


def make_torchscript(directory: Path, weights: dict[str, Array], images: Array) -> Array:
    """PyTorch, TorchScript."""
    import torch

    write_model(
        directory,
        NETWORK.format(name=directory.name, how='platform: "pytorch_libtorch"'),
        source=TORCH_CLASS,
    )
    source = directory / "1" / "model.py"
    path = str(directory / "1" / "model.pt")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # of TorchScript as such
        torch.jit.trace(_torch_module(source, weights), torch.zeros(2, PIXELS)).save(path)
        source.unlink()
        return _torch_answer(torch.jit.load(path), images)


def make_torch_export(directory: Path, weights: dict[str, Array], images: Array) -> Array:
    """PyTorch, an exported program."""
    import torch

    write_model(
        directory,
        NETWORK.format(name=directory.name, how='platform: "torch_aoti"'),
        source=TORCH_CLASS,
    )
    source = directory / "1" / "model.py"
    path = str(directory / "1" / "model.pt2")
    batch = torch.export.Dim("batch", min=1, max=MOST)
    # With an example of one row it would be for one row only.
    program = torch.export.export(
        _torch_module(source, weights), (torch.zeros(2, PIXELS),), dynamic_shapes={"X": {0: batch}}
    )
    source.unlink()
    torch.export.save(program, path)
    module = torch.export.load(path).module()
    return np.concatenate([_torch_answer(module, part) for part in _batches(images)])


def _torch_module(source: Path, weights: dict[str, Array]) -> Any:
    """Return the class of a file, with the weights."""
    import torch

    spec = importlib.util.spec_from_file_location("digits_of_torch", source)
    assert spec is not None
    assert spec.loader is not None
    found = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(found)
    module = found.Digits().eval()
    state = {
        f"{layer}.{kind}": torch.from_numpy(np.ascontiguousarray(values.T))
        for layer in ("hidden", "head")
        for kind, values in (("weight", weights[layer]), ("bias", weights[f"{layer}_bias"]))
    }
    module.load_state_dict(state)
    return module


def _torch_answer(module: Any, images: Array) -> Array:
    import torch

    with torch.inference_mode():
        answer: Array = module(torch.from_numpy(images)).numpy()
    return answer


def make_tensorflow(directory: Path, weights: dict[str, Array], images: Array) -> Array:
    """TensorFlow, a SavedModel."""
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    import tensorflow as tf

    logging.getLogger("tensorflow").setLevel(logging.ERROR)
    write_model(
        directory, NETWORK.format(name=directory.name, how='platform: "tensorflow_savedmodel"')
    )
    module = tf.Module()
    module.weights = {name: tf.Variable(values) for name, values in weights.items()}
    kept = module.weights

    def probabilities(x: Any) -> dict[str, Any]:
        hidden = tf.nn.relu(x / 16.0 @ kept["hidden"] + kept["hidden_bias"])
        return {"probabilities": tf.nn.softmax(hidden @ kept["head"] + kept["head_bias"])}

    specification = tf.TensorSpec([None, PIXELS], tf.float32, name="X")
    module.serve = tf.function(probabilities, input_signature=[specification])
    path = str(directory / "1" / "model.savedmodel")
    tf.saved_model.save(module, path, signatures={"serving_default": module.serve})
    loaded = tf.saved_model.load(path).signatures["serving_default"]
    answer: Array = loaded(X=tf.constant(images))["probabilities"].numpy()
    return answer


def make_onnx(directory: Path, weights: dict[str, Array], images: Array) -> Array:
    """ONNX."""
    write_model(directory, NETWORK.format(name=directory.name, how='platform: "onnxruntime_onnx"'))
    path = directory / "1" / "model.onnx"
    _save_onnx(path, weights)
    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    answer: Array = session.run(["probabilities"], {"X": images})[0]
    return answer


def _save_onnx(path: Path, weights: dict[str, Array]) -> None:
    node = helper.make_node
    nodes = [
        node("Div", ["X", "grey"], ["x"]),
        node("Gemm", ["x", "hidden", "hidden_bias"], ["sums"]),
        node("Relu", ["sums"], ["features"]),
        node("Gemm", ["features", "head", "head_bias"], ["scores"]),
        node("Softmax", ["scores"], ["probabilities"], axis=1),
    ]
    constants = {**weights, "grey": np.float32([16])}
    graph = helper.make_graph(
        nodes,
        "digits",
        [helper.make_tensor_value_info("X", TensorProto.FLOAT, ["batch", PIXELS])],
        [helper.make_tensor_value_info("probabilities", TensorProto.FLOAT, ["batch", CLASSES])],
        [numpy_helper.from_array(values, name) for name, values in constants.items()],
    )
    opsets = [helper.make_opsetid("", OPSET)]
    model = helper.make_model(graph, opset_imports=opsets, ir_version=IR_VERSION)
    onnx.checker.check_model(model)
    onnx.save(model, str(path))


def make_openvino(directory: Path, weights: dict[str, Array], images: Array) -> Array:
    """OpenVINO, its own format, converted from ONNX."""
    import openvino

    write_model(directory, NETWORK.format(name=directory.name, how='backend: "openvino"'))
    given = directory / "1" / "model.onnx"
    path = directory / "1" / "model.xml"
    _save_onnx(given, weights)
    openvino.save_model(openvino.convert_model(given), path, compress_to_fp16=False)
    given.unlink()
    exact = {"INFERENCE_PRECISION_HINT": "f32"}
    compiled = openvino.Core().compile_model(path, "CPU", exact)
    answer: Array = compiled({"X": images})["probabilities"].copy()
    return answer


def make_xgboost(directory: Path, _weights: dict[str, Array], images: Array) -> Array:
    """XGBoost, JSON."""
    import xgboost

    write_model(directory, FOREST.format(name=directory.name, how="xgboost_json"))
    given, _, labels, _ = split_digits()
    settings = {
        "objective": "multi:softprob",
        "num_class": CLASSES,
        "max_depth": 4,
        "seed": SEED,
        "nthread": 1,
    }
    booster = xgboost.train(settings, xgboost.DMatrix(given, labels), 20)
    booster.save_model(directory / "1" / "xgboost.json")
    answer: Array = booster.predict(xgboost.DMatrix(images))
    return answer


def make_lightgbm(directory: Path, _weights: dict[str, Array], images: Array) -> Array:
    """LightGBM, text."""
    import lightgbm

    write_model(directory, FOREST.format(name=directory.name, how="lightgbm"))
    given, _, labels, _ = split_digits()
    settings = {
        "objective": "multiclass",
        "num_class": CLASSES,
        "deterministic": True,
        "num_threads": 1,
        "seed": SEED,
        "verbose": -1,
    }
    booster = lightgbm.train(settings, lightgbm.Dataset(given, labels), 20)
    booster.save_model(directory / "1" / "model.txt")
    return np.asarray(booster.predict(images), np.float32)


def make_sklearn(directory: Path, _weights: dict[str, Array], images: Array) -> Array:
    """scikit-learn, as a checkpoint of treelite."""
    import treelite.sklearn

    write_model(directory, FOREST.format(name=directory.name, how="treelite_checkpoint"))
    given, _, labels, _ = split_digits()
    forest = RandomForestClassifier(50, max_depth=8, random_state=SEED % 2**32).fit(given, labels)
    treelite.sklearn.import_model(forest).serialize(str(directory / "1" / "checkpoint.tl"))
    return np.asarray(forest.predict_proba(images), np.float32)


def make_python_based(directory: Path, weights: dict[str, Array], images: Array) -> Array:
    """A backend in Python, of ``--backend-directory``; its answers are made here with numpy."""
    write_model(directory, NETWORK.format(name=directory.name, how='backend: "numpy_network"'))
    np.savez(directory / "1" / "weights.npz", **weights)
    hidden = np.maximum(images / 16 @ weights["hidden"] + weights["hidden_bias"], 0)
    powers = np.exp(hidden @ weights["head"] + weights["head_bias"])
    answer: Array = powers / powers.sum(axis=1, keepdims=True)
    return answer


def _batches(images: Array) -> list[Array]:
    return [images[start : start + MOST] for start in range(0, len(images), MOST)]


Maker = Callable[[Path, dict[str, Array], Array], Array]
# TensorFlow last: it changes the most in its process.
MODELS: dict[str, Maker] = {
    "digits_onnx": make_onnx,
    "digits_openvino": make_openvino,
    "digits_torchscript": make_torchscript,
    "digits_torch_export": make_torch_export,
    "digits_torch_class": make_torch_class,
    "digits_xgboost": make_xgboost,
    "digits_lightgbm": make_lightgbm,
    "digits_sklearn": make_sklearn,
    "digits_python_based": make_python_based,
    "digits_tensorflow": make_tensorflow,
}


def make_all(output: Path, answers: Path) -> dict[str, float]:
    """Write every model below ``output``, its answers to ``answers``; return the accuracies."""
    images, labels = (np.ascontiguousarray(each) for each in held_out_digits())
    answers.mkdir(parents=True, exist_ok=True)
    np.save(answers / "images.npy", images)
    np.save(answers / "labels.npy", labels)
    weights = train_network()
    accuracies = {}
    for name, make in MODELS.items():
        started = time.monotonic()
        try:
            answer = make(output / name, weights, images)
        except ModuleNotFoundError as missing:
            print(f"{name}: left out, {missing.name} is not installed", flush=True)
            continue
        np.save(answers / f"{name}.npy", answer)
        accuracies[name] = float((answer.argmax(axis=1) == labels).mean())
        took = time.monotonic() - started
        text = (make.__doc__ or "").split("\n")[0].rstrip(".")
        print(f"{name:20} accuracy {accuracies[name]:.4f}  {took:5.1f} s  {text}", flush=True)
    print(f"on {len(labels)} held-out images; serve with --backend-directory {BACKENDS}")
    return accuracies


def main() -> None:
    parser = argparse.ArgumentParser(description="Write a repository of every framework.")
    for name in ("models", "answers"):
        option = "--output" if name == "models" else "--answers"
        default = Path(f"configs/framework_{name}")
        parser.add_argument(option, type=Path, default=default, metavar="DIR")
    given = parser.parse_args()
    make_all(given.output, given.answers)


if __name__ == "__main__":
    main()
