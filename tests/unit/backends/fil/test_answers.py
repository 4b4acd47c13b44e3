# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from tests.support.forests import TREE, Leaf, Split, build, config, saved
from tests.support.models import load
from tests.support.recording import execute, recorded

ROWS = np.array([[0, -1], [0, 1], [2, 0], [np.nan, np.nan], [0, np.nan]], np.float32)
SUMS = [-1.0, 0.5, 2.0, 2.0, -1.0]
CLASSES = [Split(0, 0.0, Leaf(0.0), Leaf(3.0)), Split(0, 1.0, Leaf(1.0), Leaf(4.0))]


def answer(context, rows=ROWS, **fields):
    request = recorded({"input__0": rows}, **fields)
    execute(load(context), request)
    return request.arrays()["output__0"]


def sigmoid(values):
    return 1 / (1 + np.exp(-np.array(values, np.float32)))


def binary(**parameters):
    model = build([TREE], task="kBinaryClf", postprocessor="sigmoid")
    return {"is_classifier": "true", **parameters}, model


def test_regressor_answers_its_sums_and_one_column_has_no_dimension(tmp_path):
    found = answer(saved(tmp_path, config(), build([TREE])))
    assert found.dtype == np.float32
    assert found.tolist() == SUMS


def test_binary_classifier_answers_1_above_a_half(tmp_path):
    parameters, model = binary()
    found = answer(saved(tmp_path, config(**parameters), model))
    assert found.tolist() == [0, 1, 1, 1, 0]


def test_threshold_is_not_reached_by_what_equals_it(tmp_path):
    at = repr(float(sigmoid([0.5])[0]))
    parameters, model = binary(threshold=at)
    assert answer(saved(tmp_path, config(**parameters), model)).tolist() == [0, 0, 1, 1, 0]


def test_two_columns_of_a_binary_classifier_are_both_probabilities(tmp_path):
    parameters, model = binary(predict_proba="true")
    found = answer(saved(tmp_path, config(width=2, **parameters), model))
    assert np.allclose(found[:, 1], sigmoid(SUMS))
    assert np.array_equal(found[:, 0], 1 - found[:, 1])


def test_one_column_of_a_binary_classifier_is_the_probability_of_1(tmp_path):
    parameters, model = binary(predict_proba="true")
    found = answer(saved(tmp_path, config(width=1, **parameters), model))
    assert found.shape == (5,)
    assert np.allclose(found, sigmoid(SUMS))


@pytest.mark.parametrize("name", ["is_classifier", "output_class"])
def test_classifier_of_several_classes_answers_the_best_even_when_all_are_negative(tmp_path, name):
    model = build(CLASSES, classes=2, task="kMultiClf", base_scores=[-9.0, -9.0])
    parameters = {"is_classifier": "", name: "true"}
    rows = np.array([[-1, 0], [0.5, 0], [2, 0]], np.float32)
    found = answer(saved(tmp_path, config(**parameters), model), rows)
    assert found.tolist() == [1, 0, 1]


def test_raw_sums_of_several_classes_become_probabilities(tmp_path):
    model = build(CLASSES, classes=2, task="kMultiClf")
    parameters = {"is_classifier": "true", "predict_proba": "true"}
    found = answer(saved(tmp_path, config(width=2, **parameters), model), ROWS[:1])
    expected = np.exp([3.0, 1.0])
    assert np.allclose(found, [expected / expected.sum()])


def test_probabilities_that_the_file_makes_in_its_own_way_are_kept(tmp_path):
    model = build(CLASSES, classes=2, task="kMultiClf", postprocessor="multiclass_ova")
    parameters = {"is_classifier": "true", "predict_proba": "true"}
    found = answer(saved(tmp_path, config(width=2, **parameters), model), ROWS[:1])
    assert np.allclose(found, sigmoid([[3.0, 1.0]]))


def test_scores_of_several_classes_come_as_they_are_when_it_is_no_classifier(tmp_path):
    model = build(CLASSES, classes=2, task="kMultiClf")
    assert answer(saved(tmp_path, config(width=2), model), ROWS[:1]).tolist() == [[3.0, 1.0]]


def test_leaf_vectors_are_averaged_over_trees(tmp_path):
    trees = [Split(0, 1.0, Leaf([1.0, 0.0]), Leaf([0.0, 1.0])), Leaf([0.5, 0.5])]
    model = build(
        trees,
        classes=2,
        vectors=True,
        average=True,
        task="kMultiClf",
        postprocessor="identity_multiclass",
    )
    parameters = {"is_classifier": "true", "predict_proba": "true"}
    found = answer(saved(tmp_path, config(width=2, **parameters), model), ROWS[:1])
    assert found.tolist() == [[0.75, 0.25]]


def test_categories_decide_and_what_is_no_category_goes_right(tmp_path):
    tree = Split(0, 0.0, Leaf(1.0), Leaf(2.0), categories=[0, 3], default_left=True)
    rows = np.array([[0, 0], [1, 0], [3, 0], [-1, 0], [99, 0], [np.nan, 0]], np.float32)
    found = answer(saved(tmp_path, config(), build([tree])), rows)
    assert found.tolist() == [1, 2, 1, 2, 2, 1]


def test_thresholds_between_floats_are_kept_in_models_of_doubles(tmp_path):
    # 0.1 as a float is above 0.1 as a double: a rounded threshold would send it to the left.
    threshold = float(np.nextafter(np.float64(np.float32(0.1)), 1.0))
    model = build([Split(0, threshold, Leaf(1.0), Leaf(2.0))], double=True)
    rows = np.array([[0.1, 0.0]], np.float32)
    assert answer(saved(tmp_path, config(), model), rows).tolist() == [1.0]


def test_model_of_doubles_takes_and_gives_doubles_when_the_config_says_so(tmp_path):
    model = build([Split(0, 1.0 + 1e-12, Leaf(0.1), Leaf(0.2))], double=True)
    context = saved(tmp_path, config(datatype="TYPE_FP64"), model)
    found = answer(context, np.array([[1.0, 0.0], [1.0 + 2e-12, 0.0]]))
    assert found.dtype == np.float64
    assert found.tolist() == [0.1, 0.2]


def test_rows_of_a_model_without_batching_are_its_first_dimension(tmp_path):
    context = saved(tmp_path, config(max_batch_size=0), build([TREE]))
    assert answer(context).tolist() == SUMS


def test_fixed_dims_of_a_model_without_batching_are_answered_as_they_are(tmp_path):
    text = config(max_batch_size=0).replace("-1, ", "")
    context = saved(tmp_path, text, build([TREE]))
    assert answer(context, ROWS[0]).tolist() == [-1.0]


def test_requests_of_a_batch_get_their_own_rows(tmp_path):
    parts = [ROWS[:2], ROWS[2:3], ROWS[3:]]
    requests = [recorded({"input__0": part}, id=str(len(part))) for part in parts]
    batch = execute(load(saved(tmp_path, config(), build([TREE]))), *requests)
    assert [one.arrays()["output__0"].tolist() for one in requests] == [
        SUMS[:2],
        SUMS[2:3],
        SUMS[3:],
    ]
    assert [one.response.id for one in requests] == ["2", "1", "2"]
    assert 0 < batch.compute_input_end_ns <= batch.compute_output_start_ns


def test_empty_batch_is_answered(tmp_path):
    context = saved(tmp_path, config(), build([TREE]))
    assert answer(context, ROWS[:0]).shape == (0,)


def test_request_with_too_few_features_fails_only_itself(tmp_path):
    context = saved(tmp_path, config(features=-1), build([TREE]))
    requests = [recorded({"input__0": ROWS}), recorded({"input__0": ROWS[:4, :1]})]
    execute(load(context), *requests)
    assert requests[0].arrays()["output__0"].tolist() == SUMS
    assert requests[1].error.message == (
        "input 'input__0' of model 'm' has shape [4, 1], expected 2 features a row"
    )


@pytest.fixture(scope="module")
def threaded(tmp_path_factory):
    context = saved(tmp_path_factory.mktemp("threads"), config(), build([TREE] * 7), thread_count=2)
    instance = load(context)
    yield instance
    instance.close()


@pytest.mark.slow
@given(arrays(np.float32, st.tuples(st.integers(1, 4), st.just(2))))
def test_any_floats_are_answered_alike_alone_and_by_several_threads(threaded, rows):
    requests = [recorded({"input__0": row[None]}) for row in rows]
    requests.append(recorded({"input__0": np.tile(rows, (300, 1))}))
    for request in requests:
        execute(threaded, request)
    *alone, whole = [request.arrays()["output__0"] for request in requests]
    assert np.array_equal(whole, np.tile(np.concatenate(alone), 300))
