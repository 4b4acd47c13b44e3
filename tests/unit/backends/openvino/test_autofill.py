# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""What becomes of configs that are empty, in part or wrong, case by case as in upstream's tests.

Triton: server/qa/L0_model_config autofill_noplatform/openvino, autofill_noplatform_success/openvino
"""

import numpy as np
import pytest

from backends.config.pbtxt import to_pbtxt
from tests.support.autofill import completed, expected, model_dir, refusal
from tests.support.openvino_models import save_add_sub


def tensor(side, name, dims="1, 4", datatype="INT32", rest=""):
    return f'{side} {{ name: "{name}" data_type: TYPE_{datatype} dims: [ {dims} ] {rest} }} '


INPUTS = tensor("input", "INPUT0") + tensor("input", "INPUT1")
OUTPUTS = tensor("output", "OUTPUT0") + tensor("output", "OUTPUT1")


@pytest.mark.parametrize(
    ("case", "config", "says"),
    [
        (
            "bad_input_dims",
            tensor("input", "INPUT0") + tensor("input", "INPUT1", "1, 256"),
            "model 'bad_input_dims', tensor 'INPUT1': the model expects 2 dimensions (shape "
            "[1,4]) but the model configuration specifies 2 dimensions (shape [1,256])",
        ),
        (
            "bad_output_dims",
            tensor("output", "OUTPUT0", "1, 128") + tensor("output", "OUTPUT1"),
            "model 'bad_output_dims', tensor 'OUTPUT0': the model expects 2 dimensions (shape "
            "[1,4]) but the model configuration specifies 2 dimensions (shape [1,128])",
        ),
        (
            "too_few_inputs",
            tensor("input", "INPUT1"),
            "unable to load model 'too_few_inputs', configuration expects 1 inputs, model "
            "provides 2",
        ),
        (
            "too_many_inputs",
            INPUTS + tensor("input", "INPUT_EXTRA"),
            "unable to load model 'too_many_inputs', configuration expects 3 inputs, model "
            "provides 2",
        ),
        (
            "unknown_input",
            tensor("input", "INPUT0") + tensor("input", "UNKNOWN") + OUTPUTS,
            "unexpected inference input 'UNKNOWN', allowed inputs are: INPUT0, INPUT1",
        ),
        (
            "unknown_output",
            INPUTS + tensor("output", "UNKNOWN"),
            "unexpected inference output 'UNKNOWN', allowed outputs are: OUTPUT0, OUTPUT1",
        ),
    ],
)
def test_config_is_refused(tmp_path, case, config, says):
    directory = model_dir(tmp_path, case, config)
    save_add_sub(str(directory / "1/model.xml"), batch=1)
    assert refusal(directory) == says


def of(case, rest):
    return (
        f'name: "{case}" backend: "openvino" default_model_filename: "model.xml" '
        f'instance_group {{ name: "{case}" kind: KIND_CPU count: 1 }} ' + rest
    )


NARROW_OUTPUTS = tensor(
    "output", "OUTPUT0", "4", "INT8", 'label_filename: "output0_labels.txt"'
) + tensor("output", "OUTPUT1", "4", "INT8")


@pytest.mark.parametrize(
    ("case", "config", "model", "rest"),
    [
        (
            "dynamic_batch",
            "",
            {"layout": "NC"},
            "max_batch_size: 4 dynamic_batching { preferred_batch_size: 4 } "
            + (INPUTS + OUTPUTS).replace("1, 4", "4"),
        ),
        ("empty_config", "", {}, INPUTS + OUTPUTS),
        ("no_config", None, {}, INPUTS + OUTPUTS),
        (
            "partial_config",
            "max_batch_size: 8 " + NARROW_OUTPUTS,
            # Only the config says that the 8 is a batch's size.
            {"batch": 8, "dtype": np.int8},
            "max_batch_size: 8 "
            + tensor("input", "INPUT0", "4", "INT8")
            + tensor("input", "INPUT1", "4", "INT8")
            + NARROW_OUTPUTS,
        ),
    ],
)
def test_config_is_completed(tmp_path, case, config, model, rest):
    directory = model_dir(tmp_path, case, config)
    (directory / "output0_labels.txt").write_text("a\nb\nc\nd\n")
    save_add_sub(str(directory / "1/model.xml"), **({"batch": 1} | model))
    assert to_pbtxt(completed(directory)) == expected(of(case, rest))
