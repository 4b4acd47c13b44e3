# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Files of arrays and images, read with NumPy, and Pillow for images."""

import io
from typing import Final

import numpy as np
import numpy.typing as npt

from backends.api.datatypes import datatype_of, numpy_dtype
from backends.api.errors import InvalidArgumentError

Array = npt.NDArray[np.generic]

_COLOURS: Final = (1, 3)
_RANK: Final = 3


def read(
    path: str, raw: bytes, datatype: str, expected: tuple[int, ...], *, is_image: bool
) -> tuple[tuple[int, ...], bytes]:
    """Return shape and bytes of the array in a file.

    An image is made as large as the input is, with colours first or last as that has them; floats
    go from 0 to 1.

    Args:
        path: What it is called.
        raw: Its content.
        datatype: Of the input; an array is converted if nothing is lost.
        expected: Shape of the input.
        is_image: Whether it is an image, not NumPy's.

    Raises:
        InvalidArgumentError: It is no array or image that fits.
    """
    array = _image(path, raw, expected) if is_image else _array(path, raw)
    wanted = numpy_dtype(datatype)
    if is_image and wanted.kind == "f":
        array = array.astype(np.float32) / 255
    elif array.dtype.kind in "OSU":
        raise InvalidArgumentError(f"'{path}' has {array.dtype}; give texts as JSON")
    if array.dtype != wanted:
        is_safe = np.can_cast(array.dtype, wanted, "same_kind") or is_image
        if not is_safe:
            raise InvalidArgumentError(
                f"'{path}' has {datatype_of(array.dtype) or array.dtype}, the input is {datatype}"
            )
        array = array.astype(wanted)
    return array.shape, np.ascontiguousarray(array).tobytes()


def _array(path: str, raw: bytes) -> Array:
    try:
        array: Array = np.load(io.BytesIO(raw), allow_pickle=False)
    except (ValueError, EOFError, OSError) as error:
        raise InvalidArgumentError(f"'{path}' is no array of NumPy: {error}") from None
    return array


def _image(path: str, raw: bytes, expected: tuple[int, ...]) -> Array:
    try:
        from PIL import Image, UnidentifiedImageError  # noqa: PLC0415 - not always installed
    except ImportError:
        raise InvalidArgumentError(
            f"'{path}' is an image and the input takes numbers; pip install pillow, or give a .npy"
        ) from None
    sizes = expected[-_RANK:]
    first = len(sizes) == _RANK and sizes[0] in _COLOURS
    if not first and not (len(sizes) == _RANK and sizes[-1] in _COLOURS):
        raise InvalidArgumentError(
            f"'{path}' is an image; an input of shape {list(expected)} takes none, give a .npy"
        )
    colours, height, width = sizes if first else (sizes[2], sizes[0], sizes[1])
    try:
        image = Image.open(io.BytesIO(raw)).convert("RGB" if colours != 1 else "L")
    except (UnidentifiedImageError, OSError) as error:
        raise InvalidArgumentError(f"'{path}' is no image: {error}") from None
    if height > 0 and width > 0:
        image = image.resize((width, height))
    pixels: Array = np.asarray(image).reshape(image.height, image.width, -1)
    return pixels.transpose(2, 0, 1) if first else pixels
