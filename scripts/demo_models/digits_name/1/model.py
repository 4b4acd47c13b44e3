# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Labels -> their English names."""

import numpy as np
import triton_python_backend_utils as pb_utils

NAMES = np.array(
    ["zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine"],
    dtype=np.object_,
)


class TritonPythonModel:
    def execute(self, requests):
        responses = []
        for request in requests:
            label = pb_utils.get_input_tensor_by_name(request, "label").as_numpy()
            responses.append(pb_utils.InferenceResponse([pb_utils.Tensor("NAME", NAMES[label])]))
        return responses
