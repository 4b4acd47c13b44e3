# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Sends 200 requests from 8 threads and counts the processes that have answered."""

import sys
from collections import Counter
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import tritonclient.grpc as triton

client = triton.InferenceServerClient(sys.argv[1])


def ask(number):
    """Return the process that has answered."""
    tensor = triton.InferInput("X", [1], "FP32")
    tensor.set_data_from_numpy(np.array([number], np.float32))
    return int(client.infer("whoami", [tensor]).as_numpy("PROCESS")[0])


with ThreadPoolExecutor(8) as pool:
    processes = Counter(pool.map(ask, range(200)))
print(sum(processes.values()), "answers from", len(processes), "processes")
