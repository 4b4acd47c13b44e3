# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Tensors as people type and read them."""

import math
from typing import Any

import pytest

from backends.api.errors import InvalidArgumentError
from cluster.commands.client.tensors import (
    Tensor,
    assigned,
    example,
    pack,
    read_tensor,
    unpack,
)


def about(datatype: str, *shape: int, name: str = "X") -> dict[str, Any]:
    return {"name": name, "datatype": datatype, "shape": list(shape)}


def nothing(path: str) -> bytes:
    raise AssertionError(path)


@pytest.mark.parametrize(
    ("shape", "text", "fitted", "data"),
    [
        ((-1, 3), "1,2,3", (1, 3), [1, 2, 3]),
        ((-1, 3), "1 2 3 4 5 6", (2, 3), [1, 2, 3, 4, 5, 6]),
        ((-1, 3), "[[1,2,3],[4,5,6]]", (2, 3), [1, 2, 3, 4, 5, 6]),
        ((3,), "1,2,3", (3,), [1, 2, 3]),
        ((-1, 2, 2), "[[1,2],[3,4]]", (1, 2, 2), [1, 2, 3, 4]),
        ((-1, 2, 2), "1,2,3,4", (1, 2, 2), [1, 2, 3, 4]),
        ((2, 2), "1,2,3,4", (2, 2), [1, 2, 3, 4]),
        ((-1, -1), "1,2", (1, 2), [1, 2]),
        ((-1, 1), "5", (1, 1), [5]),
    ],
)
def test_numbers_get_a_shape_that_the_model_takes(
    shape: tuple[int, ...], text: str, fitted: tuple[int, ...], data: list[int]
) -> None:
    assert read_tensor(about("INT32", *shape), text, read=nothing) == Tensor(
        "X", "INT32", fitted, data
    )


@pytest.mark.parametrize(
    ("datatype", "text", "value"),
    [
        ("FP32", "1", 1.0),
        ("FP32", "-.5", -0.5),
        ("FP32", "1e-3", 0.001),
        ("FP32", "inf", math.inf),
        ("BOOL", "true", True),
        ("BOOL", "False", False),
        ("BOOL", "1", 1),
        ("BYTES", "hello, world", "hello, world"),
        ("BYTES", '["a"]', "a"),
        ("BYTES", "5", "5"),
        ("BYTES", "[5", "[5"),
    ],
)
def test_a_value_is_read_by_the_datatype(datatype: str, text: str, value: object) -> None:
    assert read_tensor(about(datatype, 1), text, read=nothing).data == [value]


@pytest.mark.parametrize(
    ("name", "content", "data"),
    [
        ("@a.txt", b"text\n", ["text"]),
        ("-", b"text\n\n", ["text\n"]),
        ("@a.png", b"text\n", [b"text\n"]),
        ("@a.bin", b"\xff", [b"\xff"]),
        ("@a.json", b'"a text"', ["a text"]),
    ],
)
def test_bytes_come_from_files(name: str, content: bytes, data: list[object]) -> None:
    asked: list[str] = []

    def read(path: str) -> bytes:
        asked.append(path)
        return content

    assert read_tensor(about("BYTES", 1), name, read=read).data == data
    assert asked == [name.removeprefix("@")]


def test_numbers_come_from_files() -> None:
    found = read_tensor(about("FP32", -1, 2), "@x.json", read=lambda _: b"[[1,2],[3,4]]")
    assert (found.shape, found.data) == ((2, 2), [1.0, 2.0, 3.0, 4.0])
    assert read_tensor(about("INT64", 2), "-", read=lambda _: b"1\n2\n").data == [1, 2]


@pytest.mark.parametrize(
    ("datatype", "shape", "text", "match"),
    [
        ("INT32", (2,), "a,b", "input 'X' is INT32: got 'a,b', expected numbers"),
        ("INT32", (2,), "1.5,2", "is INT32, which 1.5 is not"),
        ("INT32", (2,), "[true,1]", "is INT32, which True is not"),
        ("FP32", (2,), "a,1", "'a' is no number"),
        ("FP32", (2,), "[1", "input 'X'"),
        ("BYTES", (2,), "[1,2]", "is BYTES, which 1 is not"),
        ("INT32", (-1, 3), "1,2", r"takes shape \[-1,3\], got \[2\]; --shape X:N,M"),
        ("INT32", (-1, 3), "[[1,2],[3]]", "of different lengths"),
        ("INT32", (2,), "[1,[2]]", "of different lengths"),
        ("INT32", (2,), "@x.json", "'x.json' is no JSON"),
    ],
)
def test_what_is_no_such_value_is_said_with_what_is_expected(
    datatype: str, shape: tuple[int, ...], text: str, match: str
) -> None:
    with pytest.raises(InvalidArgumentError, match=match):
        read_tensor(about(datatype, *shape), text, read=lambda _: b"{")


def test_a_shape_that_is_wanted_is_taken_if_it_has_as_many_elements() -> None:
    assert read_tensor(about("INT32", -1, -1), "1,2,3,4", (2, 2)).shape == (2, 2)
    with pytest.raises(InvalidArgumentError, match=r"shape \[3\] has 3 elements, got 4"):
        read_tensor(about("INT32", -1), "1,2,3,4", (3,))


def test_values_belong_to_the_inputs_that_they_name() -> None:
    inputs = [about("INT32", 1, name="A"), about("INT32", 1, name="B")]
    assert assigned(["B=1", "A=x=y"], inputs) == {"B": "1", "A": "x=y"}


@pytest.mark.parametrize("text", ["1,2", "X=1,2"])
def test_a_single_input_need_not_be_named(text: str) -> None:
    assert assigned([text], [about("INT32", 2)]) == {"X": "1,2"}
    assert assigned(["a=b"], [about("BYTES", 1)]) == {"X": "a=b"}


@pytest.mark.parametrize(
    ("texts", "match"),
    [
        (["1"], "expected NAME=VALUE, NAME one of A, B"),
        (["C=1"], "no input 'C', but A, B"),
        (["A=1", "A=2"], "given twice"),
    ],
)
def test_a_value_of_no_input_is_refused(texts: list[str], match: str) -> None:
    inputs = [about("INT32", 1, name="A"), about("INT32", 1, name="B")]
    with pytest.raises(InvalidArgumentError, match=match):
        assigned(texts, inputs)


@pytest.mark.parametrize(
    ("datatype", "values"),
    [
        ("BOOL", [True, False]),
        ("INT8", [-128, 127]),
        ("UINT64", [0, 2**64 - 1]),
        ("FP16", [0.5, -2.0]),
        ("BF16", [1.5, -0.0]),
        ("FP64", [math.pi]),
        ("BYTES", ["", "text", b"\xff"]),
    ],
)
def test_values_are_the_same_after_their_bytes(datatype: str, values: list[Any]) -> None:
    assert unpack(pack(values, datatype), datatype) == values


@pytest.mark.parametrize(
    ("tensor", "row", "binary"),
    [
        (Tensor("X", "INT32", (2,), [1, 2]), {"data": [1, 2]}, b""),
        (Tensor("X", "BYTES", (1,), ["a"]), {"data": ["a"]}, b""),
        (
            Tensor("X", "BYTES", (1,), [b"\xff"]),
            {"parameters": {"binary_data_size": 5}},
            b"\1\0\0\0\xff",
        ),
        (
            Tensor("X", "FP16", (1,), [1.0]),
            {"parameters": {"binary_data_size": 2}},
            b"\x00\x3c",
        ),
        (
            Tensor("X", "FP32", (1,), [math.inf]),
            {"parameters": {"binary_data_size": 4}},
            b"\0\0\x80\x7f",
        ),
        (Tensor("X", "INT8", (2,), b"ab"), {"parameters": {"binary_data_size": 2}}, b"ab"),
    ],
)
def test_what_json_does_not_carry_goes_as_bytes(
    tensor: Tensor, row: dict[str, Any], binary: bytes
) -> None:
    head = {"name": "X", "datatype": tensor.datatype, "shape": list(tensor.shape)}
    assert tensor.encoded() == ({**head, **row}, binary)


@pytest.mark.parametrize(("datatype", "value"), [("FP16", 1e9), ("BF16", 1e300), ("INT8", 200)])
def test_a_value_that_is_too_large_for_its_datatype_is_refused(datatype: str, value: float) -> None:
    with pytest.raises(InvalidArgumentError, match=datatype):
        pack([value], datatype)


def test_an_example_is_zeros_and_large_ones_are_bytes() -> None:
    assert example(about("INT32", -1, 2)) == Tensor("X", "INT32", (1, 2), [0, 0])
    assert example(about("BYTES", -1)).data == ["0"]
    assert example(about("FP32", -1, 100)).data == bytes(400)
