# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""pb_utils.Tensor: a named numpy array, or an input or sent output in wire form.

A response is written after the model runs again. An array that only tensors refer to is sent as it
is: they give it up and keep its wire form, so that whoever reads them again gets a copy.

Triton: python_backend/src/pb_tensor.cc
"""

import sys
from collections.abc import Sequence
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from backends.api.datatypes import DATATYPES
from backends.api.request import Tensor as WireTensor
from backends.api.request import tensor_as_numpy, tensor_from_numpy
from backends.python.model_side import dlpack
from backends.python.model_side.failure import TritonModelException

# Below this `tensor_from_numpy` copies anyway.
_VIEWED_FROM_BYTES = 16384

_TYPE_NUMBER = {name: number for number, name in enumerate(DATATYPES, start=1)}

# Only native byte order is in the table: Triton refuses the other, and so must we.
_DATATYPE: dict[Any, str] = {
    np.dtype(row.numpy_name): row.name for row in DATATYPES.values() if row.numpy_name
}


def _datatype(dtype: Any) -> str:
    if dtype.kind == "S":
        return "BYTES"
    if dtype.name == "bfloat16":
        return "BF16"
    raise TritonModelException("NumPy dtype is not supported.")


class Tensor:
    """A named tensor.

    Args:
        name: Tensor name.
        array: Elements; BYTES as an array of objects (bytes, or what ``str`` accepts) or np.bytes_.
    """

    __module__ = "c_python_backend_utils"
    __slots__ = ("_array", "_datatype", "_lasts", "_name", "_wire")

    def __init__(self, name: str, array: npt.NDArray[Any]) -> None:
        if not isinstance(array, np.ndarray):
            raise TypeError(
                f"Tensor('{name}', ..) takes a numpy.ndarray, got {type(array).__name__}"
            )
        if not name:
            raise TritonModelException("Tensor name cannot be an empty string.")
        self._name = name
        self._array: npt.NDArray[Any] | None = array
        self._wire: WireTensor | None = None
        self._datatype = _DATATYPE.get(array.dtype) or _datatype(array.dtype)

    @classmethod
    def from_wire(cls, wire: WireTensor) -> Self:
        """Wrap an input; its elements are read when the model asks for them."""
        self = cls.__new__(cls)
        self._name = wire.name
        self._array = None
        self._wire = wire
        # The bytes of an input are ours only until the final response.
        self._lasts = False
        self._datatype = wire.datatype
        return self

    @staticmethod
    def from_dlpack(name: str, tensor: Any) -> "Tensor":
        """Make a tensor of a DLPack capsule or an object with ``__dlpack__``.

        Without a copy if it is in host memory; from a GPU's it is copied there.
        """
        if not name:
            raise TritonModelException("Tensor name cannot be an empty string.")
        return Tensor(name, _array_of(tensor))

    def name(self) -> str:
        """Return the name."""
        return self._name

    def as_numpy(self) -> npt.NDArray[Any]:
        """Return the elements as a writable array, the same one each time."""
        if self._datatype == "BF16":
            raise TritonModelException(
                "Tensor dtype is BF16 and cannot be converted to NumPy. Use "
                "to_dlpack() and from_dlpack() instead."
            )
        array = self._array
        return self._read() if array is None else array

    def triton_dtype(self) -> int:
        """Return the number of the datatype in Triton's enum; BOOL is 1."""
        return _TYPE_NUMBER[self._datatype]

    def shape(self) -> list[int]:
        """Return the shape, batch dimension included."""
        array = self._array
        return list(self._wire.shape if array is None else array.shape)  # type: ignore[union-attr]

    def is_cpu(self) -> bool:
        """Whether the elements are in host memory; they always are, also those from a GPU."""
        return True

    def to_dlpack(self) -> Any:
        """Return a DLPack capsule that shares the elements."""
        return self.__dlpack__()

    def __dlpack__(self, stream: Any = None, **_: Any) -> Any:
        del stream  # Host memory has none.
        if self._datatype == "BYTES":
            raise TritonModelException("DLPack does not have support for string tensors.")
        array = self._array
        if array is None:
            array = self._read()
        if not (array.flags.c_contiguous and array.flags.writeable):
            array = np.array(array, order="C")
        return dlpack.to_capsule(array)

    def __dlpack_device__(self) -> tuple[int, int]:
        return dlpack.CPU_DEVICE

    def to_wire(self, inputs: Sequence["Tensor"] = ()) -> WireTensor:
        """Return the wire form, whose bytes the model cannot change any more.

        Args:
            inputs: Those of the request that is answered; an array of theirs is sent without a
                copy, too.
        """
        if self._array is None:
            wire: WireTensor = self._wire  # type: ignore[assignment]
            data = wire.data if self._lasts else memoryview(bytes(wire.data))
            return WireTensor(self._name, wire.datatype, wire.shape, data)
        # No local name for the array: it would count as a reference.
        if self._array.nbytes < _VIEWED_FROM_BYTES or self._datatype == "BYTES":
            return tensor_from_numpy(self._name, self._array)
        if not _is_unshared(self._array):
            lender = self._lender(inputs)
            if lender is None or not _is_unshared(self._array, 1):
                return tensor_from_numpy(self._name, self._array.copy())
            lender._give_up()  # noqa: SLF001 - a tensor too
        self._give_up()
        return self.to_wire()

    def _lender(self, inputs: Sequence["Tensor"]) -> "Tensor | None":
        """Return the input whose array this is, or a view of."""
        array: Any = self._array
        for each in inputs:
            lent = each._array  # noqa: SLF001 - a tensor too
            if lent is not None and (lent is array or lent is array.base):
                return each
        return None

    def _give_up(self) -> None:
        """Keep the wire form in place of the array, which nothing writes to any more."""
        self._wire = tensor_from_numpy(self._name, self._array)  # type: ignore[arg-type]
        self._lasts = True
        self._array = None

    def _read(self) -> npt.NDArray[Any]:
        self._array = array = tensor_as_numpy(self._wire, writable=True)  # type: ignore[arg-type]
        return array


def _array_of(tensor: Any) -> npt.NDArray[Any]:
    if dlpack.is_capsule(tensor):
        return dlpack.from_capsule(tensor)
    if hasattr(tensor, "__dlpack__") and hasattr(tensor, "__dlpack_device__"):
        return dlpack.from_capsule(tensor.__dlpack__())
    raise TritonModelException(
        "Provided tensor is not supported. Tensor must be a DLPack capsule "
        "or have `__dlpack__` and `__dlpack_device__` attributes"
    )


def _is_unshared(array: npt.NDArray[Any], lenders: int = 0) -> bool:
    """Whether nothing but the tensor, and those that lent it, refers to its array's memory.

    A response is written after the model runs again, so memory the model can still reach must be
    copied; memory it made for this response need not be. Reference counts tell them apart.
    """
    owner: Any = array.base
    if owner is None:
        return sys.getrefcount(array) <= _UNSHARED_COUNT + lenders
    # A view of an array that nothing but this view refers to.
    return (
        sys.getrefcount(array) <= _UNSHARED_COUNT
        and isinstance(owner, np.ndarray)
        and owner.base is None
        and sys.getrefcount(owner) <= _UNSHARED_COUNT + lenders
    )


def _count_of_unshared() -> int:
    """Measure what `_is_unshared` counts for an array only a tensor holds; Pythons differ."""
    tensor = Tensor("probe", np.empty(1))

    def count(array: Any) -> int:
        return sys.getrefcount(array)

    return count(tensor._array)  # noqa: SLF001 - one module


_UNSHARED_COUNT = _count_of_unshared()
