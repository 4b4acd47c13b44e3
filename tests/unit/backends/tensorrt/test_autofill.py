# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""What becomes of configs that are empty, in part or wrong, case by case as in upstream's tests.

Plans are those of the stand-in for TensorRT.

Triton: server/qa/L0_model_config autofill_noplatform/tensorrt,
autofill_noplatform_success/tensorrt, custom_parameters/tensorrt
"""

import pytest

from tests.support import autofill
from tests.support.autofill import ONE_GPU, completed_test, refused_test
from tests.support.tensorrt_plans import add_sub, limits
from tests.support.tensorrt_standin import plan_of, tensor

pytestmark = pytest.mark.usefixtures("gpu")


def entry(side, name, dims="16", datatype="FP32", rest=""):
    return autofill.tensor(side, name, dims, datatype, rest)


def config_of(dims="16", head="max_batch_size: 8 ", **other):
    """Return a config of two inputs and outputs of these dims, some of them given otherwise."""
    entries = {name: entry("input", name, dims) for name in ("INPUT0", "INPUT1")}
    entries |= {name: entry("output", name, dims) for name in ("OUTPUT0", "OUTPUT1")}
    return head + "".join((entries | other).values())


def range_of(least, greatest, batches=8):
    return {name: [[1, least], [4, 16], [batches, greatest]] for name in ("INPUT0", "INPUT1")}


FIXED = add_sub(shape=(-1, 16), profiles=(limits(1, 4, 8, dim=16),))
VARIABLE = add_sub(shape=(-1, -1), profiles=(range_of(1, 32),))
BOUNDED = add_sub(shape=(-1, -1), profiles=(range_of(4, 32),))
PROFILES = add_sub(shape=(-1, -1), profiles=[range_of(1, 32, most) for most in (1, 4, 8, 16)])
NON_LINEAR = plan_of(
    "add_sub",
    [
        *(tensor(name, [-1, -1, 2, 1], format="CHW32") for name in ("INPUT0", "INPUT1")),
        *(tensor(name, [-1, -1, 2, 1], is_input=False) for name in ("OUTPUT0", "OUTPUT1")),
    ],
    {name: [[1, 1, 2, 1], [4, 16, 2, 1], [8, 32, 2, 1]] for name in ("INPUT0", "INPUT1")},
)
SHAPES = plan_of(
    "resize",
    [
        tensor("INPUT0", [3], "INT32", is_shape=True),
        tensor("DUMMY_INPUT0", [-1, -1, -1]),
        tensor("DUMMY_OUTPUT0", [-1, -1, -1], is_input=False),
        tensor("OUTPUT0", [3], "INT64", is_input=False, is_shape=True),
    ],
    {name: [[1, 1, 1], [4, 16, 16], [8, 32, 32]] for name in ("INPUT0", "DUMMY_INPUT0")},
)
INNER = ([2, 2, 4], [1, 2, 1], [3, 2, 2], [1, 1, 1])
RESHAPED = plan_of(
    "identity",
    [
        *(tensor(f"INPUT{place}", [-1, *dims]) for place, dims in enumerate(INNER)),
        *(
            tensor(f"OUTPUT{place}", [-1, *dims], is_input=False)
            for place, dims in enumerate(INNER)
        ),
    ],
    {f"INPUT{place}": [[each, *dims] for each in (1, 4, 8)] for place, dims in enumerate(INNER)},
)


def bad_dims(case, name):
    return (
        f"model '{case}', tensor '{name}': the model expects 2 dimensions (shape [-1,16]) but the "
        "model configuration specifies 2 dimensions (an initial batch dimension because "
        "max_batch_size > 0 followed by the explicit tensor shape, making complete shape [-1,7])"
    )


def out_of_range(case, size):
    return (
        f"model configuration specified invalid shape for input 'INPUT0' for model {case}. Error "
        "details: model expected the shape of dimension 1 to be between 4 and 32 but received "
        f"{size}"
    )


def contradicting(case):
    return (
        f"unable to autofill for '{case}', model tensor configurations are contradicting each "
        "other in terms of whether batching is supported"
    )


def write(directory, plan):
    (directory / "1/model.plan").write_bytes(plan)
    # It is ignored.
    (directory / "1/dummy_file.txt").write_text("dummy_content")


LINEAR_MARKED = (
    " uses a linear IO format, but 'is_non_linear_format_io' is incorrectly set to true in the "
    "model configuration."
)
NOT_LINEAR = "is_non_linear_format_io: true"
IS_SHAPE = "is_shape_tensor: true"


def shaped(values, output_dims):
    return (
        entry("input", "DUMMY_INPUT0", "-1, -1")
        + entry("input", "INPUT0", values, "INT32")
        + entry("output", "DUMMY_OUTPUT0", output_dims)
        + entry("output", "OUTPUT0", "2", "INT64")
    )


REFUSED = [
    (
        "bad_dynamic_shapes_max",
        BOUNDED,
        config_of("33", ""),
        out_of_range("bad_dynamic_shapes_max", 33),
    ),
    (
        "bad_dynamic_shapes_min",
        BOUNDED,
        config_of("3", ""),
        out_of_range("bad_dynamic_shapes_min", 3),
    ),
    (
        "bad_input_dims",
        FIXED,
        config_of(INPUT1=entry("input", "INPUT1", "7")),
        bad_dims("bad_input_dims", "INPUT1"),
    ),
    (
        "bad_input_non_linear_format_io",
        FIXED,
        config_of(INPUT0=entry("input", "INPUT0", rest=NOT_LINEAR)),
        "'INPUT0'" + LINEAR_MARKED,
    ),
    (
        "bad_input_shape",
        FIXED,
        config_of(INPUT1=entry("input", "INPUT1", "16, 1")),
        contradicting("bad_input_shape"),
    ),
    (
        "bad_input_shape_tensor",
        FIXED,
        config_of(INPUT0=entry("input", "INPUT0", rest=IS_SHAPE)),
        "'INPUT0' is incorrectly specified as a shape tensor.",
    ),
    (
        "bad_input_type",
        FIXED,
        config_of(INPUT0=entry("input", "INPUT0", datatype="FP16")),
        "unexpected datatype TYPE_FP32 for inference input 'INPUT0', expecting TYPE_FP16 for "
        "bad_input_type",
    ),
    (
        "bad_output_dims",
        FIXED,
        config_of(OUTPUT1=entry("output", "OUTPUT1", "7")),
        bad_dims("bad_output_dims", "OUTPUT1"),
    ),
    (
        "bad_output_shape",
        FIXED,
        config_of(OUTPUT1=entry("output", "OUTPUT1", "16, 1")),
        contradicting("bad_output_shape"),
    ),
    (
        "bad_output_shape_tensor",
        FIXED,
        config_of(OUTPUT1=entry("output", "OUTPUT1", rest=IS_SHAPE)),
        "'OUTPUT1' is incorrectly specified as a shape tensor.",
    ),
    (
        "bad_output_type",
        FIXED,
        config_of(OUTPUT1=entry("output", "OUTPUT1", datatype="INT8")),
        "unexpected datatype TYPE_FP32 for inference output 'OUTPUT1', expecting TYPE_INT8 "
        "for bad_output_type",
    ),
    (
        # As upstream spells it.
        "bad_outut_non_linear_format_io",
        FIXED,
        config_of(OUTPUT1=entry("output", "OUTPUT1", rest=NOT_LINEAR)),
        "'OUTPUT1'" + LINEAR_MARKED,
    ),
    (
        "mixed_batch_hint_dims",
        SHAPES,
        shaped("2", "-1, -1, -1"),
        contradicting("mixed_batch_hint_dims"),
    ),
    (
        "mixed_batch_hint_shape_values",
        SHAPES,
        shaped("3", "-1, -1"),
        contradicting("mixed_batch_hint_shape_values"),
    ),
    (
        "too_few_inputs",
        FIXED,
        config_of(INPUT0=""),
        "failed to specify the dimensions of all input tensors or values of all input shape "
        "tensors",
    ),
    (
        "too_many_inputs",
        FIXED,
        config_of(INPUT_EXTRA=entry("input", "INPUT_EXTRA")),
        "unexpected inference input 'INPUT_EXTRA', allowed inputs are: INPUT0, INPUT1",
    ),
    (
        "unknown_input",
        FIXED,
        config_of(INPUT1=entry("input", "INPUT_UNKNOWN")),
        "unexpected inference input 'INPUT_UNKNOWN', allowed inputs are: INPUT0, INPUT1",
    ),
    (
        "unknown_output",
        FIXED,
        config_of(OUTPUT0=entry("output", "OUTPUT_UNKNOWN")),
        "unexpected inference output 'OUTPUT_UNKNOWN', allowed outputs are: OUTPUT0, OUTPUT1",
    ),
]
test_config_is_refused = refused_test(
    write, [(case, *rest, plan) for case, plan, *rest in REFUSED], ONE_GPU, str.startswith
)


DYNAMIC = "dynamic_batching { preferred_batch_size: 8 } "
BATCHED = config_of() + DYNAMIC
ANY = config_of("-1") + DYNAMIC


def groups(case, *profiles):
    rows = [(f"{case}_{each}", f'profile: "{each}"') for each in profiles] or [(case, "")]
    return "".join(
        f'instance_group {{ name: "{name}" count: 1 kind: KIND_GPU gpus: 0 {rest} }} '
        for name, rest in rows
    )


def lacking(side):
    return autofill.lacking(side, "FP32")


OUTER = ("4, 4", "2", "2, 2, 3", "1")
RESHAPES = "max_batch_size: 8 " + "".join(
    entry("input", f"INPUT{place}", outer, rest=f"reshape {{ shape: {inner} }}")
    + entry("output", f"OUTPUT{place}", ", ".join(map(str, inner)))
    for place, (outer, inner) in enumerate(zip(OUTER, INNER, strict=True))
)
ANY_16 = (
    entry("input", "INPUT0", "-1, 16")
    + 'input { name: "INPUT1" dims: [ -1, 16 ] } '
    + 'output { name: "OUTPUT0" dims: [ -1, 16 ] } output { name: "OUTPUT1" dims: [ -1, 16 ] } '
)


COMPLETED = [
    ("empty_config", FIXED, "", BATCHED),
    ("empty_config_variable", VARIABLE, "", ANY),
    ("hint_for_no_batch", VARIABLE, ANY_16, config_of("-1, 16", "")),
    ("incomplete_input", FIXED, lacking("input"), BATCHED),
    ("incomplete_output", FIXED, lacking("output"), BATCHED),
    (
        "multi_prof_max_bs",
        PROFILES,
        "".join(f'instance_group {{ profile: "{each}" }} ' for each in range(3)),
        ANY,
    ),
    ("no_config", FIXED, None, BATCHED),
    (
        "no_config_non_linear_format_io",
        NON_LINEAR,
        None,
        config_of(
            "-1, 2, 1",
            INPUT0=entry("input", "INPUT0", "-1, 2, 1", rest=NOT_LINEAR),
            INPUT1=entry("input", "INPUT1", "-1, 2, 1", rest=NOT_LINEAR),
        )
        + DYNAMIC,
    ),
    (
        "no_config_shape_tensor",
        SHAPES,
        None,
        "max_batch_size: 8 "
        + entry("input", "INPUT0", "2", "INT32", IS_SHAPE)
        + entry("input", "DUMMY_INPUT0", "-1, -1")
        + entry("output", "DUMMY_OUTPUT0", "-1, -1")
        + entry("output", "OUTPUT0", "2", "INT64", IS_SHAPE)
        + DYNAMIC,
    ),
    ("no_config_variable", VARIABLE, None, ANY),
    ("no_name_platform", FIXED, config_of(), BATCHED),
    ("no_name_platform_variable", VARIABLE, config_of(), BATCHED),
    ("reshape_config_provided", RESHAPED, RESHAPES, RESHAPES + DYNAMIC),
]


def of(case):
    return (
        f'name: "{case}" backend: "tensorrt" platform: "tensorrt_plan" '
        'default_model_filename: "model.plan" '
    ) + groups(case, *(range(3) if case == "multi_prof_max_bs" else ()))


test_config_is_completed = completed_test(
    write, [(case, *rest, plan) for case, plan, *rest in COMPLETED], of
)
