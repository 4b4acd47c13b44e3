# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""NVIDIA's client as it asks Triton: nothing of it is changed."""

import sys

import numpy as np
import tritonclient.grpc as triton

values = triton.InferInput("VALUES", [2, 3], "FP32")
values.set_data_from_numpy(np.array([[15, 20, 25], [10, 20, 40]], np.float32))
with triton.InferenceServerClient(sys.argv[1]) as client:
    print(client.get_server_metadata().name, "is ready:", client.is_server_ready())
    print(client.infer("standardize", [values]).as_numpy("SCORES"))
