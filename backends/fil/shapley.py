# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Shapley values: how much each feature of a row moved the forest's answer off its average.

They are those of TreeSHAP over the shares of the training rows that each branch has, like
XGBoost's and LightGBM's ``pred_contribs``, and are of the sum before any postprocessing. A leaf
adds, for each feature i on its path,

    leaf * (o_i - z_i) * integral over t in [0, 1] of prod over j != i of (z_j (1 - t) + o_j t)

where o_j says whether the row goes the leaf's way at every split by feature j, and z_j is the share
of training rows that do. The integral is the mean over all orders of the features, because that of
t^k (1 - t)^(n - k) is k! (n - k)! / (n + 1)!; of a polynomial, so Gauss's points give it exactly.

Triton: fil_backend/src/cpu_treeshap_model.h TreeShapModel, for the output's layout
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.sparse import csr_matrix

from backends.api.errors import UnsupportedError
from backends.fil.formats import Model
from backends.fil.splits import Splits
from backends.framework.inputs import Array

# Numbers of one temporary array: 8 MiB each.
_NUMBERS_AT_ONCE = 1 << 20
# Small trees are explained together: what numpy costs a call is paid once for all of them.
_NODES_AT_ONCE = 1 << 13


@dataclass(frozen=True, slots=True)
class _Paths:
    """Paths to leaves that have equally many features on them, of some trees.

    Attributes:
        nodes: The nodes on the paths, element by element.
        starts: Where in ``nodes`` each element's begin; an element is a feature of a path.
        zeros: ``[paths, features]``, the share of training rows that goes the path's way.
        weights: ``[paths * features, classes * (all features + 1)]``, to which number of the
            output an element adds, times what its leaf holds.
    """

    nodes: Array
    starts: Array
    zeros: Array
    weights: csr_matrix


class Explainer:
    """Explains a forest's answers.

    Args:
        model: The forest.
        model_name: Its name, for errors.

    Raises:
        UnsupportedError: The file does not tell how many training rows reached a node.
    """

    def __init__(self, model: Model, model_name: str) -> None:
        header = model.get_header_accessor()
        self._features = int(model.num_feature)
        self._classes = int(header.get_field("num_class")[0])
        class_of_tree = header.get_field("class_id").astype(int)
        scales = np.ones(self._classes)
        if int(header.get_field("average_tree_output")[0]):
            of_class = [
                np.count_nonzero((class_of_tree == -1) | (class_of_tree == own))
                for own in range(self._classes)
            ]
            scales = 1.0 / np.maximum(of_class, 1)
        self._bias = np.zeros((self._classes, self._features + 1))
        self._bias[:, -1] = header.get_field("base_scores")
        self._parts: list[tuple[Splits, list[_Paths]]] = []
        for numbers in _together(model):
            splits = Splits([model.get_tree_accessor(number) for number in numbers])
            shares = splits.shares()
            if shares is None:
                raise UnsupportedError(
                    f"Model does not have node statistics. Model '{model_name}' needs them for "
                    "Shapley values; save it with them, or remove the output 'treeshap_output'"
                )
            leaves = self._leaf_values(splits, class_of_tree[numbers]) * scales
            self._parts.append((splits, self._paths(splits, shares, leaves)))

    def values(self, rows: Array) -> Array:
        """Explain rows.

        Args:
            rows: ``[rows, features]`` of any float type.

        Returns:
            ``[rows, classes * (features + 1)]`` FP64: for each class what each feature adds, and
            the average answer.
        """
        made = np.tile(self._bias.ravel(), (len(rows), 1))
        for splits, groups in self._parts:
            widest = max((len(group.nodes) for group in groups), default=1)
            step = max(1, _NUMBERS_AT_ONCE // widest)
            for start in range(0, len(rows), step):
                part = slice(start, start + step)
                follows = splits.follows(rows[part])
                for group in groups:
                    made[part] += _contributions(follows, group)
        return made

    def _leaf_values(self, splits: Splits, class_of_tree: Array) -> Array:
        """Return what each node adds to each class: ``[nodes, classes]``, zeros but in leaves."""
        if splits.leaf_vectors is not None:
            return splits.leaf_vectors
        values = np.zeros((splits.node_count, self._classes))
        classes = np.maximum(class_of_tree, 0)[splits.tree_of_node]
        values[np.arange(splits.node_count), classes] = splits.leaf_value
        return values

    def _paths(self, splits: Splits, shares: Array, leaves: Array) -> list[_Paths]:
        """Return paths by their number of features, and add their trees' averages to the bias."""
        by_length: dict[int, list[tuple[int, dict[int, list[int]]]]] = {}
        for leaf, elements in splits.paths():
            reach = np.prod([shares[node] for nodes in elements.values() for node in nodes])
            self._bias[:, -1] += leaves[leaf] * reach
            if elements:
                by_length.setdefault(len(elements), []).append((leaf, elements))
        return [self._group(paths, shares, leaves) for paths in by_length.values()]

    def _group(
        self, paths: list[tuple[int, dict[int, list[int]]]], shares: Array, leaves: Array
    ) -> _Paths:
        elements = [
            (leaf, feature, nodes) for leaf, path in paths for feature, nodes in path.items()
        ]
        lengths = [len(nodes) for _, _, nodes in elements]
        of_leaves = leaves[[leaf for leaf, _, _ in elements]]
        features = np.array([feature for _, feature, _ in elements])
        targets = np.arange(self._classes) * (self._features + 1) + features[:, None]
        sources = np.broadcast_to(np.arange(len(elements))[:, None], targets.shape)
        size = (len(elements), self._bias.size)
        return _Paths(
            nodes=np.concatenate([nodes for _, _, nodes in elements]),
            starts=np.cumsum([0, *lengths[:-1]]),
            zeros=np.array([np.prod(shares[nodes]) for _, _, nodes in elements]).reshape(
                len(paths), -1
            ),
            weights=csr_matrix((of_leaves.ravel(), (sources.ravel(), targets.ravel())), size),
        )


def _together(model: Model) -> Iterator[list[int]]:
    """Yield the numbers of trees to explain together."""
    numbers: list[int] = []
    nodes = 0
    for number in range(int(model.num_tree)):
        numbers.append(number)
        nodes += int(model.get_tree_accessor(number).get_field("num_nodes")[0])
        if nodes >= _NODES_AT_ONCE:
            yield numbers
            numbers, nodes = [], 0
    if numbers:
        yield numbers


def _contributions(follows: Array, group: _Paths) -> Any:
    """Return what a group's leaves add to each number of the output.

    Args:
        follows: ``[rows, nodes]``, whether a row would go to a node from its parent.
        group: The paths.
    """
    ones = np.logical_and.reduceat(follows[:, group.nodes], group.starts, axis=1)
    ones = ones.reshape(len(follows), *group.zeros.shape)
    integral = np.zeros(ones.shape)
    length = group.zeros.shape[1]
    points, point_weights = np.polynomial.legendre.leggauss((length + 1) // 2)
    for point, weight in zip((points + 1) / 2, point_weights / 2, strict=True):
        factors = group.zeros * (1 - point) + ones * point
        integral += weight * _products_of_others(factors)
    integral *= ones - group.zeros
    return integral.reshape(len(follows), -1) @ group.weights


def _products_of_others(factors: Array) -> Array:
    """Return, along the last axis, the product of all factors but one's own, without dividing."""
    products = np.ones(factors.shape)
    np.multiply.accumulate(factors[..., :-1], axis=-1, out=products[..., 1:])
    after = np.multiply.accumulate(factors[..., :0:-1], axis=-1)
    products[..., :-1] *= after[..., ::-1]
    return products
