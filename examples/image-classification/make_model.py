# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Trains a classifier on scikit-learn's 8 x 8 images of digits and writes it as ONNX."""

from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression

pixels, labels = load_digits(return_X_y=True)
pixels = (pixels / 16).astype(np.float32)
trained = LogisticRegression(max_iter=200).fit(pixels[:1500], labels[:1500])

graph = helper.make_graph(
    [
        helper.make_node("Flatten", ["image"], ["pixels"]),
        helper.make_node("Gemm", ["pixels", "weights", "bias"], ["scores"]),
        helper.make_node("Softmax", ["scores"], ["probabilities"]),
    ],
    "digit_classifier",
    [helper.make_tensor_value_info("image", TensorProto.FLOAT, ["batch", 1, 8, 8])],
    [helper.make_tensor_value_info("probabilities", TensorProto.FLOAT, ["batch", 10])],
    [
        numpy_helper.from_array(trained.coef_.T.astype(np.float32), "weights"),
        numpy_helper.from_array(trained.intercept_.astype(np.float32), "bias"),
    ],
)
version = Path("models/digit_classifier/1")
version.mkdir(parents=True, exist_ok=True)
opset = helper.make_opsetid("", 17)
onnx.save(helper.make_model(graph, opset_imports=[opset], ir_version=8), version / "model.onnx")

# Images that it was not trained on.
np.save("images.npy", pixels[1500:1504].reshape(-1, 1, 8, 8))
print(f"held-out accuracy: {trained.score(pixels[1500:], labels[1500:]):.0%}")
