# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Asks a small model, and a large one where the small one is not confident."""

import json

import numpy as np
import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def initialize(self, args):
        parameters = json.loads(args["model_config"])["parameters"]
        self.confidence = float(parameters["confidence"]["string_value"])

    def execute(self, requests):
        return [self.answer(request) for request in requests]

    def answer(self, request):
        image = pb_utils.get_input_tensor_by_name(request, "IMAGE")
        for model in ("digits_small", "digits_large"):
            call = pb_utils.InferenceRequest(
                model_name=model, inputs=[image], requested_output_names=["PROBABILITIES"]
            )
            response = call.exec()
            if response.has_error():
                return pb_utils.InferenceResponse([], response.error())
            probabilities = pb_utils.get_output_tensor_by_name(response, "PROBABILITIES")
            if probabilities.as_numpy().max() >= self.confidence:
                break
        name = pb_utils.Tensor("ANSWERED_BY", np.array([[model.encode()]], np.object_))
        return pb_utils.InferenceResponse([probabilities, name])
