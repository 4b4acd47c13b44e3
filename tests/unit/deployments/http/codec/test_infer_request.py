# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
# ruff: noqa: E501 - texts of Triton stay in one piece, so that they can be searched for
import json
import struct
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from backends.api.bytes_tensor import serialize_bytes
from backends.api.errors import InternalError, InvalidArgumentError, TritonError
from backends.api.model_config import ModelInput
from backends.api.request import SEQUENCE_END, SEQUENCE_START, Extent
from deployments.http.codec.infer_request import InferDecoder
from deployments.http.codec.infer_spec import DecodedInfer, RequestedOutput
from tests.support.examples import examples
from tests.support.http_infer_requests import (
    FIRST,
    SECOND,
    SIMPLE,
    Served,
    binary_header,
    decode,
    given_input,
)


def test_binary_inputs_are_views_of_the_body() -> None:
    text = json.dumps(binary_header(id="a")).encode()
    body = memoryview(text + FIRST + SECOND)
    request = InferDecoder().decode(body, len(text), SIMPLE).request
    assert request.id == "a"
    assert [bytes(each.data) for each in request.inputs] == [FIRST, SECOND]
    assert all(each.data.obj is body.obj for each in request.inputs)
    assert [each.shape for each in request.inputs] == [(1, 16), (1, 16)]


def test_json_inputs_become_bytes() -> None:
    request = decode({"inputs": [given_input(data=list(range(16)))]}).request
    assert bytes(request.inputs[0].data) == FIRST
    assert request.id == ""


def test_known_header_gives_fresh_tensors_and_the_new_id() -> None:
    decoder = InferDecoder()

    def once(request_id: str, first: bytes) -> DecodedInfer:
        text = json.dumps(
            {"id": request_id, **binary_header(outputs=[{"name": "OUTPUT0"}])}
        ).encode()
        return decoder.decode(memoryview(text + first + SECOND), len(text), SIMPLE)

    before = once("a", FIRST)
    before.request.inputs[0].shape = (99,)
    after = once("b", SECOND)
    assert after.request.id == "b"
    assert after.request.inputs[0].shape == (1, 16)
    assert bytes(after.request.inputs[0].data) == SECOND
    assert after.request.outputs == ["OUTPUT0"]


def test_known_header_with_another_tail_is_checked_anew() -> None:
    decoder = InferDecoder()
    text = json.dumps(binary_header()).encode()
    decoder.decode(memoryview(text + FIRST + SECOND), len(text), SIMPLE)
    with pytest.raises(InvalidArgumentError, match="expecting 4 additional bytes"):
        decoder.decode(memoryview(text + FIRST + SECOND[:-4]), len(text), SIMPLE)
    with pytest.raises(InvalidArgumentError, match="unexpected additional input data"):
        decoder.decode(memoryview(text + FIRST + SECOND + b"zzzz"), len(text), SIMPLE)


def test_malformed_header_is_not_taken_for_a_known_one() -> None:
    decoder = InferDecoder()
    text = json.dumps(binary_header()).encode()
    decoder.decode(memoryview(text + FIRST + SECOND), len(text), SIMPLE)
    wrong = b'{"id":"x",' + text
    with pytest.raises(InternalError, match="Missing a name for object member"):
        decoder.decode(memoryview(wrong + FIRST + SECOND), len(wrong), SIMPLE)


def test_number_of_known_headers_is_bounded() -> None:
    decoder = InferDecoder()
    for number in range(1100):
        text = json.dumps(binary_header(parameters={"n": number})).encode()
        decoder.decode(memoryview(text + FIRST + SECOND), len(text), SIMPLE)
    assert len(decoder._templates) <= 1024


def test_parameters_are_sorted_into_their_fields() -> None:
    header = binary_header(
        parameters={
            "sequence_id": 7,
            "sequence_start": True,
            "sequence_end": True,
            "priority": 2,
            "timeout": 5000,
            "binary_data_output": True,
            "text": "x",
            "number": -3,
            "flag": True,
            "ratio": 1.5,
            "huge": 2**64,
            "large": 2**63,
        }
    )
    decoded = decode(header, FIRST + SECOND)
    request = decoded.request
    assert request.correlation_id == 7
    assert request.flags == SEQUENCE_START | SEQUENCE_END
    assert (request.priority, request.timeout_us) == (2, 5000)
    assert request.parameters == {
        "text": "x",
        "number": -3,
        "flag": True,
        "ratio": 1.5,
        "huge": float(2**64),
        "large": float(2**63),
    }
    assert decoded.outputs.is_binary


def test_a_flag_that_is_false_is_as_one_that_is_missing() -> None:
    flags = {"sequence_start": False, "sequence_end": False, "binary_data_output": False}
    decoded = decode(binary_header(parameters={"sequence_id": 7, **flags}), FIRST + SECOND)
    assert decoded.request.flags == 0
    assert not decoded.outputs.is_binary
    assert decoded.outputs.is_binary is decode(binary_header(), FIRST + SECOND).outputs.is_binary


def test_a_request_names_the_model_and_version_that_were_asked() -> None:
    decoder = InferDecoder()
    text = json.dumps(binary_header()).encode()
    body = memoryview(text + FIRST + SECOND)
    raw_model = Served(ModelInput("INPUT", "BYTES", (1,)), max_batch_size=0)
    for request in (
        decoder.decode(body, len(text), SIMPLE).request,
        decoder.decode(body, len(text), SIMPLE).request,  # by the header that is known
        decoder.decode(memoryview(b"raw"), 0, raw_model).request,
    ):
        assert (request.model_name, request.model_version, request.id) == ("simple", 1, "")


def test_a_header_without_binary_data_is_not_kept() -> None:
    decoder = InferDecoder()
    mixed = [given_input(parameters={"binary_data_size": 64}), given_input("INPUT1", data=DATA)]
    for inputs, kept in ((mixed, 0), (binary_header()["inputs"], 1)):
        text = json.dumps({"inputs": inputs}).encode()
        tail = FIRST * (1 + kept)
        for _ in range(2):
            decoder.decode(memoryview(text + tail), len(text), SIMPLE)
        assert len(decoder._templates) == kept
        assert None not in decoder._templates.values()


def test_requested_outputs_keep_order_and_wishes() -> None:
    outputs = [
        {"name": "B", "parameters": {"binary_data": True}},
        {"name": "A", "parameters": {"classification": 3}},
        {"name": "C", "parameters": {"shared_memory_region": "r", "shared_memory_byte_size": 4}},
        {"name": "D"},
    ]
    decoded = decode(binary_header(outputs=outputs), FIRST + SECOND)
    assert decoded.request.outputs == ["B", "A", "C", "D"]
    by_name = decoded.outputs.by_name
    assert by_name["B"].is_binary
    assert by_name["A"].class_count == 3
    extent = by_name["C"].extent
    assert extent is not None
    assert (extent.source, extent.size_bytes) == ("r", 4)
    assert not by_name["D"].is_binary


def test_input_in_shared_memory_becomes_an_extent() -> None:
    parameters = {
        "shared_memory_region": "r",
        "shared_memory_offset": 8,
        "shared_memory_byte_size": 64,
    }
    (tensor,) = decode({"inputs": [given_input(parameters=parameters)]}).request.inputs
    assert tensor.extent is not None
    assert (tensor.extent.source, tensor.extent.offset, tensor.extent.size_bytes) == ("r", 8, 64)


def test_a_header_says_the_same_however_it_is_read() -> None:
    region = {"shared_memory_region": "r", "shared_memory_offset": 8, "shared_memory_byte_size": 64}
    outputs = [
        {"name": "A", "parameters": {"classification": 3}},
        {"name": "B", "parameters": region},
        {"name": "C", "parameters": {"binary_data": True}},
    ]
    header = {"inputs": [given_input(parameters=region)], "outputs": outputs}
    fast = decode(header)
    # RapidJSON takes a byte order mark, msgspec does not.
    careful = decode(b"\xef\xbb\xbf" + json.dumps(header).encode())
    for decoded in (fast, careful):
        (tensor,) = decoded.request.inputs
        assert tensor.extent == Extent("r", 8, 64)
        assert decoded.outputs.by_name == {
            "A": RequestedOutput(class_count=3),
            "B": RequestedOutput(extent=Extent("r", 8, 64)),
            "C": RequestedOutput(is_binary=True),
        }
        assert decoded.request.id == ""


DATA = list(range(16))


def test_first_of_two_equal_keys_counts() -> None:
    text = json.dumps(binary_header())[:-1].encode() + b', "inputs": []}'
    assert len(decode(text, FIRST + SECOND).request.inputs) == 2


def test_bytes_that_are_no_utf8_pass_as_data_and_are_replaced_in_names() -> None:
    header = (
        b'{"id":"\xff","inputs":[{"name":"INPUT0","datatype":"BYTES","shape":[1],"data":["\xfe"]}]}'
    )
    request = decode(header).request
    assert request.id == "\ufffd"
    assert bytes(request.inputs[0].data) == serialize_bytes([b"\xfe"])


@pytest.mark.parametrize(
    ("model", "body", "shape"),
    [
        (Served(ModelInput("X", "FP32", (-1,))), bytes(12), (1, 3)),
        (Served(ModelInput("X", "FP32", (2, -1))), bytes(24), (1, 2, 3)),
        (Served(ModelInput("X", "FP32", (5,)), max_batch_size=0), bytes(20), (5,)),
        (Served(ModelInput("X", "FP32", (-1,))), b"", (1, 0)),
    ],
)
def test_raw_body_is_the_one_input(model: Served, body: bytes, shape: tuple[int, ...]) -> None:
    decoded = InferDecoder().decode(memoryview(body), 0, model)
    (tensor,) = decoded.request.inputs
    assert (tensor.name, tensor.shape, tensor.data.nbytes) == ("X", shape, len(body))
    assert decoded.outputs.is_binary


def test_raw_string_gets_its_length() -> None:
    model = Served(ModelInput("X", "BYTES", (1,)))
    (tensor,) = InferDecoder().decode(memoryview(b"hello"), 0, model).request.inputs
    assert bytes(tensor.data) == serialize_bytes([b"hello"])


@pytest.mark.parametrize(
    ("model", "text"),
    [
        (
            SIMPLE,
            "Raw request must only have 1 input (found 1) to be deduced but got 2 inputs in 'simple' "
            "model configuration",
        ),
        (
            Served(ModelInput("X", "FP32", (-1, -1))),
            "The shape of the raw input 'X' can not be deduced because there are more than one "
            "variable-sized dimension",
        ),
        (
            Served(ModelInput("X", "BYTES", (-1,))),
            "For BYTE datatype raw input 'X', the model must have input shape [1]",
        ),
        (
            Served(ModelInput("X", "FP32", (-1,))),
            "input byte size mismatch for input 'raw_input' for model 'simple'. Expected 4, got 5",
        ),
    ],
)
def test_raw_body_that_fits_no_shape_is_refused(model: Served, text: str) -> None:
    with pytest.raises(InvalidArgumentError) as caught:
        InferDecoder().decode(memoryview(b"abcde"), 0, model)
    assert caught.value.message == f"[request id: <id_unknown>] {text}"


RANGES = {"INT8": "i1", "INT16": "i2", "INT32": "i4", "INT64": "i8"} | {
    "UINT8": "u1",
    "UINT16": "u2",
    "UINT32": "u4",
    "UINT64": "u8",
}


@settings(max_examples=examples(60), deadline=None)
@given(
    datatype=st.sampled_from(sorted(RANGES)),
    values=st.lists(st.integers(-(2**63), 2**64 - 1), min_size=1, max_size=8),
    is_nested=st.booleans(),
)
def test_json_integers_wrap_into_narrow_types(
    datatype: str, values: list[int], is_nested: bool
) -> None:
    low, high = (0, 2**64) if datatype.startswith("U") else (-(2**63), 2**63)
    values = [min(max(each, low), high - 1) for each in values]
    data = [[each] for each in values] if is_nested else values
    header = {"inputs": [given_input(datatype=datatype, data=data) | {"shape": [len(values)]}]}
    (tensor,) = decode(header).request.inputs
    wide = np.array(values, dtype="u8" if datatype.startswith("U") else "i8")
    assert bytes(tensor.data) == wide.astype(RANGES[datatype]).tobytes()


@pytest.mark.parametrize(
    "data",
    [
        b"[NaN,1]",
        b"[NaN,1.0]",
        b"[[NaN],[1]]",
    ],
)
def test_nan_is_a_number(data: bytes) -> None:
    header = b'{"inputs":[{"name":"INPUT0","datatype":"FP32","shape":[2],"data":' + data + b"}]}"
    (tensor,) = decode(header).request.inputs
    assert np.isnan(np.frombuffer(tensor.data, "f4")).tolist() == [True, False]


def test_double_too_large_for_fp32_is_infinite() -> None:
    header = {"inputs": [given_input(datatype="FP32", data=[1e39, 0.1]) | {"shape": [2]}]}
    (tensor,) = decode(header).request.inputs
    assert bytes(tensor.data) == struct.pack("<2f", float("inf"), 0.1)


@pytest.mark.parametrize(
    ("datatype", "data", "wire"),
    [
        ("BOOL", [[True], [False]], b"\x01\x00"),
        ("FP64", [1, 2.5], struct.pack("<2d", 1, 2.5)),
        ("BYTES", [["a"], ["h\u00e9"]], serialize_bytes(["a", "h\u00e9"])),
        ("BYTES", ["", "b"], serialize_bytes(["", "b"])),
    ],
)
def test_json_data_become_wire_bytes(datatype: str, data: Any, wire: bytes) -> None:
    header = {"inputs": [given_input(datatype=datatype, data=data) | {"shape": [2]}]}
    assert bytes(decode(header).request.inputs[0].data) == wire


def test_data_of_a_shape_without_elements_are_not_looked_at() -> None:
    header = {"inputs": [given_input(data="whatever") | {"shape": [1, 0]}]}
    assert decode(header).request.inputs[0].data.nbytes == 0


@settings(max_examples=examples(200), deadline=None)
@given(
    at=st.integers(0, 400),
    inserted=st.binary(max_size=4)
    | st.sampled_from([b"[", b"]", b"{", b'"', b"NaN", b"null", b"9" * 30]),
    removed=st.integers(0, 8),
    is_json=st.booleans(),
    length=st.integers(0, 500) | st.none(),
)
@example(at=0, inserted=b"", removed=0, is_json=True, length=None)
@example(at=0, inserted=b"", removed=0, is_json=False, length=None)
def test_mutated_body_raises_nothing_but_triton_errors(
    at: int, inserted: bytes, removed: int, is_json: bool, length: int | None
) -> None:
    header: Any = {"inputs": [given_input(f"INPUT{i}", data=DATA) for i in range(2)]}
    if not is_json:
        header = binary_header(id="x", parameters={"a": 1}, outputs=[{"name": "O"}])
    text = json.dumps(header).encode()
    body = text + (b"" if is_json else FIRST + SECOND)
    mutated = body[:at] + inserted + body[at + removed :]
    if length is None and not is_json:
        length = min(len(text), len(mutated))
    length = None if length is None else min(length, len(mutated))
    is_whole = mutated == body and length in {None, len(text)}
    try:
        InferDecoder().decode(memoryview(mutated), length, SIMPLE)
    except TritonError:
        assert not is_whole
