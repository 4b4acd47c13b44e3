# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""A tenth off; version 2 computes all rows at once."""

import numpy as np
import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def execute(self, requests):
        responses = []
        for request in requests:
            prices = pb_utils.get_input_tensor_by_name(request, "PRICE").as_numpy()
            reduced = prices * np.float32(0.9)
            responses.append(pb_utils.InferenceResponse([pb_utils.Tensor("REDUCED", reduced)]))
        return responses
