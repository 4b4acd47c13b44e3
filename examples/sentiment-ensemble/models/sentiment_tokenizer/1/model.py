# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Splits texts into words and looks up their numbers: 16 of them, padded with 0."""

import re
from pathlib import Path

import numpy as np
import triton_python_backend_utils as pb_utils

LENGTH = 16


class TritonPythonModel:
    def initialize(self, args):
        words = (Path(__file__).parent / "words.txt").read_text().split()
        self.ids = {word: number for number, word in enumerate(words, 1)}

    def execute(self, requests):
        responses = []
        for request in requests:
            texts = pb_utils.get_input_tensor_by_name(request, "TEXT").as_numpy()
            rows = np.array([self.encode(text.decode()) for text in texts[:, 0]], np.int64)
            responses.append(pb_utils.InferenceResponse([pb_utils.Tensor("IDS", rows)]))
        return responses

    def encode(self, text):
        found = [self.ids.get(word, 0) for word in re.findall(r"\w+", text.lower())][:LENGTH]
        return found + [0] * (LENGTH - len(found))
