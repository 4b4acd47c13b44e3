# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Sends held-out images one by one and counts which model has answered."""

import sys
from collections import Counter

import numpy as np
import tritonclient.grpc as triton

held_out = np.load("held_out.npz")
images, labels = held_out["images"], held_out["labels"]
answered_by, right = Counter(), 0
with triton.InferenceServerClient(sys.argv[1]) as client:
    for number, label in enumerate(labels):
        image = triton.InferInput("IMAGE", [1, 1, 8, 8], "FP32")
        image.set_data_from_numpy(images[number : number + 1])
        answer = client.infer("digits_cascade", [image])
        answered_by[answer.as_numpy("ANSWERED_BY")[0, 0].decode()] += 1
        right += int(answer.as_numpy("PROBABILITIES").argmax() == label)
for model in sorted(answered_by):
    print(f"{model} answered {answered_by[model] / len(labels):.0%}")
print(f"right: {right / len(labels):.0%}")
