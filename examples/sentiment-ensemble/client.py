# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Sends three reviews as texts and prints the class of each."""

import sys

import numpy as np
import tritonclient.grpc as triton

REVIEWS = ["A wonderful story, great acting!", "What a boring mess.", "The best of the year"]
texts = triton.InferInput("TEXT", [len(REVIEWS), 1], "BYTES")
texts.set_data_from_numpy(np.array([[each.encode()] for each in REVIEWS], np.object_))
wanted = triton.InferRequestedOutput("PROBABILITIES", class_count=1)
with triton.InferenceServerClient(sys.argv[1]) as client:
    answer = client.infer("sentiment", [texts], outputs=[wanted])
for review, row in zip(REVIEWS, answer.as_numpy("PROBABILITIES"), strict=True):
    print(f"{row[0].decode().split(':')[2]}: {review}")
