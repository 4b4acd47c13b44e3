# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Arrays and images from files."""

import io

import numpy as np
import pytest

from backends.api.errors import InvalidArgumentError
from cluster.commands.client.tensors import read_tensor


def npy(array: np.ndarray) -> bytes:
    out = io.BytesIO()
    np.save(out, array)
    return out.getvalue()


def read(array: np.ndarray, datatype: str, *shape: int) -> tuple[tuple[int, ...], bytes]:
    about = {"name": "X", "datatype": datatype, "shape": list(shape)}
    found = read_tensor(about, "@x.npy", read=lambda _: npy(array))
    assert isinstance(found.data, bytes)
    return found.shape, found.data


def test_an_array_keeps_its_shape_and_gets_the_batch_if_it_has_none() -> None:
    values = np.arange(6, dtype=np.float32).reshape(2, 3)
    assert read(values, "FP32", -1, 3) == ((2, 3), values.tobytes())
    assert read(values, "FP32", -1, 2, 3) == ((1, 2, 3), values.tobytes())


def test_an_array_in_fortrans_order_is_sent_in_cs() -> None:
    values = np.asfortranarray(np.arange(6, dtype=np.int32).reshape(2, 3))
    assert read(values, "INT32", 2, 3)[1] == values.tobytes("C")


def test_an_array_of_a_wider_type_of_the_same_kind_is_converted() -> None:
    values = np.array([1.5, 2.0])
    assert read(values, "FP32", 2)[1] == values.astype(np.float32).tobytes()


@pytest.mark.parametrize(
    ("array", "match"),
    [
        (np.array([1.5]), "has FP64, the input is INT32"),
        (np.array(["a"]), "give texts as JSON"),
        (np.array([1, 2], np.int32), r"takes shape \[1\], got \[2\]"),
    ],
)
def test_an_array_that_does_not_fit_is_refused(array: np.ndarray, match: str) -> None:
    with pytest.raises(InvalidArgumentError, match=match):
        read(array, "INT32", 1)


def test_pickles_are_never_read() -> None:
    out = io.BytesIO()
    np.save(out, np.array([{}], object), allow_pickle=True)
    about = {"name": "X", "datatype": "FP32", "shape": [1]}
    with pytest.raises(InvalidArgumentError, match="is no array of NumPy"):
        read_tensor(about, "@x.npy", read=lambda _: out.getvalue())


def png(colour: tuple[int, int, int]) -> bytes:
    images = pytest.importorskip("PIL.Image")
    out = io.BytesIO()
    images.new("RGB", (4, 2), colour).save(out, "PNG")
    return out.getvalue()


@pytest.mark.parametrize(
    ("datatype", "shape", "fitted", "first"),
    [
        ("FP32", (-1, 3, 2, 4), (1, 3, 2, 4), 1.0),
        ("UINT8", (-1, 5, 6, 3), (1, 5, 6, 3), 255),
        ("UINT8", (-1, -1, 3), (2, 4, 3), 255),
        ("FP32", (1, 2, 4), (1, 2, 4), 76 / 255),
    ],
)
def test_an_image_becomes_what_the_input_is(
    datatype: str, shape: tuple[int, ...], fitted: tuple[int, ...], first: float
) -> None:
    content = png((255, 0, 0))
    about = {"name": "X", "datatype": datatype, "shape": list(shape)}
    found = read_tensor(about, "@x.png", read=lambda _: content)
    assert found.shape == fitted
    dtype = np.float32 if datatype == "FP32" else np.uint8
    assert np.frombuffer(found.data, dtype)[0] == pytest.approx(first)  # type: ignore[arg-type]


def test_an_input_that_is_no_picture_takes_no_image() -> None:
    content = png((0, 0, 0))
    about = {"name": "X", "datatype": "FP32", "shape": [-1, 64]}
    with pytest.raises(InvalidArgumentError, match="takes none, give a"):
        read_tensor(about, "@x.png", read=lambda _: content)
