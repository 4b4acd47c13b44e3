# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""What becomes of configs that are empty, in part or wrong, case by case as in upstream's tests.

Upstream had them until TensorFlow left Triton. Configs are completed and checked without importing
TensorFlow; what a model is loaded with is OpenVINO, whose checks are the same.

Triton: server/qa/L0_model_config autofill_noplatform/tensorflow_savedmodel,
autofill_noplatform_success/tensorflow_savedmodel and tensorflow_graphdef, before 25.03
"""

from pathlib import Path

import pytest

from backends.config.pbtxt import to_pbtxt
from backends.tensorflow import choice
from tests.support import autofill
from tests.support.autofill import (
    completed,
    completed_test,
    expected,
    refused_test,
)
from tests.support.model_folders import write_folder
from tests.support.saved_models import (
    Named,
    add_sub_graph,
    binary,
    graph,
    placeholder,
    save,
    save_add_sub,
    signature,
)


@pytest.fixture(autouse=True)
def no_tensorflow(monkeypatch):
    monkeypatch.setattr(choice, "is_installed", lambda package: package != "tensorflow")


def entry(side, name, dims="16", datatype="INT32", rest=""):
    return autofill.tensor(side, name, dims, datatype, rest)


def add_sub(directory):
    save_add_sub(str(directory / "1/model.savedmodel"), (-1, 16))


INPUT0, INPUT1 = entry("input", "INPUT0"), entry("input", "INPUT1")
OUTPUT0, OUTPUT1 = entry("output", "OUTPUT0"), entry("output", "OUTPUT1")
TENSORS = INPUT0 + INPUT1 + OUTPUT0 + OUTPUT1
FULL = "max_batch_size: 1 " + TENSORS


REFUSED = [
    (
        "bad_input_dims",
        FULL.replace(INPUT0, entry("input", "INPUT0", "16, 1")),
        "unable to autofill for 'bad_input_dims', model tensor configurations are "
        "contradicting each other in terms of whether batching is supported",
    ),
    (
        "bad_input_type",
        FULL.replace(INPUT1, entry("input", "INPUT1", datatype="FP32")),
        "unable to load model 'bad_input_type', configuration expects datatype TYPE_FP32 for "
        "input 'INPUT1', model provides TYPE_INT32",
    ),
    (
        "bad_output_dims",
        FULL.replace(OUTPUT1, entry("output", "OUTPUT1", "1")),
        "model 'bad_output_dims', tensor 'OUTPUT1': the model expects 2 dimensions (shape "
        "[-1,16]) but the model configuration specifies 2 dimensions (an initial batch "
        "dimension because max_batch_size > 0 followed by the explicit tensor shape, making "
        "complete shape [-1,1])",
    ),
    (
        "bad_output_type",
        FULL.replace(OUTPUT0, entry("output", "OUTPUT0", datatype="INT16")),
        "unable to load model 'bad_output_type', configuration expects datatype TYPE_INT16 "
        "for output 'OUTPUT0', model provides TYPE_INT32",
    ),
    (
        "too_many_inputs",
        FULL + INPUT1,
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
test_config_is_refused = refused_test(add_sub, REFUSED)


def of(case, kind="kind: KIND_GPU gpus: 0 count: 1", group=None, file="savedmodel"):
    return (
        f'name: "{case}" backend: "tensorflow" platform: "tensorflow_{file}" '
        f'default_model_filename: "model.{file}" '
        f'instance_group {{ name: "{group or case}" {kind} }} '
    )


BATCHED = "max_batch_size: 4 dynamic_batching { preferred_batch_size: 4 } "
TWO_ON_CPU = "kind: KIND_CPU count: 2"
ANY_16 = TENSORS.replace("dims: [ 16 ]", "dims: [ -1, 16 ]")
HINTS = ('output { name: "OUTPUT0" data_type: TYPE_INT32 }', 'output { name: "OUTPUT1" dims: [')
SWAPPED_ANY_16 = ANY_16.replace("OUTPUT1", "OTHER").replace("OUTPUT0", "OUTPUT1")
SWAPPED_ANY_16 = SWAPPED_ANY_16.replace("OTHER", "OUTPUT0")


def lacking(side):
    return autofill.lacking(side, "INT32")


COMPLETED = [
    (
        "cpu_instance",
        'platform: "tensorflow_savedmodel" max_batch_size: 4 dynamic_batching { } '
        'instance_group { name: "cpu_instance" kind: KIND_CPU } ' + TENSORS,
        of("cpu_instance", TWO_ON_CPU) + BATCHED + TENSORS,
    ),
    ("empty_config", "", of("empty_config") + BATCHED + TENSORS),
    (
        "hint_for_no_batch_1",
        f"{HINTS[0]} {HINTS[1]} -1, 16 ] }}",
        of("hint_for_no_batch_1") + ANY_16,
    ),
    (
        "hint_for_no_batch_2",
        f"{HINTS[1]} -1, 16 ] }} {HINTS[0]}",
        of("hint_for_no_batch_2") + SWAPPED_ANY_16,
    ),
    ("incomplete_input", lacking("input"), of("incomplete_input") + BATCHED + TENSORS),
    ("incomplete_output", lacking("output"), of("incomplete_output") + BATCHED + TENSORS),
    (
        "kind_model_config",
        "instance_group { kind: KIND_MODEL }",
        of("kind_model_config", "kind: KIND_MODEL count: 1", "kind_model_config_0")
        + BATCHED
        + TENSORS,
    ),
    (
        "max_batch_size_set",
        "max_batch_size: 8",
        of("max_batch_size_set") + BATCHED.replace("4", "8") + TENSORS,
    ),
    ("no_config", None, of("no_config") + BATCHED + TENSORS),
    ("no_name_platform", FULL, of("no_name_platform") + FULL),
    (
        "too_few_inputs",
        "max_batch_size: 1 " + INPUT1 + OUTPUT0 + OUTPUT1,
        of("too_few_inputs") + "max_batch_size: 1 " + INPUT1 + INPUT0 + OUTPUT0 + OUTPUT1,
    ),
]
test_config_is_completed = completed_test(add_sub, COMPLETED)


def test_no_config_no_batch(tmp_path):
    directory = write_folder(tmp_path, "volume", "instance_group { kind: KIND_CPU }")
    save_add_sub(str(directory / "1/model.savedmodel"), (1, 16, 1))
    assert to_pbtxt(completed(directory)) == expected(
        of("volume", TWO_ON_CPU, "volume_0") + TENSORS.replace("[ 16 ]", "[ 1, 16, 1 ]")
    )


RESHAPED = (
    "max_batch_size: 8 "
    + entry("input", "INPUT0", "1", rest="reshape { }")
    + entry("input", "INPUT1", "8", rest="reshape { shape: [ 4, 1, 2 ] }")
    + entry("output", "OUTPUT0", "1", rest="reshape { }")
    + entry("output", "OUTPUT1", "8", rest="reshape { shape: [ 4, 1, 2 ] }")
)


@pytest.mark.parametrize("file", ["savedmodel", "graphdef"])
def test_reshape_config_provided(tmp_path, file):
    directory = write_folder(tmp_path, "reshaped", RESHAPED)
    shapes = ((-1,), (-1, 4, 1, 2))
    definition = graph(
        *(placeholder(f"x{place}", "INT32", dims) for place, dims in enumerate(shapes)),
        *(binary(f"y{place}", "AddV2", f"x{place}", f"x{place}", "INT32") for place in (0, 1)),
    )
    path = str(directory / f"1/model.{file}")
    if file == "savedmodel":
        sides = [
            {
                f"{name}{place}": Named(f"{letter}{place}:0", "INT32", dims)
                for place, dims in enumerate(shapes)
            }
            for name, letter in (("INPUT", "x"), ("OUTPUT", "y"))
        ]
        save(path, definition, {"serving_default": signature(*sides)})
    else:
        Path(path).write_bytes(definition)
    # A GraphDef completes nothing, so it gets no batcher either.
    batcher = "dynamic_batching { preferred_batch_size: 8 } " if file == "savedmodel" else ""
    assert to_pbtxt(completed(directory)) == expected(
        of("reshaped", file=file) + RESHAPED + batcher
    )


def test_no_name_platform_of_a_graph_def(tmp_path):
    directory = write_folder(tmp_path, "no_name_platform", FULL)
    (directory / "1/model.graphdef").write_bytes(add_sub_graph((-1, 16)))
    wanted = of("no_name_platform", file="graphdef") + FULL
    assert to_pbtxt(completed(directory)) == expected(wanted)
