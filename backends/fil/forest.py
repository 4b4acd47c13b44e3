# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""A decision forest that predicts, by way of Treelite's C functions.

Its Python function takes 26 us for one row of a small forest where the C function takes 5: it makes
a configuration and asks for the output's shape anew each time. Hence our own call.

Triton: fil_backend/src/tl_model.h TreeliteModel
"""

import ctypes
from dataclasses import dataclass
from enum import IntEnum
from typing import Any

import numpy as np
from treelite.libpath import find_lib_path

from backends.api.errors import InternalError, UnsupportedError
from backends.fil.formats import Model
from backends.framework.inputs import Array

# From so many tree walks on, several threads are faster than one.
_WALKS_FOR_THREADS = 2048

# Of several classes, with a sum of leaves each; these leave the sums as they are.
_NO_POSTPROCESSING = frozenset({"identity", "identity_multiclass"})


class Task(IntEnum):
    """What a forest was trained for: Treelite's TaskType."""

    BINARY = 0
    REGRESSION = 1
    MULTI_CLASS = 2
    RANKING = 3
    ISOLATION = 4


@dataclass(frozen=True, slots=True)
class ForestInfo:
    """What the header of a model's file tells.

    Attributes:
        feature_count: Columns of the input.
        class_count: Columns of the scores; 1 for all but models of several classes.
        tree_count: Number of trees.
        task: What it was trained for.
        datatype: FP32 or FP64, of thresholds and leaves.
    """

    feature_count: int
    class_count: int
    tree_count: int
    task: Task
    datatype: str

    @property
    def is_classifier(self) -> bool:
        """Whether it was trained to tell classes."""
        return self.task in {Task.BINARY, Task.MULTI_CLASS}


def read_info(model: Model, model_name: str) -> ForestInfo:
    """Read the header of a forest.

    Raises:
        UnsupportedError: It predicts several targets.
    """
    header = model.get_header_accessor()
    targets = int(header.get_field("num_target")[0])
    if targets != 1:
        raise UnsupportedError(
            f"Multi-target model not supported: model '{model_name}' predicts {targets} targets, "
            "expected one; save a model for each target"
        )
    return ForestInfo(
        feature_count=int(model.num_feature),
        class_count=int(header.get_field("num_class")[0]),
        tree_count=int(model.num_tree),
        task=Task(int(header.get_field("task_type")[0])),
        datatype={"float32": "FP32", "float64": "FP64"}[model.input_type],
    )


def set_probabilities(model: Model, info: ForestInfo) -> None:
    """Have a model of several classes answer with probabilities where its file does not.

    Upstream has all do softmax, also those whose file says how else they make probabilities: one
    against all others (LightGBM's multiclassova), or XGBoost's trees with a leaf for each class.
    Those keep to their file, so that they answer as their library does.
    """
    header = model.get_header_accessor()
    is_sum_per_class = int(header.get_field("leaf_vector_shape")[1]) == 1
    if (
        info.task is Task.MULTI_CLASS
        and is_sum_per_class
        and header.get_field("postprocessor") in _NO_POSTPROCESSING
    ):
        header.set_field("postprocessor", "softmax")


class Forest:
    """A forest that predicts with up to ``thread_count`` threads; for one thread at a time."""

    def __init__(self, model: Model, info: ForestInfo, thread_count: int) -> None:
        self.info = info
        self.dtype: np.dtype[Any] = np.dtype(model.input_type)
        self._model = model
        self._handle = model.handle
        self._type_name = model.input_type.encode()
        self._one_thread = _configuration(1)
        self._all_threads = _configuration(thread_count)

    def scores(self, rows: Array) -> Array:
        """Predict.

        Args:
            rows: ``[rows, features]`` of any float type.

        Returns:
            ``[rows, classes]`` of the forest's own type, after its postprocessing.

        Raises:
            InternalError: Treelite failed.
        """
        rows = np.ascontiguousarray(rows, dtype=self.dtype)
        count = rows.shape[0]
        scores = np.zeros((count, self.info.class_count), self.dtype)
        if not count:
            return scores
        walks = count * self.info.tree_count
        status = _predict(
            self._handle,
            rows.ctypes.data,
            self._type_name,
            count,
            scores.ctypes.data,
            self._one_thread if walks < _WALKS_FOR_THREADS else self._all_threads,
        )
        if status != 0:
            raise InternalError(_last_error())
        return scores

    def close(self) -> None:
        """Free what belongs to no Python object."""
        for configuration in (self._one_thread, self._all_threads):
            _LIBRARY.TreeliteGTILDeleteConfig(configuration)


def _configuration(thread_count: int) -> ctypes.c_void_p:
    handle = ctypes.c_void_p()
    text = f'{{"predict_type": "default", "nthread": {thread_count}}}'
    if _LIBRARY.TreeliteGTILParseConfig(text.encode(), ctypes.byref(handle)) != 0:
        raise InternalError(_last_error())
    return handle


def _last_error() -> str:
    text: bytes = _LIBRARY.TreeliteGetLastError()
    return text.decode(errors="replace")


def _opened() -> ctypes.CDLL:
    """Open the library that Treelite has loaded, with functions declared our way."""
    # The import has loaded what this finds by its path; opening it once more only counts.
    library = ctypes.CDLL(str(find_lib_path()[0]))
    library.TreeliteGetLastError.restype = ctypes.c_char_p
    library.TreeliteGTILPredict.argtypes = (
        ctypes.c_void_p,
        ctypes.c_void_p,
        ctypes.c_char_p,
        ctypes.c_uint64,
        ctypes.c_void_p,
        ctypes.c_void_p,
    )
    return library


_LIBRARY = _opened()
_predict = _LIBRARY.TreeliteGTILPredict
