# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Forests that the libraries themselves trained answer as they do in their libraries.

The only tests that import XGBoost, LightGBM and scikit-learn, which takes four seconds.
"""

import json
import pickle
import subprocess
import sys
from pathlib import Path

import lightgbm
import numpy as np
import pytest
import xgboost
from sklearn import ensemble

from backends.api.errors import UnknownError
from backends.fil import convert_sklearn
from tests.support.forests import config
from tests.support.models import auto_complete, context_of, load
from tests.support.recording import execute, recorded

FEATURES = 6
_random = np.random.default_rng(12)
ROWS = _random.normal(size=(300, FEATURES)).astype(np.float32)
ROWS[:, 5] = _random.integers(0, 9, 300)  # a category
FULL = ROWS.copy()
ROWS[_random.random(ROWS.shape) < 0.05] = np.nan
BINARY = (FULL[:, 0] + FULL[:, 1] ** 2 + (FULL[:, 5] % 3 == 0) > 1).astype(int)
THREE = BINARY + (FULL[:, 2] > 0.3)
NUMBER = FULL[:, 0] * FULL[:, 1] + BINARY
UNSEEN = _random.normal(size=(200, FEATURES)).astype(np.float32)
UNSEEN[:, 5] = _random.integers(0, 12, 200)
UNSEEN[_random.random(UNSEEN.shape) < 0.05] = np.nan

PROBABILITIES = {"is_classifier": "true", "predict_proba": "true"}
CLASSES = {"is_classifier": "true"}


def xgboost_model(objective, labels, *, categorical=False, **parameters):
    kinds = ["q"] * 5 + ["c" if categorical else "q"]
    data = xgboost.DMatrix(ROWS, labels, feature_types=kinds, enable_categorical=True)
    given = {"objective": objective, "max_depth": 4, "seed": 0, "nthread": 1, **parameters}
    return xgboost.train(given, data, 8), xgboost.DMatrix(
        UNSEEN, feature_types=kinds, enable_categorical=True
    )


def lightgbm_model(objective, labels, *, categorical=False, rounds=8, **parameters):
    data = lightgbm.Dataset(ROWS, labels, categorical_feature=[5] if categorical else [])
    given = {"objective": objective, "deterministic": True, "num_threads": 1, "verbose": -1}
    return lightgbm.train({**given, "min_data_in_leaf": 5, **parameters}, data, rounds)


def served(root, filename, save, text, rows=UNSEEN):
    """Save a model, and return its outputs for each row, asked for in three requests."""
    context = context_of(root, text)
    save(str(Path(context.version_dir, filename)))
    instance = load(context)
    requests = [recorded({"input__0": part}) for part in np.array_split(rows, [1, 70])]
    execute(instance, *requests)
    found = [request.arrays() for request in requests]
    instance.close()
    return {name: np.concatenate([one[name] for one in found]) for name in found[0]}


def written(model, suffix):
    """What XGBoost 3 writes; without a suffix of a format it writes UBJSON."""

    def save(path):
        Path(path).write_bytes(model.save_raw(suffix))

    return save


XGBOOST_FILES = [
    ("xgboost_json", "xgboost.json", "json"),
    ("xgboost_ubj", "xgboost.ubj", "ubj"),
    ("xgboost", "xgboost.model", "ubj"),
    ("xgboost", "xgboost.model", "json"),
]


@pytest.mark.parametrize(("model_type", "filename", "suffix"), XGBOOST_FILES)
@pytest.mark.parametrize("categorical", [False, True])
def test_xgboosts_binary_probabilities(tmp_path, model_type, filename, suffix, categorical):
    model, unseen = xgboost_model("binary:logistic", BINARY, categorical=categorical)
    text = config(features=FEATURES, width=2, model_type=model_type, **PROBABILITIES)
    found = served(tmp_path, filename, written(model, suffix), text)["output__0"]
    assert np.allclose(found[:, 1], model.predict(unseen), atol=1e-6)
    assert np.array_equal(found[:, 0], 1 - found[:, 1])


def test_xgboosts_classes(tmp_path):
    model, unseen = xgboost_model("multi:softmax", THREE, num_class=3)
    text = config(features=FEATURES, model_type="xgboost_json", **CLASSES)
    found = served(tmp_path, "xgboost.json", model.save_model, text)["output__0"]
    assert np.array_equal(found, model.predict(unseen))


def test_xgboosts_probabilities_of_classes(tmp_path):
    model, unseen = xgboost_model("multi:softprob", THREE, num_class=3)
    text = config(features=FEATURES, width=3, model_type="xgboost_ubj", **PROBABILITIES)
    found = served(tmp_path, "xgboost.ubj", model.save_model, text)["output__0"]
    assert np.allclose(found, model.predict(unseen), atol=1e-6)


@pytest.mark.parametrize(
    ("objective", "labels", "parameters"),
    [
        ("reg:squarederror", NUMBER, {}),
        ("count:poisson", np.abs(NUMBER), {}),
        ("rank:pairwise", BINARY, {}),
        ("reg:tweedie", np.abs(NUMBER), {}),
        ("survival:cox", np.abs(NUMBER) + 0.1, {}),
        ("reg:squarederror", NUMBER, {"num_parallel_tree": 3}),
        ("reg:squarederror", NUMBER, {"booster": "dart", "rate_drop": 0.2}),
    ],
)
def test_xgboosts_regressors(tmp_path, objective, labels, parameters):
    model, unseen = xgboost_model(objective, labels, **parameters)
    text = config(features=FEATURES, model_type="xgboost_json")
    found = served(tmp_path, "xgboost.json", model.save_model, text)["output__0"]
    assert np.allclose(found, model.predict(unseen), rtol=1e-5, atol=1e-5)


def test_xgboosts_json_of_a_later_version_is_read_when_allowed(tmp_path):
    model, unseen = xgboost_model("reg:squarederror", NUMBER)

    def save(path):
        document = json.loads(model.save_raw("json"))
        document["learner"]["of_next_year"] = {"more": 1}
        Path(path).write_text(json.dumps(document))

    text = config(features=FEATURES, model_type="xgboost_json")
    with pytest.raises(UnknownError, match="could not be parsed as XGBoost model"):
        served(tmp_path, "xgboost.json", save, text)
    text = config(features=FEATURES, model_type="xgboost_json", xgboost_allow_unknown_field="true")
    with pytest.warns(UserWarning, match="of_next_year"):
        found = served(tmp_path, "xgboost.json", save, text)["output__0"]
    assert np.allclose(found, model.predict(unseen), atol=1e-6)


@pytest.mark.parametrize("categorical", [False, True])
@pytest.mark.parametrize("datatype", ["TYPE_FP32", "TYPE_FP64"])
def test_lightgbms_binary_probabilities(tmp_path, categorical, datatype):
    model = lightgbm_model("binary", BINARY, categorical=categorical)
    text = config(
        features=FEATURES, width=2, model_type="lightgbm", datatype=datatype, **PROBABILITIES
    )
    rows = UNSEEN.astype(np.float64 if datatype == "TYPE_FP64" else np.float32)
    found = served(tmp_path, "model.txt", model.save_model, text, rows)["output__0"]
    tolerance = 1e-14 if datatype == "TYPE_FP64" else 6e-8
    assert np.allclose(found[:, 1], model.predict(UNSEEN), rtol=0, atol=tolerance)


@pytest.mark.parametrize(
    ("objective", "parameters"),
    [
        ("multiclass", {}),
        ("multiclassova", {}),
        ("multiclass", {"boosting": "rf", "bagging_freq": 1, "bagging_fraction": 0.7}),
    ],
)
def test_lightgbms_probabilities_of_classes(tmp_path, objective, parameters):
    model = lightgbm_model(objective, THREE, num_class=3, **parameters)
    text = config(features=FEATURES, width=3, model_type="lightgbm", **PROBABILITIES)
    found = served(tmp_path, "model.txt", model.save_model, text)["output__0"]
    assert np.allclose(found, model.predict(UNSEEN), rtol=0, atol=1e-7)


@pytest.mark.parametrize(
    "parameters",
    [
        {},
        {"boosting": "rf", "bagging_freq": 1, "bagging_fraction": 0.7},
        {"use_missing": False},
        {"reg_sqrt": True},
    ],
)
def test_lightgbms_regressors(tmp_path, parameters):
    model = lightgbm_model("regression", NUMBER, **parameters)
    text = config(features=FEATURES, model_type="lightgbm")
    found = served(tmp_path, "model.txt", model.save_model, text)["output__0"]
    assert np.allclose(found, model.predict(UNSEEN), rtol=1e-6, atol=1e-6)


def test_zeros_that_lightgbm_takes_for_missing_are_warned_of(tmp_path, caplog):
    text = config(features=FEATURES, model_type="lightgbm")
    for zero_as_missing in (False, True):
        model = lightgbm_model("regression", NUMBER, zero_as_missing=zero_as_missing)
        served(tmp_path, "model.txt", model.save_model, text)
        assert ("was trained with zero_as_missing" in caplog.text) == zero_as_missing


SHAPLEY = 'output {{ name: "treeshap_output" data_type: TYPE_FP32 dims: [ {} ] }}'


@pytest.mark.parametrize("categorical", [False, True])
@pytest.mark.parametrize(("objective", "classes"), [("binary:logistic", 1), ("multi:softprob", 3)])
def test_xgboosts_shapley_values(tmp_path, objective, classes, categorical):
    parameters = {"num_class": 3} if classes > 1 else {}
    labels = THREE if classes > 1 else BINARY
    model, unseen = xgboost_model(objective, labels, categorical=categorical, **parameters)
    text = config(
        features=FEATURES,
        width=max(2, classes),
        model_type="xgboost_json",
        more=SHAPLEY.format(f"{classes}, {FEATURES + 1}"),
        **PROBABILITIES,
    )
    found = served(tmp_path, "xgboost.json", model.save_model, text)["treeshap_output"]
    expected = model.predict(unseen, pred_contribs=True)
    assert np.allclose(found.reshape(expected.shape), expected, atol=2e-5)


@pytest.mark.parametrize("categorical", [False, True])
def test_lightgbms_shapley_values(tmp_path, categorical):
    model = lightgbm_model("multiclass", THREE, num_class=3, categorical=categorical)
    width = 3 * (FEATURES + 1)
    text = config(features=FEATURES, width=3, model_type="lightgbm", more=SHAPLEY.format(width))
    found = served(tmp_path, "model.txt", model.save_model, text)["treeshap_output"]
    expected = model.predict(UNSEEN, pred_contrib=True)
    assert np.allclose(found, expected, atol=1e-6)


CLASSIFIERS = [
    ensemble.RandomForestClassifier(6, random_state=0),
    ensemble.ExtraTreesClassifier(6, random_state=0),
    ensemble.GradientBoostingClassifier(n_estimators=4, random_state=0),
    ensemble.HistGradientBoostingClassifier(max_iter=4, random_state=0),
]
REGRESSORS = [
    ensemble.RandomForestRegressor(6, random_state=0),
    ensemble.ExtraTreesRegressor(6, random_state=0),
    ensemble.GradientBoostingRegressor(n_estimators=4, random_state=0),
    ensemble.HistGradientBoostingRegressor(max_iter=4, random_state=0),
]
WHOLE = np.nan_to_num(UNSEEN)


def converted(estimator, root):
    def save(path):
        pickled = root / "model.pkl"
        pickled.write_bytes(pickle.dumps(estimator))
        assert convert_sklearn.main([str(pickled), path]) == 0

    return save


@pytest.mark.parametrize("estimator", CLASSIFIERS, ids=lambda each: type(each).__name__)
@pytest.mark.parametrize("labels", [BINARY, THREE], ids=["binary", "three"])
def test_converted_classifiers(tmp_path, estimator, labels):
    estimator.fit(FULL, labels)
    parameters = {"features": FEATURES, "width": len(set(labels))}
    text = config(**parameters, **PROBABILITIES)
    save = converted(estimator, tmp_path)
    found = served(tmp_path, "checkpoint.tl", save, text, WHOLE)["output__0"]
    assert np.allclose(found, estimator.predict_proba(WHOLE), rtol=0, atol=1e-7)
    text = config(features=FEATURES, **CLASSES)
    found = served(tmp_path, "checkpoint.tl", save, text, WHOLE)["output__0"]
    assert np.array_equal(found, estimator.predict(WHOLE))


@pytest.mark.parametrize("estimator", REGRESSORS, ids=lambda each: type(each).__name__)
def test_converted_regressors(tmp_path, estimator):
    estimator.fit(FULL, NUMBER)
    save, text = converted(estimator, tmp_path), config(features=FEATURES)
    found = served(tmp_path, "checkpoint.tl", save, text, WHOLE)["output__0"]
    assert np.allclose(found, estimator.predict(WHOLE), rtol=1e-6, atol=1e-6)


def test_converted_isolation_forests(tmp_path):
    forest = ensemble.IsolationForest(n_estimators=6, random_state=0).fit(FULL)
    save, text = converted(forest, tmp_path), config(features=FEATURES)
    found = served(tmp_path, "checkpoint.tl", save, text, WHOLE)["output__0"]
    assert np.allclose(found, -forest.score_samples(WHOLE), atol=1e-6)


def test_what_is_no_forest_is_not_converted(tmp_path, capsys):
    (tmp_path / "model.pkl").write_bytes(pickle.dumps({"a": "dict"}))
    assert convert_sklearn.main([str(tmp_path / "model.pkl")]) == 1
    assert str(tmp_path / "model.pkl") in capsys.readouterr().err
    assert not (tmp_path / "checkpoint.tl").exists()


def test_conversion_is_a_command(tmp_path):
    made = subprocess.run(
        [sys.executable, "-m", "backends.fil.convert_sklearn", "--help"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert "Makes a checkpoint of a scikit-learn model" in made.stdout


@pytest.mark.parametrize("filename", ["xgboost.json", "xgboost.ubj", "model.txt"])
def test_file_alone_tells_the_config(tmp_path, filename):
    context = context_of(tmp_path, 'name: "m" backend: "fil"')
    of_lightgbm = filename == "model.txt"
    model = (
        lightgbm_model("regression", NUMBER)
        if of_lightgbm
        else xgboost_model("reg:squarederror", NUMBER)[0]
    )
    model.save_model(str(Path(context.version_dir, filename)))
    found = auto_complete(context)
    assert found.input[0].dims == (FEATURES,)
    assert found.parameters["is_classifier"] == "false"
    load(type(context)(found, context.model_dir, 1, "m_0_0"))


def test_serving_imports_none_of_the_libraries(tmp_path):
    context = context_of(tmp_path, config(features=FEATURES, model_type="lightgbm"))
    lightgbm_model("regression", NUMBER).save_model(f"{context.version_dir}/model.txt")
    program = f"""
import sys
from backends.api.backend import LoadContext
from backends.config.pbtxt import from_message
from backends.registry import create_backend
config = from_message({context.config.message!r})
create_backend("fil").load(LoadContext(config, {context.model_dir!r}, 1, "m_0_0"))
print({{"xgboost", "lightgbm", "sklearn", "ray"}} & set(sys.modules))
"""
    made = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert made.stdout == "set()\n"
