# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
import pytest

from backends.api.errors import InvalidArgumentError
from backends.config.normalisation import normalise
from backends.config.pbtxt import parse_pbtxt
from backends.config.validation.model import (
    validate_before_auto_complete,
    validate_tensors,
)
from tests.support.config_texts import HEAD, INPUT, OUTPUT, complaint_of, tensor


def batch_input(kind: str, sources: str, datatype: str = "TYPE_FP32") -> str:
    return (
        f'{INPUT} batch_input {{ kind: {kind} target_name: "t" data_type: {datatype} '
        f"source_input: [{sources}] }}"
    )


def batch_output(sources: str, targets: str = '"OUTPUT"') -> str:
    return (
        f"{INPUT} {OUTPUT} batch_output {{ kind: BATCH_SCATTER_WITH_INPUT_SHAPE "
        f"target_name: [{targets}] source_input: [{sources}] }}"
    )


ELEMENT_COUNT_KINDS = (
    "BATCH_ELEMENT_COUNT",
    "BATCH_ACCUMULATED_ELEMENT_COUNT",
    "BATCH_ACCUMULATED_ELEMENT_COUNT_WITH_ZERO",
    "BATCH_MAX_ELEMENT_COUNT_AS_SHAPE",
    "BATCH_ITEM_SHAPE",
    "BATCH_ITEM_SHAPE_FLATTEN",
)
IN = "model input 'input'"
OUT = "model output 'output'"
DIMENSION = "must be integer >= 1, or -1 to indicate a variable-size dimension for m"
SIZE = "has different size for dims and reshape for m"
VARIABLES = "has different number of variable-size dimensions for dims and reshape for m"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("input { data_type: TYPE_FP32 dims: [1] }", "model input must specify 'name' for m"),
        ('input { name: "input" dims: [1] }', f"{IN} must specify 'data_type' for m"),
        (tensor("input", ""), f"{IN} must specify 'dims' for m"),
        (tensor("output", ""), f"{OUT} must specify 'dims' for m"),
        (tensor("input", "dims: [0]"), f"{IN} dimension {DIMENSION}"),
        (tensor("output", "dims: [-2]"), f"{OUT} dimension {DIMENSION}"),
        (
            tensor("input", "dims: [1] reshape {}"),
            f"{IN} cannot have empty reshape for non-batching model as scalar tensors are not "
            "supported for m",
        ),
        (
            tensor("input", "dims: [1] reshape { shape: [0] }"),
            f"{IN} reshape dimensions {DIMENSION}",
        ),
        (tensor("input", "dims: [4] reshape { shape: [2, 3] }"), f"{IN} {SIZE}"),
        (tensor("output", "dims: [4] reshape { shape: [-1] }"), f"{OUT} {SIZE}"),
        (tensor("input", "dims: [2, -1] reshape { shape: [-1, 2] }"), f"{IN} {SIZE}"),
        (tensor("output", "dims: [-1] reshape { shape: [-1, -1] }"), f"{OUT} {VARIABLES}"),
        (
            tensor("input", "dims: [2] format: FORMAT_NHWC"),
            "model input NHWC/NCHW require 3 dims for m",
        ),
        (
            tensor("input", "dims: [2] is_shape_tensor: true"),
            "shape tensors are only supported for TensorRT platform for m",
        ),
        (
            tensor("output", "dims: [2] is_non_linear_format_io: true"),
            "Non-linear IO format is only supported for the TensorRT platform for m",
        ),
        *(
            (
                batch_input(kind, ""),
                f"batch input kind '{kind}' expects 1 source input, got 0 for m",
            )
            for kind in ELEMENT_COUNT_KINDS
        ),
        *(
            (
                batch_input(kind, '"input", "input"'),
                f"batch input kind '{kind}' expects 1 source input, got 2 for m",
            )
            for kind in ELEMENT_COUNT_KINDS
        ),
        (
            batch_input("BATCH_ELEMENT_COUNT", '"input"', "TYPE_INT64"),
            "batch input data type must be TYPE_INT32 or TYPE_FP32 for m",
        ),
        (
            batch_input("BATCH_ELEMENT_COUNT", '"UNKNOWN_INPUT"'),
            "unknown source input name 'UNKNOWN_INPUT' for m",
        ),
        (
            batch_output(""),
            "batch output kind 'BATCH_SCATTER_WITH_INPUT_SHAPE' expects 1 source input, got 0 "
            "for m",
        ),
        (batch_output('"UNKNOWN_INPUT"'), "unknown source input name 'UNKNOWN_INPUT' for m"),
        (
            batch_output('"input"', '"UNKNOWN_OUTPUT"'),
            "unknown target output name 'UNKNOWN_OUTPUT' for m",
        ),
        (
            batch_output('"input"', '"OUTPUT", "OUTPUT"'),
            "target output name 'OUTPUT' can only be specified once for m",
        ),
    ],
)
def test_tensor_rule(text: str, expected: str):
    assert complaint_of(f"{HEAD} {text}") == expected


def test_tensors_are_left_to_auto_complete_at_first():
    config = normalise(parse_pbtxt(f"{HEAD} {tensor('input', '')}", "p"), gpu_ids=())
    validate_before_auto_complete(config)
    with pytest.raises(InvalidArgumentError):
        validate_tensors(config)
