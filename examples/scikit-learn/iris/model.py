# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""A classifier of scikit-learn: four numbers a row in, a class and three probabilities out."""

from pathlib import Path

import joblib
import numpy as np
import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    @staticmethod
    def auto_complete_config(config):
        config.set_max_batch_size(64)
        config.add_input({"name": "FEATURES", "data_type": "TYPE_FP32", "dims": [4]})
        config.add_output({"name": "CLASS", "data_type": "TYPE_INT64", "dims": [1]})
        config.add_output({"name": "PROBABILITIES", "data_type": "TYPE_FP32", "dims": [3]})
        config.set_dynamic_batching()
        return config

    def initialize(self, args):
        self.classifier = joblib.load(Path(__file__).with_name("iris.joblib"))

    def execute(self, requests):
        responses = []
        for request in requests:
            features = pb_utils.get_input_tensor_by_name(request, "FEATURES").as_numpy()
            probabilities = self.classifier.predict_proba(features).astype(np.float32)
            classes = probabilities.argmax(axis=1, keepdims=True)
            outputs = [
                pb_utils.Tensor("CLASS", classes),
                pb_utils.Tensor("PROBABILITIES", probabilities),
            ]
            responses.append(pb_utils.InferenceResponse(outputs))
        return responses
