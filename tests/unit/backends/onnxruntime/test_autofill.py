# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""What becomes of configs that are empty, in part or wrong, case by case as in upstream's tests.

Triton: server/qa/L0_model_config autofill_noplatform/onnx, autofill_noplatform_success/onnx
"""

from onnx import TensorProto, helper

from tests.support.autofill import completed_test, refused_test, tensor
from tests.support.onnx_graphs import INT32, save, value

INT8 = TensorProto.INT8

INPUT0, INPUT1 = (tensor("input", f"INPUT{place}", "16", "INT32") for place in (0, 1))
OUTPUT0, OUTPUT1 = (tensor("output", f"OUTPUT{place}", "16", "INT8") for place in (0, 1))
FULL = "max_batch_size: 1 " + INPUT0 + INPUT1 + OUTPUT0 + OUTPUT1


def narrowing(path, batches=True):
    """INT8 sum and difference of two INT32 vectors of 16."""
    shape = ["N", 16] if batches else [16]
    nodes = []
    for index, operation in enumerate(("Add", "Sub")):
        nodes.append(helper.make_node(operation, ["INPUT0", "INPUT1"], [f"wide{index}"]))
        nodes.append(helper.make_node("Cast", [f"wide{index}"], [f"OUTPUT{index}"], to=INT8))
    save(
        str(path / "1/model.onnx"),
        nodes,
        [value(name, INT32, shape) for name in ("INPUT0", "INPUT1")],
        [value(name, INT8, shape) for name in ("OUTPUT0", "OUTPUT1")],
    )


REFUSED = [
    (
        "bad_input_dims",
        FULL.replace(INPUT0, INPUT0.replace("16", "16, 1")),
        "model 'bad_input_dims', tensor 'INPUT0': the model expects 2 dimensions (shape "
        "[-1,16]) but the model configuration specifies 3 dimensions (an initial batch "
        "dimension because max_batch_size > 0 followed by the explicit tensor shape, making "
        "complete shape [-1,16,1])",
    ),
    (
        "bad_max_batch_size",
        "max_batch_size: 1 " + INPUT0 + INPUT1,
        "autofill failed for model 'bad_max_batch_size': model does not support batching "
        "while non-zero max_batch_size is specified",
        False,
    ),
    (
        "bad_output_dims",
        FULL.replace(OUTPUT1, OUTPUT1.replace("16", "1")),
        "model 'bad_output_dims', tensor 'OUTPUT1': the model expects 2 dimensions (shape "
        "[-1,16]) but the model configuration specifies 2 dimensions (an initial batch "
        "dimension because max_batch_size > 0 followed by the explicit tensor shape, making "
        "complete shape [-1,1])",
    ),
    (
        "too_few_inputs",
        FULL.replace(INPUT0, ""),
        "unable to load model 'too_few_inputs', configuration expects 1 inputs, model provides 2",
    ),
    (
        "too_many_inputs",
        FULL + INPUT0.replace("INPUT0", "INPUT_EXTRA"),
        "unable to load model 'too_many_inputs', configuration expects 3 inputs, model provides 2",
    ),
    (
        "unknown_input",
        FULL.replace("INPUT1", "INPUT_UNKNOWN"),
        "unexpected inference input 'INPUT_UNKNOWN', allowed inputs are: INPUT0, INPUT1",
    ),
    (
        "unknown_output",
        FULL.replace(OUTPUT1, "").replace("OUTPUT0", "OUTPUT_UNKNOWN"),
        "unexpected inference output 'OUTPUT_UNKNOWN', allowed outputs are: OUTPUT0, OUTPUT1",
    ),
]
test_config_is_refused = refused_test(narrowing, REFUSED)


def of(case, kind="gpus: 0 kind: KIND_GPU count: 1", group=None, rest=""):
    return (
        f'name: "{case}" platform: "onnxruntime_onnx" backend: "onnxruntime" '
        'default_model_filename: "model.onnx" '
        f'instance_group {{ name: "{group or case}" {kind} }} ' + rest
    )


TENSORS = INPUT0 + INPUT1 + OUTPUT0 + OUTPUT1
BATCHED = "max_batch_size: 4 dynamic_batching { preferred_batch_size: 4 } " + TENSORS
TWO_ON_CPU = "kind: KIND_CPU count: 2"


COMPLETED = [
    ("empty_config", "", of("empty_config", rest=BATCHED)),
    ("no_config", None, of("no_config", rest=BATCHED)),
    (
        "no_config_no_batch",
        "instance_group { kind: KIND_CPU }",
        of("no_config_no_batch", TWO_ON_CPU, "no_config_no_batch_0", TENSORS),
        False,
    ),
    (
        "cpu_instance",
        'platform: "onnxruntime_onnx" instance_group { name: "cpu_instance" kind: KIND_CPU } '
        "max_batch_size: 8 " + TENSORS,
        of("cpu_instance", TWO_ON_CPU, rest="max_batch_size: 8 " + TENSORS),
    ),
]
test_config_is_completed = completed_test(narrowing, COMPLETED)
