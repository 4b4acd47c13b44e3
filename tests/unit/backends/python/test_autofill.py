# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""What becomes of configs that are empty, in part or wrong, case by case as in upstream's tests.

Triton: server/qa/L0_model_config autofill_noplatform/python, autofill_noplatform_success/python
"""

import operator
import textwrap

from tests.support import autofill
from tests.support.autofill import completed_test, refused_test


def tensor(side, name, dims="4", datatype="FP32"):
    return autofill.tensor(side, name, dims, datatype)


INPUTS = tensor("input", "INPUT0") + tensor("input", "INPUT1")
OUTPUTS = tensor("output", "OUTPUT0") + tensor("output", "OUTPUT1")
TENSORS = INPUTS + OUTPUTS

ADDS = {
    name: f'config.add_{side}({{"name": "{name}", "data_type": "TYPE_FP32", "dims": [4]}})\n'
    for side, name in (
        ("input", "INPUT0"),
        ("input", "INPUT1"),
        ("output", "OUTPUT0"),
        ("output", "OUTPUT1"),
    )
}
DECOUPLED = "config.set_model_transaction_policy(dict(decoupled={}))\n"


def write(directory, completes):
    """Write a model that completes its config so; one that returns nothing for None."""
    body = adding(0) if completes is None else completes + RETURNS
    body = textwrap.indent(body, "        ")
    (directory / "1/model.py").write_text(
        "class TritonPythonModel:\n"
        f"    @staticmethod\n    def auto_complete_config(config):\n{body}"
        "    def execute(self, requests):\n        return []\n"
    )


def adding(size, middle="", **other):
    """Say the batch size and all tensors, some of them in another way."""
    return f"config.set_max_batch_size({size})\n" + middle + "".join((ADDS | other).values())


def missing(name, key):
    side = "input" if name.startswith("INPUT") else "output"
    told = {"name": name, "data_type": "TYPE_FP32", "dims": [4]}
    del told[key]
    return {name: f"config.add_{side}({told})\n"}


def wrong(name):
    side = "input" if name.startswith("INPUT") else "output"
    told = {"name": name, "data_type": "TYPE_FP32", "dims": [4], "is_shape_tensor": True}
    return {name: f"config.add_{side}({told})\n"}


RETURNS = "return config\n"


REFUSED = [
    (
        "conflicting_max_batch_size",
        "max_batch_size: 6 " + TENSORS,
        adding(4),
        "configuration specified max_batch_size 6, but in auto-complete-config function for "
        "model 'conflicting_max_batch_size' specified max_batch_size 4",
    ),
    (
        "conflicting_scheduler_sequence",
        TENSORS + "sequence_batching { }",
        adding(4, "config.set_dynamic_batching()\n"),
        "Configuration specified scheduling_choice as 'sequence_batching', but "
        "auto-complete-config function for model 'conflicting_scheduler_sequence' tries to "
        "set scheduling_choice as 'dynamic_batching'",
    ),
    (
        "input_mismatch_datatype",
        tensor("input", "INPUT0") + tensor("input", "INPUT1", datatype="INT32") + OUTPUTS,
        adding(0),
        "unable to load model 'input_mismatch_datatype', configuration expects datatype "
        "TYPE_INT32 for input 'INPUT1', model provides TYPE_FP32",
    ),
    (
        "input_mismatch_dims",
        tensor("input", "INPUT0") + tensor("input", "INPUT1", "16") + OUTPUTS,
        adding(0),
        "model 'input_mismatch_dims', tensor 'INPUT1': the model expects dims [4] but the "
        "model configuration specifies dims [16]",
    ),
    (
        "input_missing_datatype",
        TENSORS,
        adding(0, **missing("INPUT0", "data_type")),
        "input 'INPUT0' in auto-complete-config function for model 'input_missing_datatype' "
        "is missing 'data_type' property.",
    ),
    (
        "input_missing_dims",
        TENSORS,
        adding(0, **missing("INPUT1", "dims")),
        "input 'INPUT1' in auto-complete-config function for model 'input_missing_dims' is "
        "missing 'dims' property.",
    ),
    (
        "input_missing_name",
        TENSORS,
        adding(0, **missing("INPUT0", "name")),
        "input in auto-complete-config function for model 'input_missing_name' is missing "
        "'name' property.",
    ),
    (
        "input_wrong_property",
        TENSORS,
        adding(0, **wrong("INPUT1")),
        "input 'INPUT1' in auto-complete-config function for model 'input_wrong_property' "
        "contains property other than 'name', 'data_type', 'dims' and 'optional'.",
    ),
    (
        "model_transaction_policy_invalid_args",
        TENSORS,
        adding(4, 'config.set_model_transaction_policy({"invalid": "argument"})\n'),
        "model transaction property in auto-complete-config function for model "
        "'model_transaction_policy_invalid_args' contains property other than 'decoupled'",
    ),
    (
        "model_transaction_policy_mismatch",
        "model_transaction_policy { decoupled: false } " + TENSORS,
        adding(4, DECOUPLED.format(True)),
        "trying to change decoupled property in auto-complete-config for model "
        "'model_transaction_policy_mismatch', which is already set to 'False'",
    ),
    (
        "no_return",
        TENSORS,
        None,
        "auto_complete_config function in model 'no_return' must return a valid "
        "pb.ModelConfig object.",
    ),
    (
        "output_mismatch_datatype",
        INPUTS + tensor("output", "OUTPUT0", datatype="INT32") + tensor("output", "OUTPUT1"),
        adding(0),
        "unable to load model 'output_mismatch_datatype', configuration expects datatype "
        "TYPE_INT32 for output 'OUTPUT0', model provides TYPE_FP32",
    ),
    (
        "output_mismatch_dims",
        INPUTS + tensor("output", "OUTPUT0") + tensor("output", "OUTPUT1", "16"),
        adding(0),
        "model 'output_mismatch_dims', tensor 'OUTPUT1': the model expects dims [4] but the "
        "model configuration specifies dims [16]",
    ),
    (
        "output_missing_datatype",
        TENSORS,
        adding(0, **missing("OUTPUT0", "data_type")),
        "output 'OUTPUT0' in auto-complete-config function for model "
        "'output_missing_datatype' is missing 'data_type' property.",
    ),
    (
        "output_missing_dims",
        TENSORS,
        adding(0, **missing("OUTPUT1", "dims")),
        "output 'OUTPUT1' in auto-complete-config function for model 'output_missing_dims' "
        "is missing 'dims' property.",
    ),
    (
        "output_missing_name",
        TENSORS,
        adding(0, **missing("OUTPUT0", "name")),
        "output in auto-complete-config function for model 'output_missing_name' is missing "
        "'name' property.",
    ),
    (
        "output_wrong_property",
        TENSORS,
        adding(0, **wrong("OUTPUT1")),
        "output 'OUTPUT1' in auto-complete-config function for model 'output_wrong_property' "
        "contains property other than 'name', 'data_type' and 'dims'.",
    ),
]
test_config_is_refused = refused_test(
    write,
    [(case, config, says, completes) for case, config, completes, says in REFUSED],
    is_said=operator.contains,
)


def of(case):
    return (
        f'name: "{case}" backend: "python" default_model_filename: "model.py" '
        f'instance_group {{ name: "{case}" kind: KIND_GPU gpus: 0 count: 1 }} '
    )


BATCHED = "max_batch_size: 4 " + TENSORS
DYNAMIC = BATCHED + "dynamic_batching { preferred_batch_size: [ 4 ] } "
OPTIONAL = {
    "INPUT0": ADDS["INPUT0"].replace("[4]", '[4], "optional": True'),
    "INPUT1": "",
}
SWAPPED = tensor("input", "INPUT1") + tensor("input", "INPUT0")
UNKNOWN_INPUT = tensor("input", "INPUT0") + tensor("input", "INPUT_UNKNOWN")
UNKNOWN_OUTPUT = tensor("output", "OUTPUT_UNKNOWN") + tensor("output", "OUTPUT1")
POLICY = "model_transaction_policy { decoupled: true } "


COMPLETED = [
    ("dynamic_batching", TENSORS, adding(4, "config.set_dynamic_batching()\n"), DYNAMIC),
    ("dynamic_batching_no_op", DYNAMIC, adding(4, "config.set_dynamic_batching()\n"), DYNAMIC),
    ("empty_config", "", adding(0), TENSORS),
    ("incomplete_input", tensor("input", "INPUT1"), adding(0), SWAPPED + OUTPUTS),
    (
        "incomplete_output",
        'output [ { name: "OUTPUT0" data_type: TYPE_FP32 }, { name: "OUTPUT1" dims: [ 4 ] } ]',
        adding(0),
        TENSORS,
    ),
    ("model_transaction_policy", TENSORS, adding(4, DECOUPLED.format(True)), BATCHED + POLICY),
    (
        "model_transaction_policy_decoupled_false",
        TENSORS,
        adding(4, DECOUPLED.format(False)),
        BATCHED + "model_transaction_policy { } ",
    ),
    (
        "model_transaction_policy_no_op",
        POLICY + TENSORS,
        adding(4, DECOUPLED.format(True)),
        BATCHED + POLICY,
    ),
    (
        "optional_input",
        tensor("input", "INPUT1"),
        adding(0, **OPTIONAL),
        SWAPPED.replace('"INPUT0"', '"INPUT0" optional: true') + OUTPUTS,
    ),
    (
        "unknown_input",
        UNKNOWN_INPUT + OUTPUTS,
        adding(0),
        UNKNOWN_INPUT + tensor("input", "INPUT1") + OUTPUTS,
    ),
    (
        "unknown_output",
        INPUTS + UNKNOWN_OUTPUT,
        adding(0),
        INPUTS + UNKNOWN_OUTPUT + tensor("output", "OUTPUT0"),
    ),
]
test_config_is_completed = completed_test(
    write, [(case, config, rest, completes) for case, config, completes, rest in COMPLETED], of
)
