# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Trees as arrays over their nodes: which way rows go, and the paths to their leaves.

Triton: fil_backend/src/cpu_treeshap_model.h decision, leaf_probability
"""

from collections.abc import Callable, Iterator, Sequence
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
    """Some trees of a forest; all arrays are ``[nodes]``, tree after tree, unless they say more.

    Args:
        trees: Treelite's accessors of them.

    Attributes:
        node_count: Nodes of all trees.
        tree_of_node: Which of the trees a node is of.
        leaf_value: What a leaf adds; of trees without leaf vectors.
        leaf_vectors: ``[nodes, classes]``, or None when leaves hold one number.
    """

    def __init__(self, trees: Sequence[Any]) -> None:
        counts = [int(tree.get_field("num_nodes")[0]) for tree in trees]
        self.node_count = sum(counts)
        self._roots = np.cumsum([0, *counts[:-1]])
        self.tree_of_node = np.repeat(np.arange(len(trees)), counts)

        def field(name: str) -> Array:
            # What the accessor gives lies in the model, and goes with it: this is a copy.
            return np.concatenate([tree.get_field(name) for tree in trees])

        first = self._roots[self.tree_of_node]
        left, right = field("cleft"), field("cright")
        self._left = np.where(left < 0, -1, left + first)
        self._right = np.where(right < 0, -1, right + first)
        self._feature = field("split_index")
        self._default_left = field("default_left").astype(bool)
        self._threshold = field("threshold")
        self._comparison = field("cmp")
        self._is_categorical = field("node_type") == _CATEGORICAL
        self._category_is_right = field("category_list_right_child").astype(bool)
        self._categories = _lists(trees, "category_list")
        self.leaf_value = np.where(left < 0, field("leaf_value"), 0.0)
        self.leaf_vectors = _leaf_vectors(_lists(trees, "leaf_vector"))
        weights = _statistic(trees, "sum_hess")
        self._weights = _statistic(trees, "data_count") if weights is None else weights

    def shares(self) -> Array | None:
        """Return the share of its parent's training rows that each node has; None if unknown.

        Rows count as much as they weighed in training, where the file tells that.
        """
        shares = np.ones(self.node_count)
        inner = self._left >= 0
        if not inner.any():
            return shares
        if self._weights is None:
            return None
        reached = np.maximum(self._weights[inner], np.finfo(float).tiny)
        for children in (self._left[inner], self._right[inner]):
            shares[children] = self._weights[children] / reached
        return shares

    def paths(self) -> Iterator[tuple[int, dict[int, list[int]]]]:
        """Yield each leaf with, by feature, the nodes on its path that a split by it leads to."""
        pending: list[tuple[int, dict[int, list[int]]]] = [(int(root), {}) for root in self._roots]
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
        follows = np.ones((len(rows), self.node_count), dtype=bool)
        follows[:, self._left[inner]] = goes_left
        follows[:, self._right[inner]] = ~goes_left
        return follows


def _is_listed(values: Array, categories: Array) -> Array:
    """Whether values, cut to integers, are among categories."""
    in_range = (values >= 0) & (values <= np.iinfo(np.uint32).max)
    integers = np.where(in_range, values, 0).astype(np.int64)
    return in_range & np.isin(integers, categories)


def _lists(trees: Sequence[Any], name: str) -> list[Array]:
    """Return a field that holds a list for each node."""
    return [
        np.array(values[start:end])
        for tree in trees
        for values in [tree.get_field(name)]
        for start, end in zip(
            tree.get_field(f"{name}_begin"), tree.get_field(f"{name}_end"), strict=True
        )
    ]


def _leaf_vectors(vectors: Sequence[Array]) -> Array | None:
    length = max(map(len, vectors))
    if not length:
        return None
    made = np.zeros((len(vectors), length))
    for node, vector in enumerate(vectors):
        made[node, : len(vector)] = vector
    return made


def _statistic(trees: Sequence[Any], name: str) -> Array | None:
    """Return a statistic of all nodes; None unless each node of trees that split has it."""
    found = []
    for tree in trees:
        count = int(tree.get_field("num_nodes")[0])
        values, present = tree.get_field(name), tree.get_field(f"{name}_present")
        if len(values) and present.all():
            found.append(np.array(values, np.float64))
        elif count == 1:
            found.append(np.ones(1))
        else:
            return None
    return np.concatenate(found)
