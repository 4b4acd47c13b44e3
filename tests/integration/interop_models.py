# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""The models that the interop and abuse tests ask: decoupled, patient, and as large as wanted."""

from pathlib import Path

from tests.integration.conftest import write_add_sub
from tests.support.model_folders import write_folder

WORDS = """
import numpy as np
import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def execute(self, requests):
        for request in requests:
            sender = request.get_response_sender()
            text = pb_utils.get_input_tensor_by_name(request, "text_input").as_numpy()[0].decode()
            for word in text.split():
                out = pb_utils.Tensor("text_output", np.array([word.encode()], dtype=np.object_))
                sender.send(pb_utils.InferenceResponse([out]))
            sender.send(flags=pb_utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL)
"""
WORDS_CONFIG = """
backend: "python"
input [ { name: "text_input" data_type: TYPE_STRING dims: [ 1 ] } ]
output [ { name: "text_output" data_type: TYPE_STRING dims: [ 1 ] } ]
model_transaction_policy { decoupled: true }
instance_group [ { kind: KIND_CPU } ]
"""
# Asked for 1 it works until its request is cancelled.
PATIENT = """
import time

import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def execute(self, requests):
        responses = []
        for request in requests:
            waits = pb_utils.get_input_tensor_by_name(request, "WAIT")
            while waits.as_numpy()[0] and not request.is_cancelled():
                time.sleep(0.005)
            out = pb_utils.Tensor("DONE", waits.as_numpy())
            responses.append(pb_utils.InferenceResponse([out]))
        return responses
"""
PATIENT_CONFIG = """
backend: "python"
input [ { name: "WAIT" data_type: TYPE_INT32 dims: [ 1 ] } ]
output [ { name: "DONE" data_type: TYPE_INT32 dims: [ 1 ] } ]
instance_group [ { kind: KIND_CPU } ]
"""

IDENTITY = """
import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def execute(self, requests):
        inputs = [pb_utils.get_input_tensor_by_name(request, "IN") for request in requests]
        return [
            pb_utils.InferenceResponse([pb_utils.Tensor("OUT", each.as_numpy())]) for each in inputs
        ]
"""
IDENTITY_CONFIG = """
backend: "python"
input [ { name: "IN" data_type: TYPE_UINT8 dims: [ -1 ] } ]
output [ { name: "OUT" data_type: TYPE_UINT8 dims: [ -1 ] } ]
instance_group [ { kind: KIND_CPU } ]
"""


def write_words(repository: Path) -> None:
    """Write the decoupled model ``words``: one response for each word of ``text_input``."""
    write_folder(repository, "words", WORDS_CONFIG, WORDS)


def write_patient(repository: Path) -> None:
    """Write ``patient``, which works until its request is cancelled if WAIT is 1."""
    write_folder(repository, "patient", PATIENT_CONFIG, PATIENT)


def write_interop_models(repository: Path) -> None:
    """Write add_sub, words, patient and identity."""
    write_add_sub(repository, "add_sub")
    write_words(repository)
    write_patient(repository)
    write_folder(repository, "identity", IDENTITY_CONFIG, IDENTITY)
