# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
from itertools import combinations
from math import factorial

import numpy as np
import pytest
import treelite
from hypothesis import given
from hypothesis import strategies as st

from backends.api.errors import UnsupportedError
from backends.fil.shapley import Explainer
from tests.support.forests import TREE, Leaf, Split, build, config, saved
from tests.support.models import load
from tests.support.recording import execute, recorded

FEATURES = 3
values = st.one_of(st.integers(-3, 3).map(float), st.just(float("nan")))
leaves = st.builds(Leaf, st.integers(-8, 8).map(float), st.integers(1, 9))
trees = st.recursive(
    leaves,
    lambda nodes: st.builds(
        Split,
        st.integers(0, FEATURES - 1),
        st.integers(-2, 2).map(float),
        nodes,
        nodes,
        default_left=st.booleans(),
        categories=st.sampled_from([[], [0, 2]]),
    ),
    max_leaves=8,
)


def goes_left(split, value):
    if np.isnan(value):
        return split.default_left
    return value in split.categories if split.categories else value < split.threshold


def expectation(node, row, known):
    """The mean of a tree over training rows that agree in the known features."""
    if isinstance(node, Leaf):
        return node.value
    if node.feature in known:
        side = node.left if goes_left(node, row[node.feature]) else node.right
        return expectation(side, row, known)
    return sum(
        child.rows / node.rows * expectation(child, row, known) for child in (node.left, node.right)
    )


def by_definition(node, row):
    found = []
    for feature in range(FEATURES):
        others = [other for other in range(FEATURES) if other != feature]
        total = 0.0
        for size in range(FEATURES):
            weight = factorial(size) * factorial(FEATURES - size - 1) / factorial(FEATURES)
            for known in combinations(others, size):
                more = expectation(node, row, {*known, feature})
                total += weight * (more - expectation(node, row, set(known)))
        found.append(total)
    return [*found, expectation(node, row, set())]


@given(trees, st.lists(values, min_size=FEATURES, max_size=FEATURES))
def test_values_are_those_of_shapleys_definition(tree, row):
    explainer = Explainer(build([tree], features=FEATURES, double=True), "m")
    found = explainer.values(np.array([row]))
    assert np.allclose(found, [by_definition(tree, row)], atol=1e-9)


@given(
    st.lists(trees, min_size=1, max_size=4),
    st.lists(st.lists(values, min_size=FEATURES, max_size=FEATURES), min_size=1, max_size=5),
    st.booleans(),
)
def test_values_add_up_to_what_the_forest_answers_before_postprocessing(forest, rows, average):
    model = build(forest, features=FEATURES, double=True, average=average, base_scores=[0.25])
    array = np.array(rows)
    found = Explainer(model, "m").values(array).sum(axis=1)
    expected = treelite.gtil.predict(model, array, nthread=1, pred_margin=True)[:, 0, 0]
    assert np.allclose(found, expected, atol=1e-9)


def test_classes_are_explained_one_after_the_other():
    model = build([TREE, Leaf(7.0), TREE], classes=2, task="kMultiClf", double=True)
    found = Explainer(model, "m").values(np.array([[2.0, 0.0]])).reshape(2, 3)
    one = Explainer(build([TREE], double=True), "m").values(np.array([[2.0, 0.0]]))
    assert np.allclose(found, [2 * one[0], [0, 0, 7]])


def test_leaf_vectors_are_explained_for_every_class():
    tree = Split(0, 0.0, Leaf([1.0, 0.0]), Leaf([0.0, 3.0]))
    model = build(
        [tree, tree], classes=2, vectors=True, average=True, task="kMultiClf", double=True
    )
    found = Explainer(model, "m").values(np.array([[1.0, 0.0]])).reshape(2, 3)
    assert found.tolist() == [[-0.5, 0, 0.5], [1.5, 0, 1.5]]


def test_deep_trees_are_explained_exactly():
    deep = Leaf(1.0)
    for feature in range(40):
        deep = Split(feature, 0.0, Leaf(0.0), deep)
    model = build([deep], features=40, double=True)
    found = Explainer(model, "m").values(np.ones((1, 40)))
    assert np.isclose(found.sum(), 1.0)


SHAPLEY = 'output { name: "treeshap_output" data_type: TYPE_FP32 dims: [ 3 ] }'


def test_output_is_answered_beside_the_scores_for_each_request(tmp_path):
    instance = load(saved(tmp_path, config(more=SHAPLEY), build([TREE])))
    requests = [recorded({"input__0": np.array([row], np.float32)}) for row in ([2, 0], [0, 1])]
    execute(instance, *requests)
    for request, answer in zip(requests, (2.0, 0.5), strict=True):
        found = request.arrays()
        assert list(found) == ["output__0", "treeshap_output"]
        assert found["treeshap_output"].shape == (1, 3)
        assert found["treeshap_output"].dtype == np.float32
        assert np.isclose(found["treeshap_output"].sum(), answer)


def test_output_is_only_made_for_who_wants_it(tmp_path):
    instance = load(saved(tmp_path, config(more=SHAPLEY), build([TREE])))
    request = recorded({"input__0": np.zeros((1, 2), np.float32)}, outputs=["output__0"])
    execute(instance, request)
    assert list(request.arrays()) == ["output__0"]


def test_file_without_statistics_is_refused(tmp_path):
    context = saved(tmp_path, config(more=SHAPLEY), build([TREE], statistics=False))
    with pytest.raises(UnsupportedError) as raised:
        load(context)
    assert raised.value.message == (
        "Model does not have node statistics. Model 'm' needs them for Shapley values; save it "
        "with them, or remove the output 'treeshap_output'"
    )
