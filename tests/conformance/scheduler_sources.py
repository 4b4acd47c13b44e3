# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""model.py, without imports, of the stand-ins for the models of Triton's scheduler tests."""

from typing import Final

# What the sequence tests expect of models that cannot keep sums in batches: the value, one more at
# the start. Without batching a model adds up.
PLAIN_SEQUENCE: Final = """
import json

class TritonPythonModel:
    def initialize(self, args):
        self.adds_up = not json.loads(args["model_config"])["max_batch_size"]
        self.total = 0

    def execute(self, requests):
        return [self.answer(request) for request in requests]

    def answer(self, request):
        given = {tensor.name(): tensor.as_numpy() for tensor in request.inputs()}
        value, starts = given["INPUT"], given["START"].astype(np.int32)
        if not given["READY"].any():
            result = np.zeros_like(value)
        elif self.adds_up:
            result = value + (0 if starts.any() else self.total)
            self.total = result
        else:
            result = value + starts
        return pb_utils.InferenceResponse([pb_utils.Tensor("OUTPUT", result.astype(np.int32))])
"""

# Keeps a sum for each slot of the batch, as upstream's sequence backend does.
SUMS_BY_SLOT: Final = """
import time

class TritonPythonModel:
    def initialize(self, args):
        self.sums = {}

    def execute(self, requests):
        time.sleep(0.003)
        return [self.answer(slot, request) for slot, request in enumerate(requests)]

    def answer(self, slot, request):
        given = {tensor.name(): tensor.as_numpy() for tensor in request.inputs()}
        value = given["INPUT"]
        if not given["READY"].any():
            result = np.zeros_like(value)
        else:
            before = 0 if given["START"].any() else self.sums[slot]
            self.sums[slot] = before + int(value.sum())
            result = np.full_like(value, self.sums[slot])
        return pb_utils.InferenceResponse([pb_utils.Tensor("OUTPUT", result)])
"""

# Keeps a sum for each correlation id and adds the id at the end, as upstream's dyna_sequence.
SUMS_BY_ID: Final = """
import time

class TritonPythonModel:
    def initialize(self, args):
        self.sums = {}

    def execute(self, requests):
        time.sleep(0.003)
        return [self.answer(request) for request in requests]

    def answer(self, request):
        given = {tensor.name(): tensor.as_numpy() for tensor in request.inputs()}
        value, key = given["INPUT"], given["CORRID"].reshape(-1)[0]
        total = int(value.sum()) + (0 if given["START"].any() else self.sums[key])
        if given["END"].any():
            self.sums.pop(key, None)
            total += int(key)
        else:
            self.sums[key] = total
        return pb_utils.InferenceResponse([pb_utils.Tensor("OUTPUT", np.full_like(value, total))])
"""

# Counts the requests of each sequence.
COUNTS: Final = """
class TritonPythonModel:
    def initialize(self, args):
        self.counts = {}

    def execute(self, requests):
        return [self.answer(request) for request in requests]

    def answer(self, request):
        key = request.correlation_id()
        starts = request.flags() & pb_utils.TRITONSERVER_REQUEST_FLAG_SEQUENCE_START
        self.counts[key] = 1 if starts else self.counts[key] + 1
        result = np.array([self.counts[key]], np.int32)
        return pb_utils.InferenceResponse([pb_utils.Tensor("OUTPUT0", result)])
"""

# Of two instances the second is four times as slow.
UNEQUAL: Final = """
import time

class TritonPythonModel:
    def initialize(self, args):
        self.delay_s = 0.4 if args["model_instance_name"].endswith("_1") else 0.1

    def execute(self, requests):
        time.sleep(self.delay_s)
        return [
            pb_utils.InferenceResponse([pb_utils.Tensor("OUTPUT0", each.inputs()[0].as_numpy())])
            for each in requests
        ]
"""
