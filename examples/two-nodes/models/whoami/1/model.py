# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Answers with its process id, after 10 ms of work."""

import os
import time

import numpy as np
import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def execute(self, requests):
        time.sleep(0.01 * len(requests))
        process = pb_utils.Tensor("PROCESS", np.array([os.getpid()], np.int32))
        return [pb_utils.InferenceResponse([process]) for _ in requests]
