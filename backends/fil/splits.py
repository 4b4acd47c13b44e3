# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""One tree as arrays over its nodes: which way rows go, and the paths to its leaves.

Triton: fil_backend/src/cpu_treeshap_model.h decision, leaf_probability
"""

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from backends.framework.inputs import Array

_CATEGORICAL = 2  # Treelite's TreeNodeType; a leaf is 0, a comparison 1

# Treelite's Operator.
_COMPARISONS: dict[int, Callable[[Array, Any], Array]] = {
    1: np.equal,
    2: np.less,
    3: np.less_equal,
    4: np.greater,
    5: np.greater_equal,
}


class Splits:
    """A tree; all arrays are ``[nodes]`` unless they say more.

    Args:
        tree: Treelite's accessor of it.

    Attributes:
        leaf_value: What a leaf adds; of trees without leaf vectors.
        leaf_vectors: ``[nodes, classes]``, or None when leaves hold one number.
    """

    def __init__(self, tree: Any) -> None:
        def field(name: str) -> Array:
            # What the accessor gives lies in the model, and goes with it.
            return np.array(tree.get_field(name))

        self._left = field("cleft")
        self._right = field("cright")
        self._feature = field("split_index")
        self._default_left = field("default_left").astype(bool)
        self._threshold = field("threshold")
        self._comparison = field("cmp")
        self._is_categorical = field("node_type") == _CATEGORICAL
        self._category_is_right = field("category_list_right_child").astype(bool)
        self._categories = [
            field("category_list")[start:end]
            for start, end in zip(
                field("category_list_begin"), field("category_list_end"), strict=True
            )
        ]
        self.leaf_value = np.where(self._left < 0, field("leaf_value"), 0.0)
        self.leaf_vectors = _leaf_vectors(field)
        weights = _statistic(field, "sum_hess")
        self._weights = _statistic(field, "data_count") if weights is None else weights

    def shares(self) -> Array | None:
        """Return the share of its parent's training rows that each node has; None if unknown.

        Rows count as much as they weighed in training, where the file tells that.
        """
        if len(self._left) == 1:
            return np.ones(1)
        if self._weights is None:
            return None
        shares = np.ones(len(self._left))
        inner = self._left >= 0
        reached = np.maximum(self._weights[inner], np.finfo(float).tiny)
        for children in (self._left[inner], self._right[inner]):
            shares[children] = self._weights[children] / reached
        return shares

    def paths(self) -> Iterator[tuple[int, dict[int, list[int]]]]:
        """Yield each leaf with, by feature, the nodes on its path that a split by it leads to."""
        pending: list[tuple[int, dict[int, list[int]]]] = [(0, {})]
        while pending:
            node, path = pending.pop()
            if self._left[node] < 0:
                yield node, path
                continue
            feature = int(self._feature[node])
            before = path.get(feature, [])
            children = (int(self._left[node]), int(self._right[node]))
            pending += [(child, {**path, feature: [*before, child]}) for child in children]

    def follows(self, rows: Array) -> Array:
        """Return, ``[rows, nodes]``, whether a row at a node's parent goes to that node."""
        inner = np.flatnonzero(self._left >= 0)
        values = rows[:, self._feature[inner]].astype(self._threshold.dtype, copy=False)
        goes_left = np.zeros(values.shape, dtype=bool)
        for code, compare in _COMPARISONS.items():
            own = self._comparison[inner] == code
            goes_left[:, own] = compare(values[:, own], self._threshold[inner][own])
        for column in np.flatnonzero(self._is_categorical[inner]):
            node = inner[column]
            is_listed = _is_listed(values[:, column], self._categories[node])
            goes_left[:, column] = is_listed != self._category_is_right[node]
        goes_left = np.where(np.isnan(values), self._default_left[inner], goes_left)
        follows = np.ones((len(rows), len(self._left)), dtype=bool)
        follows[:, self._left[inner]] = goes_left
        follows[:, self._right[inner]] = ~goes_left
        return follows


def _is_listed(values: Array, categories: Array) -> Array:
    """Whether values, cut to integers, are among categories."""
    in_range = (values >= 0) & (values <= np.iinfo(np.uint32).max)
    integers = np.where(in_range, values, 0).astype(np.int64)
    return in_range & np.isin(integers, categories)


def _leaf_vectors(field: Callable[[str], Array]) -> Array | None:
    vectors = field("leaf_vector")
    begins, ends = field("leaf_vector_begin"), field("leaf_vector_end")
    if not len(vectors):
        return None
    made = np.zeros((len(begins), int((ends - begins).max())))
    for node in np.flatnonzero(ends > begins):
        made[node] = vectors[begins[node] : ends[node]]
    return made


def _statistic(field: Callable[[str], Array], name: str) -> Array | None:
    """Return a statistic of all nodes; None unless every node has it."""
    values, present = field(name), field(f"{name}_present")
    if not len(values) or not present.all():
        return None
    return values.astype(np.float64)
