# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""After: the same function of arrays, called once for a batch of requests."""

import numpy as np
import triton_python_backend_utils as pb_utils


def rent(area, rooms):
    """Estimate the rents of flats: FP32[n, 1] each."""
    return (200 + 11.5 * area + 40 * rooms).astype(np.float32)


def joined(requests, name):
    tensors = [pb_utils.get_input_tensor_by_name(each, name).as_numpy() for each in requests]
    return np.concatenate(tensors), np.cumsum([len(each) for each in tensors])[:-1]


class TritonPythonModel:
    def execute(self, requests):
        area, ends = joined(requests, "area")
        rooms, _ = joined(requests, "rooms")
        return [
            pb_utils.InferenceResponse([pb_utils.Tensor("rent", part)])
            for part in np.split(rent(area, rooms), ends)
        ]
