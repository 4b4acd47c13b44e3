# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""A tenth off; version 1 computes row by row."""

import numpy as np
import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def execute(self, requests):
        responses = []
        for request in requests:
            prices = pb_utils.get_input_tensor_by_name(request, "PRICE").as_numpy()
            reduced = np.array([[row[0] * 0.9] for row in prices], np.float32)
            responses.append(pb_utils.InferenceResponse([pb_utils.Tensor("REDUCED", reduced)]))
        return responses
