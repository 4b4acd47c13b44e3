# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""What becomes of configs that are empty, in part or wrong, case by case as in upstream's tests.

Triton: server/qa/L0_model_config autofill_noplatform/pytorch, autofill_noplatform_success/pytorch;
server/qa/L0_pytorch_python_runtime
"""

import numpy as np
import pytest

from tests.support.autofill import (
    completed,
    completed_test,
    refused_test,
    served,
    tensor,
)
from tests.support.model_folders import write_folder
from tests.support.recording import execute, recorded

torch = pytest.importorskip("torch")

from tests.support import torch_models as models  # noqa: E402 - once PyTorch is known to be there

INPUTS = "".join(tensor("input", f"INPUT__{place}", "16", "INT32") for place in (0, 1))
OUTPUTS = "".join(tensor("output", f"OUTPUT__{place}", "16", "INT32") for place in (0, 1))
BATCHED = "max_batch_size: 8 " + INPUTS + OUTPUTS


def add_sub(directory):
    models.save_script(models.AddSub(), str(directory / "1/model.pt"))


REFUSED = [
    (
        "too_few_inputs",
        'max_batch_size: 1 backend: "pytorch" ' + OUTPUTS,
        "unable to load model 'too_few_inputs', configuration expects 0 inputs, model provides 2",
    ),
    (
        "too_few_outputs",
        'max_batch_size: 1 backend: "pytorch" ' + INPUTS,
        "model configuration must contain at least one output, none were specified",
    ),
]
test_config_is_refused = refused_test(add_sub, REFUSED, is_said=str.startswith)


def of(case, kind, rest=BATCHED):
    return (
        f'name: "{case}" backend: "pytorch" platform: "pytorch_libtorch" '
        f'instance_group {{ name: "{case}" count: 1 {kind} }} ' + rest
    )


ON_CPU = (
    'platform: "pytorch_libtorch" default_model_filename: "model.pt" '
    'instance_group { name: "cpu_instance" kind: KIND_CPU } '
)


COMPLETED = [
    ("no_name_platform", BATCHED, of("no_name_platform", "kind: KIND_GPU gpus: 0")),
    (
        "cpu_instance",
        ON_CPU + BATCHED,
        of("cpu_instance", "kind: KIND_CPU", 'default_model_filename: "model.pt" ' + BATCHED),
    ),
]
test_config_is_completed = completed_test(add_sub, COMPLETED)


CLASS = (
    'backend: "pytorch" runtime: "model.py" '
    'input { name: "x" data_type: TYPE_FP32 dims: [ -1, 16 ] } '
    'output { name: "y" data_type: TYPE_FP32 dims: [ -1, 10 ] } '
)
# Answers 7, where the module of the weights would answer otherwise.
SEVENS = """
from tests.support.torch_models import Layers

class Sevens(Layers):
    def forward(self, x):
        return super().forward(x) * 0 + 7
"""


@pytest.mark.parametrize(
    ("case", "config", "files", "is_class"),
    [
        ("model_py_preferred_over_sibling_weights", "", {"class", "weights"}, True),
        ("explicit_default_model_filename_wins", "model.pt", {"class", "module"}, False),
        ("torchscript_only_model", "", {"module"}, False),
    ],
)
def test_runtime_in_python_finds_its_file(tmp_path, case, config, files, is_class):
    named = f'default_model_filename: "{config}" ' if config else ""
    directory = write_folder(tmp_path, case, CLASS + named)
    if "class" in files:
        (directory / "1/model.py").write_text(SEVENS)
    if "weights" in files:
        torch.save(models.Layers().state_dict(), directory / "1/model.pt")
    if "module" in files:
        models.save_script(models.Layers(), str(directory / "1/model.pt"))
    assert completed(directory).default_model_filename == config
    request = recorded({"x": np.ones((1, 16), np.float32)})
    execute(served(directory), request)
    assert (set(request.arrays()["y"].ravel().tolist()) == {7}) == is_class
