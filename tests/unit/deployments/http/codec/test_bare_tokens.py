# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Headers with NaN and Infinity are read as the careful reader reads them, only faster."""

import json
import struct
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from backends.api.errors import TritonError
from deployments.http.codec.bare_tokens import TokenNumbers, cut
from deployments.http.codec.infer_header import careful_inputs, read_fast
from deployments.http.codec.infer_request import InferDecoder, _assemble, _Assembly
from deployments.http.codec.infer_spec import DecodedInfer
from deployments.http.codec.json_parser import MAX_STRICT_BYTES, parse
from tests.support.examples import examples
from tests.support.http_infer_requests import SIMPLE

LIMIT_BYTES = 1 << 26


def carefully(header: bytes) -> DecodedInfer:
    document = parse(header)
    assembly = _Assembly(SIMPLE, memoryview(b""), LIMIT_BYTES)
    return _assemble(assembly, document, careful_inputs(document))


def outcome(decode: Callable[[], DecodedInfer]) -> Any:
    try:
        decoded = decode()
    except TritonError as error:
        return type(error), error.message
    request = decoded.request
    tensors = [(t.name, t.datatype, t.shape, bytes(t.data)) for t in request.inputs]
    # NaN is a parameter's value too, and does not equal itself.
    return request.id, repr(sorted(request.parameters.items())), tensors, request.outputs


def is_read_fast(header: bytes) -> bool:
    try:
        read_fast(header)
    except (ValueError, RecursionError):
        return False
    return True


tokens = st.sampled_from(["NaN", "Infinity", "-Infinity"])
finite = st.sampled_from(["0", "-1", "2.5", "1e3", "-0.0", "1E-7", "3e39", "12345678901234567890"])
odd = st.sampled_from(
    [
        "Inf",
        "-Inf",
        "-NaN",
        "null",
        "true",
        '"NaN"',
        '"x"',
        "",
        "{}",
        "1NaN",
        "NaN1",
        "NaN.5",
        "nan",
        "1eNaN",
        "--Infinity",
        "Infinityy",
        "1e999",
        "01",
        "[]",
        "NaN NaN",
        "- Infinity",
        "/",
    ]
)
spaces = st.sampled_from(["", "", "", " ", "\n\t"])


@st.composite
def arrays(draw: st.DrawFn, depth: int = 0) -> str:
    """An array of numbers and tokens, and once in a while of something else."""
    number = st.one_of(finite, tokens)
    if draw(st.integers(0, 19)) == 0:
        number |= odd
    inner = arrays(depth + 1) if depth < 3 and draw(st.booleans()) else number
    items = draw(st.lists(inner, min_size=1, max_size=4))
    return "[" + ",".join(draw(spaces) + each + draw(spaces) for each in items) + "]"


texts = st.sampled_from(
    [
        '"INPUT0"',
        '"data"',
        '"a NaN"',
        '"Inf"',
        '"\\u004eaN0"',
        '"x\\"data\\":[1"',
        '"{"',
        '"]"',
        '""',
        '"\\\\"',
        '"NaN0"',
        '"é"',
        '"INPUT1"',
        '"[1,2]"',
        '"]}"',
    ]
)
datatypes = st.sampled_from(['"FP32"', '"FP64"', '"INT32"', '"BYTES"', '"BOOL"', '"FP16"', '"XX"'])


@st.composite
def inputs(draw: st.DrawFn) -> str:
    data = draw(arrays())
    count = data.count(",") + 1 if draw(st.integers(0, 9)) else draw(st.integers(0, 3))
    data = draw(st.just(data) | texts) if draw(st.integers(0, 9)) == 0 else data
    members = [
        f'"name":{draw(texts)}',
        f'"datatype":{draw(st.just(chr(34) + "FP32" + chr(34)) | datatypes)}',
        f'"shape":[{count}]',
        f'"data"{draw(spaces)}:{draw(spaces)}{data}',
    ]
    extra = ['"data":[1,NaN]', '"data":[1]', '"x":[NaN]', f'"x":{draw(texts)}', '"x":{"data":[2]}']
    extra += [
        '"parameters":{"a":NaN}',
        '"parameters":{"data":[NaN]}',
        '"parameters":{}',
        '"x":-NaN',
    ]
    members += draw(st.lists(st.sampled_from(extra), max_size=2)) if draw(st.booleans()) else []
    return "{" + ",".join(draw(st.permutations(members))) + "}"


@st.composite
def headers(draw: st.DrawFn) -> bytes:
    members = ['"inputs":[' + ",".join(draw(st.lists(inputs(), min_size=1, max_size=3))) + "]"]
    extra = [f'"id":{draw(texts)}', '"parameters":{"a":NaN}', '"parameters":{"a":Inf,"b":true}']
    extra += ['"parameters":{"data":[NaN]}', f'"parameters":{{"data":{draw(texts)}}}']
    extra += ['"outputs":[{"name":"O","data":[NaN]}]', '"outputs":[{"name":"O"}]', '"inputs":[]']
    members += draw(st.lists(st.sampled_from(extra), max_size=2))
    text = "{" + ",".join(draw(st.permutations(members))) + "}"
    # Larger documents are read by another reader.
    is_large = draw(st.integers(0, 3)) == 0
    return (text + (" " * MAX_STRICT_BYTES if is_large else "")).encode()


@pytest.mark.slow
@settings(max_examples=examples(200), deadline=None)
@given(header=headers())
def test_headers_with_tokens_are_read_as_the_careful_reader_reads_them(header: bytes) -> None:
    assume(not is_read_fast(header))
    assert outcome(lambda: InferDecoder().decode(memoryview(header), None, SIMPLE)) == outcome(
        lambda: carefully(header)
    )


@pytest.mark.slow
@settings(max_examples=examples(200), deadline=None)
@given(
    header=headers(),
    at=st.integers(0, 300),
    inserted=st.sampled_from(
        ["[", "]", "{", '"', "\\", "NaN", "Inf", ",", "null", "\x00", " ", "1"]
    ),
    removed=st.integers(0, 3),
)
def test_mutated_headers_with_tokens_are_read_as_the_careful_reader_reads_them(
    header: bytes, at: int, inserted: str, removed: int
) -> None:
    mutated = header[:at] + inserted.encode() + header[at + removed :]
    assume(not is_read_fast(mutated))
    assert outcome(lambda: InferDecoder().decode(memoryview(mutated), None, SIMPLE)) == outcome(
        lambda: carefully(mutated)
    )


def header_of(data: str, datatype: str = "FP32") -> bytes:
    return (
        f'{{"id":"1","inputs":[{{"name":"I","shape":[2,2],"datatype":"{datatype}","data":{data}}}],'
        '"outputs":[{"name":"O","parameters":{"binary_data":false}}]}'
    ).encode()


@pytest.mark.parametrize(
    ("data", "values"),
    [
        ("[NaN,1,-Infinity,Infinity]", [np.nan, 1, -np.inf, np.inf]),
        ("[ [1 , NaN ],[\n-Infinity, 4]]", [1, np.nan, -np.inf, 4]),
        ("[NaN,NaN,NaN,NaN]", [np.nan] * 4),
        ("[1,2,3,Infinity]", [1, 2, 3, np.inf]),
    ],
)
@pytest.mark.parametrize(("datatype", "code"), [("FP32", "f"), ("FP64", "d")])
def test_tokens_do_not_cost_the_careful_reader(
    data: str, values: list[float], datatype: str, code: str
) -> None:
    header = header_of(data, datatype=datatype)
    rest = cut(header)
    assert rest is not None
    assert b"NaN0" in rest.document
    filled = list(rest.filled(careful_inputs(parse(rest.document))))
    assert rest.is_used_up()
    assert [type(each.value) for each in filled] == [TokenNumbers]
    (tensor,) = InferDecoder().decode(memoryview(header), None, SIMPLE).request.inputs
    assert bytes(tensor.data) == struct.pack(f"<4{code}", *values)


@pytest.mark.parametrize(
    "header",
    [
        header_of("[1,2,3,4]"),
        header_of("[1,2,-NaN,4]"),
        header_of("[1,2,Inf,4]"),
        header_of("[1,2,1NaN,4]"),
        header_of("[1][NaN]"),
        header_of("[NaN,NaN]").replace(b'"O"', b'"NaN"'),
        header_of("[NaN,NaN]").replace(b'"O"', b'"\\n"'),
        header_of("[" * 98 + "NaN" + "]" * 98),
    ],
)
def test_what_is_unusual_is_left_to_the_careful_reader(header: bytes) -> None:
    assert cut(header) is None


def test_arrays_that_are_no_inputs_data_are_left_to_the_careful_reader() -> None:
    header = json.dumps({"inputs": [], "parameters": {"data": [float("nan")]}}).encode()
    with pytest.raises(TritonError, match="parameter 'data' has invalid type"):
        InferDecoder().decode(memoryview(header), None, SIMPLE)


def test_header_with_tokens_that_is_cut_short_is_refused_in_the_careful_readers_words() -> None:
    whole = header_of("[[NaN,2],[3,4]]")
    for end in range(len(whole)):
        header = whole[:end]
        assert outcome(lambda header=header: carefully(header)) == outcome(
            lambda header=header: (
                InferDecoder().decode(memoryview(header), len(header), SIMPLE)
                if header
                else carefully(header)
            )
        )
