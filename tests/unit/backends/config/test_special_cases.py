# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Platforms and runtimes that are none, case by case as in upstream's tests.

Triton: server/qa/L0_model_config special_cases
"""

import pytest

from tests.support.autofill import refusal
from tests.support.model_folders import write_folder

TENSORS = (
    'max_batch_size: 2 input { name: "INPUT0" data_type: TYPE_FP32 dims: [ 16 ] } '
    'output { name: "OUTPUT0" data_type: TYPE_FP32 dims: [ 16 ] } '
)
IDENTITY = 'backend: "identity" instance_group { kind: KIND_CPU } ' + TENSORS


@pytest.mark.parametrize(
    ("case", "config", "says"),
    [
        (
            "invalid_platform",
            'platform: "onnxruntim" default_model_filename: "model.onnx" ' + TENSORS,
            "unexpected 'platform' and 'backend' pair, got:onnxruntim, onnxruntime",
        ),
        (
            "invalid_runtime",
            IDENTITY + 'runtime: "__invalid_runtime__"',
            "unable to find backend library '__invalid_runtime__' for model 'invalid_runtime'",
        ),
        (
            "runtime_escape",
            IDENTITY + 'runtime: "../dummy_runtime/libtriton_identity.so"',
            "backend library name '../dummy_runtime/libtriton_identity.so' escapes backend "
            "directory",
        ),
    ],
)
def test_special_case_is_refused(tmp_path, case, config, says):
    directory = write_folder(tmp_path, case, config)
    (directory / "dummy_runtime").mkdir()
    (directory / "dummy_runtime/libtriton_identity.so").touch()
    assert says in refusal(directory)
