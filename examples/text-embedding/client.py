# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Embeds questions from 16 threads, then finds the one nearest to what somebody asks."""

import sys
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import tritonclient.grpc as triton

QUESTIONS = [
    "How do I reset my password?",
    "Where can I see my invoices?",
    "How do I delete my account?",
    "Which browsers are supported?",
] * 16
client = triton.InferenceServerClient(sys.argv[1])


def embed(text):
    """Return the embedding FP32[64] of a text."""
    tensor = triton.InferInput("TEXT", [1, 1], "BYTES")
    tensor.set_data_from_numpy(np.array([[text.encode()]], np.object_))
    return client.infer("embedder", [tensor]).as_numpy("EMBEDDING")[0]


with ThreadPoolExecutor(16) as pool:
    vectors = np.array(list(pool.map(embed, QUESTIONS)))
similarities = vectors @ embed("I forgot my password")
print("nearest:", QUESTIONS[int(similarities.argmax())])
(counts,) = client.get_inference_statistics("embedder").model_stats
print(counts.inference_count, "texts in", counts.execution_count, "executions")
