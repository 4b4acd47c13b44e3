# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""What becomes of configs that are empty, in part or wrong, case by case as in upstream's tests.

Triton: server/qa/L0_model_config autofill_noplatform/openvino, autofill_noplatform_success/openvino
"""

import numpy as np

from tests.support import autofill
from tests.support.autofill import completed_test, refused_test
from tests.support.openvino_models import save_add_sub


def tensor(side, name, dims="1, 4", datatype="INT32", rest=""):
    return autofill.tensor(side, name, dims, datatype, rest)


INPUTS = tensor("input", "INPUT0") + tensor("input", "INPUT1")
OUTPUTS = tensor("output", "OUTPUT0") + tensor("output", "OUTPUT1")


def add_sub(directory, **model):
    (directory / "output0_labels.txt").write_text("a\nb\nc\nd\n")
    save_add_sub(str(directory / "1/model.xml"), **({"batch": 1} | model))


def made_as(directory, model):
    add_sub(directory, **model)


REFUSED = [
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
        "unable to load model 'too_few_inputs', configuration expects 1 inputs, model provides 2",
    ),
    (
        "too_many_inputs",
        INPUTS + tensor("input", "INPUT_EXTRA"),
        "unable to load model 'too_many_inputs', configuration expects 3 inputs, model provides 2",
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
]
test_config_is_refused = refused_test(add_sub, REFUSED)


def of(case):
    return (
        f'name: "{case}" backend: "openvino" default_model_filename: "model.xml" '
        f'instance_group {{ name: "{case}" kind: KIND_CPU count: 1 }} '
    )


NARROW_OUTPUTS = tensor(
    "output", "OUTPUT0", "4", "INT8", 'label_filename: "output0_labels.txt"'
) + tensor("output", "OUTPUT1", "4", "INT8")


COMPLETED = [
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
]
test_config_is_completed = completed_test(
    made_as, [(case, config, rest, model) for case, config, model, rest in COMPLETED], of
)
