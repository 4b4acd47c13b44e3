# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Sends a batch of images and prints the two likeliest classes of each."""

import sys

import numpy as np
import tritonclient.grpc as triton

images = np.load("images.npy")
image = triton.InferInput("image", list(images.shape), "FP32")
image.set_data_from_numpy(images)
wanted = triton.InferRequestedOutput("probabilities", class_count=2)
with triton.InferenceServerClient(sys.argv[1]) as client:
    answer = client.infer("digit_classifier", [image], outputs=[wanted])
for row in answer.as_numpy("probabilities"):
    classes = [each.decode().split(":") for each in row]
    print(", ".join(f"{label} {float(score):.1%}" for score, _, label in classes))
