# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""A backend in Python: serves networks of two layers, whose weights its models bring.

A model that names ``backend: "numpy_network"`` has no code, but ``weights.npz`` in its version's
directory: ``hidden`` [inputs, width], ``hidden_bias``, ``head`` [width, outputs], ``head_bias``.
"""

import json
from pathlib import Path

import numpy as np
import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    """One instance of a model of this backend."""

    def initialize(self, args):
        """Read the model's weights."""
        config = json.loads(args["model_config"])
        self.input = config["input"][0]["name"]
        self.output = config["output"][0]["name"]
        folder = Path(args["model_repository"], args["model_version"])
        with np.load(folder / "weights.npz") as weights:
            self.weights = dict(weights)

    def execute(self, requests):
        """Answer each request with the probabilities of its rows."""
        rows = [pb_utils.get_input_tensor_by_name(each, self.input).as_numpy() for each in requests]
        answers = np.split(
            self.probabilities(np.concatenate(rows)), np.cumsum([len(each) for each in rows])[:-1]
        )
        return [
            pb_utils.InferenceResponse([pb_utils.Tensor(self.output, answer)]) for answer in answers
        ]

    def probabilities(self, rows):
        """Return FP32[n, outputs] for FP32[n, inputs]."""
        weights = self.weights
        hidden = np.maximum(rows / 16 @ weights["hidden"] + weights["hidden_bias"], 0)
        scores = hidden @ weights["head"] + weights["head_bias"]
        powers = np.exp(scores - scores.max(axis=1, keepdims=True))
        return powers / powers.sum(axis=1, keepdims=True)
