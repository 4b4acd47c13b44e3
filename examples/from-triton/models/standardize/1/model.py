# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""A model of Triton's Python backend: config, parameters and logger of `pb_utils`."""

import json

import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def initialize(self, args):
        config = json.loads(args["model_config"])
        self.mean, self.deviation = (
            float(config["parameters"][name]["string_value"]) for name in ("mean", "deviation")
        )
        scores = pb_utils.get_output_config_by_name(config, "SCORES")
        self.dtype = pb_utils.triton_string_to_numpy(scores["data_type"])
        pb_utils.Logger.log_info(f"{args['model_instance_name']} is ready")

    def execute(self, requests):
        responses = []
        for request in requests:
            values = pb_utils.get_input_tensor_by_name(request, "VALUES").as_numpy()
            scores = ((values - self.mean) / self.deviation).astype(self.dtype)
            responses.append(pb_utils.InferenceResponse([pb_utils.Tensor("SCORES", scores)]))
        return responses
