# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
import numpy as np
import pytest

from backends.api.errors import (
    InvalidArgumentError,
    UnavailableError,
    UnsupportedError,
)
from backends.registry import create_backend
from backends.tensorflow import choice
from backends.tensorflow.on_openvino import SavedModelOnOpenVino
from tests.support.models import auto_complete, context_of, load
from tests.support.recording import execute, recorded
from tests.support.saved_models import (
    Named,
    binary,
    graph,
    node,
    placeholder,
    save,
    save_add_sub,
    save_linear,
    signature,
)

BARE = 'name: "m" backend: "tensorflow" platform: "tensorflow_savedmodel" '
FULL = (
    BARE + "max_batch_size: 8 "
    'input { name: "INPUT0" data_type: TYPE_INT32 dims: [ 4 ] } '
    'input { name: "INPUT1" data_type: TYPE_INT32 dims: [ 4 ] } '
    'output { name: "OUTPUT1" data_type: TYPE_INT32 dims: [ 4 ] } '
    'output { name: "OUTPUT0" data_type: TYPE_INT32 dims: [ 4 ] } '
)


@pytest.fixture(autouse=True)
def no_tensorflow(monkeypatch):
    monkeypatch.setattr(choice, "is_installed", lambda package: package != "tensorflow")


def add_sub(tmp_path, config=FULL, *, fields=None, **model):
    context = context_of(tmp_path, config, **(fields or {}))
    save_add_sub(context.model_path("model.savedmodel"), **model)
    return context


def test_saved_model_runs_on_openvino_and_the_log_says_so(tmp_path, caplog):
    requests = [
        recorded({name: np.full((rows, 4), k, np.int32) for name in ("INPUT0", "INPUT1")})
        for rows, k in ((1, 2), (3, 5))
    ]
    execute(load(add_sub(tmp_path)), *requests)
    for request, rows, k in zip(requests, (1, 3), (2, 5), strict=True):
        assert list(request.arrays()) == ["OUTPUT1", "OUTPUT0"]
        assert np.array_equal(request.arrays()["OUTPUT0"], np.full((rows, 4), 2 * k))
    assert (
        "TensorFlow is not installed: model 'm' runs on OpenVINO; pip install "
        "manta-serve[tensorflow]" in caplog.text
    )


def test_empty_config_is_completed_and_answers(tmp_path):
    from backends.config.pbtxt import to_pbtxt

    context = context_of(tmp_path, BARE)
    save_linear(context.model_path("model.savedmodel"))
    completed = context_of(tmp_path, to_pbtxt(auto_complete(context)))
    given = np.random.default_rng(1).standard_normal((2, 8)).astype(np.float32)
    request = recorded({"X": given})
    execute(load(completed), request)
    weights = np.random.default_rng(0).standard_normal((8, 3)).astype(np.float32)
    np.testing.assert_allclose(request.arrays()["P"], given @ weights, rtol=1e-5, atol=1e-6)


def test_without_openvino_tensorflow_is_what_is_missing(monkeypatch):
    monkeypatch.setattr(choice, "is_installed", lambda _: False)
    monkeypatch.setitem(__import__("sys").modules, "tensorflow", None)
    monkeypatch.delitem(__import__("sys").modules, "backends.tensorflow.backend", raising=False)
    monkeypatch.delitem(__import__("sys").modules, "backends.tensorflow.session", raising=False)
    with pytest.raises((InvalidArgumentError, ModuleNotFoundError), match="tensorflow"):
        create_backend("tensorflow")


def test_choice_is_made_by_what_is_installed():
    assert isinstance(create_backend("tensorflow_savedmodel"), SavedModelOnOpenVino)


@pytest.mark.parametrize(
    ("config", "fields", "model", "says"),
    [
        (
            FULL + 'parameters { key: "TF_SIGNATURE_DEF" value { string_value: "mine" } }',
            {},
            {"key": "mine"},
            "its signature is 'mine', and OpenVINO reads only serving_default",
        ),
        (
            FULL + 'parameters { key: "TF_GRAPH_TAG" value { string_value: "train" } }',
            {},
            {"tags": ["train"]},
            "TF_GRAPH_TAG names another graph",
        ),
        (FULL, {"kind": "MODEL"}, {}, "its instance is KIND_MODEL"),
        (
            FULL.replace("TYPE_INT32", "TYPE_FP64"),
            {},
            {"datatype": "FP64"},
            "its tensor 'INPUT0' has datatype FP64",
        ),
    ],
)
def test_what_openvino_cannot_do_is_refused_with_advice(tmp_path, config, fields, model, says):
    with pytest.raises(UnsupportedError) as raised:
        load(add_sub(tmp_path, config, fields=fields, **model))
    assert raised.value.message.startswith(
        "TensorFlow is not installed, and OpenVINO cannot run model 'm' in its place: "
    )
    assert says in raised.value.message
    assert raised.value.message.endswith(
        "pip install manta-serve[tensorflow] to run it with TensorFlow"
    )


def test_graph_def_is_refused_with_advice(tmp_path):
    context = context_of(tmp_path, FULL.replace("savedmodel", "graphdef"))
    save_add_sub(context.model_path("model.graphdef"))
    with pytest.raises(UnsupportedError, match="it is a GraphDef; pip install manta"):
        load(context)


def test_strings_are_refused_with_advice(tmp_path):
    config = (
        BARE + 'input { name: "X" data_type: TYPE_STRING dims: [ 2 ] } '
        'output { name: "Y" data_type: TYPE_STRING dims: [ 2 ] }'
    )
    context = context_of(tmp_path, config)
    definition = graph(placeholder("x", "BYTES", (2,)), node("y", "StringUpper", "x"))
    both = signature({"X": Named("x:0", "BYTES", (2,))}, {"Y": Named("y:0", "BYTES", (2,))})
    save(context.model_path("model.savedmodel"), definition, {"serving_default": both})
    with pytest.raises(UnsupportedError, match="its tensor 'X' has datatype BYTES"):
        load(context)


def test_operation_that_openvino_lacks_is_named(tmp_path):
    config = (
        BARE + 'input { name: "X" data_type: TYPE_FP32 dims: [ 2 ] } '
        'output { name: "Y" data_type: TYPE_FP32 dims: [ 2 ] }'
    )
    context = context_of(tmp_path, config)
    definition = graph(placeholder("x", "FP32", (2,)), binary("y", "Igammac", "x", "x", "FP32"))
    both = signature({"X": Named("x:0", "FP32", (2,))}, {"Y": Named("y:0", "FP32", (2,))})
    save(context.model_path("model.savedmodel"), definition, {"serving_default": both})
    with pytest.raises(UnsupportedError, match=r"Igammac.*; pip install manta-serve\[tensorflow\]"):
        load(context)


def test_directory_that_is_missing_has_the_text_of_triton(tmp_path):
    context = context_of(tmp_path, FULL)
    with pytest.raises(UnavailableError) as raised:
        load(context)
    assert raised.value.message == (
        f"unable to find '{context.version_dir}/model.savedmodel' for model instance 'm_0_0'"
    )


def test_config_that_contradicts_the_model_has_the_text_of_triton(tmp_path):
    config = FULL.replace('"INPUT1" data_type: TYPE_INT32', '"INPUT1" data_type: TYPE_FP32')
    with pytest.raises(InvalidArgumentError) as raised:
        load(add_sub(tmp_path, config))
    assert raised.value.message == (
        "unable to load model 'm', configuration expects datatype TYPE_FP32 for input 'INPUT1', "
        "model provides TYPE_INT32"
    )
