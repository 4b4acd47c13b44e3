# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Trains two classifiers of scikit-learn's digits: of 4 x 4 blurred pixels, and of all 8 x 8."""

from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper
from sklearn.datasets import load_digits
from sklearn.neural_network import MLPClassifier

images, labels = load_digits(return_X_y=True)
images = (images / 16).astype(np.float32).reshape(-1, 1, 8, 8)
blurred = images.reshape(-1, 4, 2, 4, 2).mean(axis=(2, 4))


def write(name, pixels, hidden, first_node):
    """Train a network with one hidden layer and write it as a model of the repository."""
    pixels = pixels.reshape(len(pixels), -1)
    trained = MLPClassifier((hidden,), random_state=1, learning_rate_init=0.02, tol=0.01)
    trained.fit(pixels[:1500], labels[:1500])
    layers = {"w1": trained.coefs_[0], "b1": trained.intercepts_[0]}
    layers |= {"w2": trained.coefs_[1], "b2": trained.intercepts_[1]}
    graph = helper.make_graph(
        [
            first_node,
            helper.make_node("Flatten", ["view"], ["flat"]),
            helper.make_node("Gemm", ["flat", "w1", "b1"], ["sums"]),
            helper.make_node("Relu", ["sums"], ["hidden"]),
            helper.make_node("Gemm", ["hidden", "w2", "b2"], ["scores"]),
            helper.make_node("Softmax", ["scores"], ["PROBABILITIES"]),
        ],
        name,
        [helper.make_tensor_value_info("IMAGE", TensorProto.FLOAT, ["batch", 1, 8, 8])],
        [helper.make_tensor_value_info("PROBABILITIES", TensorProto.FLOAT, ["batch", 10])],
        [numpy_helper.from_array(each.astype(np.float32), key) for key, each in layers.items()],
    )
    version = Path("models") / name / "1"
    version.mkdir(parents=True, exist_ok=True)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.save(model, version / "model.onnx")


pool = {"kernel_shape": [2, 2], "strides": [2, 2]}
write("digits_small", blurred, 32, helper.make_node("AveragePool", ["IMAGE"], ["view"], **pool))
write("digits_large", images, 256, helper.make_node("Identity", ["IMAGE"], ["view"]))
np.savez("held_out.npz", images=images[1500:], labels=labels[1500:])
