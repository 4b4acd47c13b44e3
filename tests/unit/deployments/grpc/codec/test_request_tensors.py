# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Tensors and regions of a ModelInferRequest; texts are those a running Triton answers with."""

import numpy as np
import pytest

from backends.api.request import Extent
from deployments.grpc.codec.request import RequestDecoder
from tests.support.grpc_infer_requests import RAW, build, message, refusal

UNEXPECTED = "unexpected explicit tensor data for input tensor 'INPUT0' for model 'simple'"
NO_DATA = "unable to find data for input tensor 'INPUT{}' for model 'simple' in request."
BOTH = (
    "contents field must not be specified when using raw_input_contents for 'INPUT0' for model "
    "'simple'"
)
INTS = {"contents": {"int_contents": [1]}}


@pytest.mark.parametrize(
    ("inputs", "raw", "text"),
    [
        (({},), (), NO_DATA.format(0)),
        (({}, {}), (RAW,), NO_DATA.format(1)),
        ((INTS, {}), (), NO_DATA.format(1)),
        ((INTS,), (RAW,), BOTH),
        (({"contents": {"int_contents": []}},), (RAW,), BOTH),
        (
            ({"contents": {"fp32_contents": [1]}},),
            (),
            f"{UNEXPECTED} of type 'FP32', expected datatype 'INT32'",
        ),
        (
            ({"contents": {"fp32_contents": [1], "int_contents": [1]}},),
            (),
            f"{UNEXPECTED}, binary data was already supplied.",
        ),
        (
            ({"contents": {"bool_contents": [True], "int_contents": [1]}},),
            (),
            f"{UNEXPECTED} of type 'BOOL', expected datatype 'INT32'",
        ),
        (
            ({"datatype": "FP16", "contents": {"fp32_contents": [1]}},),
            (),
            f"{UNEXPECTED} of type 'FP32', expected datatype 'FP16'",
        ),
        (
            ({"datatype": "XX", "contents": {"int_contents": [1]}},),
            (),
            f"{UNEXPECTED} of type 'INT32', expected datatype '<invalid>'",
        ),
    ],
)
def test_missing_or_wrong_data_is_refused(inputs, raw, text):
    assert refusal(message(inputs=inputs, raw=raw)) == text


def test_surplus_raw_buffers_are_accepted():
    assert len(build(message(raw=(RAW, RAW))).inputs) == 1


def test_unknown_datatype_is_named_invalid():
    assert build(message(inputs=({"datatype": "INT33"},))).inputs[0].datatype == "<invalid>"


@pytest.mark.parametrize(
    ("datatype", "field", "values", "expected"),
    [
        ("BOOL", "bool_contents", [True, False], b"\x01\x00"),
        ("INT8", "int_contents", [-128, 300], b"\x80\x2c"),
        ("INT16", "int_contents", [70000], b"\x70\x11"),
        ("UINT16", "uint_contents", [70000], b"\x70\x11"),
        ("UINT64", "uint64_contents", [0, 2**64 - 1], bytes(8) + b"\xff" * 8),
        ("INT64", "int64_contents", [-1], b"\xff" * 8),
        ("FP32", "fp32_contents", [0.5], np.float32(0.5).tobytes()),
        ("FP64", "fp64_contents", [0.5], np.float64(0.5).tobytes()),
        ("BYTES", "bytes_contents", [b"a", b""], b"\x01\x00\x00\x00a\x00\x00\x00\x00"),
        ("INT32", "int_contents", [], b""),
    ],
)
def test_typed_contents_become_wire_bytes(datatype, field, values, expected):
    request = build(message(inputs=({"datatype": datatype, "contents": {field: values}},), raw=()))
    assert bytes(request.inputs[0].data) == expected


REGION = {"shared_memory_region": "r", "shared_memory_byte_size": 64}


@pytest.mark.parametrize("place", ["INPUT0", "OUTPUT0"])
@pytest.mark.parametrize(
    ("parameters", "text"),
    [
        (
            {"shared_memory_region": "r"},
            "'shared_memory_byte_size' must be specified along with 'shared_memory_region' "
            "parameter for tensor '{}'",
        ),
        (
            {"shared_memory_offset": 1},
            "'shared_memory_offset' can not be specified without 'shared_memory_region' "
            "parameter for tensor '{}'",
        ),
        (
            {"shared_memory_byte_size": "1"},
            "'shared_memory_byte_size' can not be specified without 'shared_memory_region' "
            "parameter for tensor '{}'",
        ),
        (
            REGION | {"shared_memory_region": 1},
            "invalid value type for 'shared_memory_region' parameter for tensor '{}', expected "
            "string_param.",
        ),
        (
            REGION | {"shared_memory_offset": "x"},
            "invalid value type for 'shared_memory_offset' parameter for tensor '{}', expected "
            "int64_param.",
        ),
    ],
)
def test_shared_memory_parameters_are_checked(place, parameters, text):
    request = (
        message(inputs=({"parameters": parameters},), raw=())
        if place == "INPUT0"
        else message(outputs=(parameters,))
    )
    assert refusal(request) == text.format(place)


def test_regions_become_extents():
    request = build(message(inputs=({"parameters": REGION},), outputs=(REGION,), raw=()))
    size = REGION["shared_memory_byte_size"]
    assert request.inputs[0].extent == Extent("r", 0, size)
    assert request.regions == {"OUTPUT0": Extent("r", 0, size)}


def test_request_without_regions_has_none():
    assert build(message(raw=(RAW,))).regions is None


def test_contents_with_shared_memory_are_refused():
    text = refusal(message(inputs=(INTS | {"parameters": REGION},), raw=()))
    assert text == (
        "unexpected 'content' provided when using shared memory for input tensor 'INPUT0' for "
        "model 'simple'"
    )


def test_other_parameters_of_tensors_are_ignored():
    parameters = {"foo": "x"}
    request = build(message(inputs=({"parameters": parameters},), outputs=(parameters,)))
    assert bytes(request.inputs[0].data) == RAW


def test_classification_counts_are_kept_by_output():
    data = message(outputs=({"classification": 3}, {})).SerializeToString()
    assert RequestDecoder().decode(data).classes == {"OUTPUT0": 3}


@pytest.mark.parametrize(
    ("parameters", "text"),
    [
        ({"classification": 0}, "invalid value for 'classification' parameter, expected >= 0"),
        ({"classification": -1}, "invalid value for 'classification' parameter, expected >= 0"),
        (
            {"classification": "2"},
            "invalid value type for 'classification' parameter, expected int64_param",
        ),
        (
            REGION | {"classification": 1},
            "output can't set both 'shared_memory_region' and 'classification'",
        ),
    ],
)
def test_wrong_classification_is_refused(parameters, text):
    assert refusal(message(outputs=(parameters,))) == text
