# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""The V2 datatypes: protocol name, config enum, numpy dtype and element size.

BYTES elements are serialised row-major as a 4-byte little-endian length followed by that many
bytes. BF16 is an ``ml_dtypes.bfloat16`` array in numpy, loaded only when such a tensor is seen.
"""

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True, slots=True)
class Datatype:
    """One V2 datatype.

    Attributes:
        name: Protocol name, for example ``FP32``.
        config_name: Enum name in config.pbtxt, for example ``TYPE_FP32``.
        size_bytes: Bytes per element; 0 for BYTES, whose elements vary.
        numpy_name: Name ``numpy.dtype`` understands; empty for BF16, "object" for BYTES.
    """

    name: str
    config_name: str
    size_bytes: int
    numpy_name: str


_ROWS = (
    Datatype("BOOL", "TYPE_BOOL", 1, "bool"),
    Datatype("UINT8", "TYPE_UINT8", 1, "uint8"),
    Datatype("UINT16", "TYPE_UINT16", 2, "uint16"),
    Datatype("UINT32", "TYPE_UINT32", 4, "uint32"),
    Datatype("UINT64", "TYPE_UINT64", 8, "uint64"),
    Datatype("INT8", "TYPE_INT8", 1, "int8"),
    Datatype("INT16", "TYPE_INT16", 2, "int16"),
    Datatype("INT32", "TYPE_INT32", 4, "int32"),
    Datatype("INT64", "TYPE_INT64", 8, "int64"),
    Datatype("FP16", "TYPE_FP16", 2, "float16"),
    Datatype("FP32", "TYPE_FP32", 4, "float32"),
    Datatype("FP64", "TYPE_FP64", 8, "float64"),
    Datatype("BYTES", "TYPE_STRING", 0, "object"),
    Datatype("BF16", "TYPE_BF16", 2, ""),
)

DATATYPES: dict[str, Datatype] = {row.name: row for row in _ROWS}
BY_CONFIG_NAME: dict[str, Datatype] = {row.config_name: row for row in _ROWS}
SIZE_BYTES: dict[str, int] = {row.name: row.size_bytes for row in _ROWS}
_NUMPY: dict[str, np.dtype[np.generic]] = {
    row.name: np.dtype(row.numpy_name) for row in _ROWS if row.numpy_name
}
_BY_NUMPY: dict[str, str] = {row.numpy_name: row.name for row in _ROWS if row.numpy_name}


def numpy_dtype(datatype: str) -> np.dtype[np.generic]:
    """Return the numpy dtype of a V2 datatype name.

    Raises:
        KeyError: The name is no V2 datatype.
    """
    found = _NUMPY.get(datatype)
    if found is None:
        if datatype != "BF16":
            raise KeyError(datatype)
        import ml_dtypes  # noqa: PLC0415 - costs 20 ms, and only BF16 models need it

        found = _NUMPY["BF16"] = np.dtype(ml_dtypes.bfloat16)
    return found


_BY_DTYPE: dict[np.dtype[np.generic], str | None] = {}


def datatype_of(dtype: np.dtype[np.generic]) -> str | None:
    """Return the V2 name of a numpy dtype, or None when V2 has none."""
    try:
        return _BY_DTYPE[dtype]
    except KeyError:
        # dtype.name is a Python-level property that costs a microsecond, so it is asked once.
        kind = "BYTES" if dtype.kind in "OSU" else _BY_NUMPY.get(dtype.name)
        _BY_DTYPE[dtype] = "BF16" if dtype.name == "bfloat16" else kind
        return _BY_DTYPE[dtype]
