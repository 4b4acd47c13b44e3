# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Sends the held-out rows in one request and compares the answer with XGBoost's own."""

import sys

import numpy as np
import tritonclient.grpc as triton

held_out = np.load("held_out.npz")
rows = triton.InferInput("input__0", list(held_out["rows"].shape), "FP32")
rows.set_data_from_numpy(held_out["rows"])
with triton.InferenceServerClient(sys.argv[1]) as client:
    probabilities = client.infer("tumours", [rows]).as_numpy("output__0")
is_right = probabilities.argmax(axis=1) == held_out["is_benign"]
print(f"{is_right.mean():.0%} of {len(is_right)} rows are right")
print("as XGBoost:", np.allclose(probabilities, held_out["probabilities"], atol=1e-5))
