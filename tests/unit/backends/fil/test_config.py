# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
import logging
from pathlib import Path

import pytest

from backends.api.errors import (
    InternalError,
    InvalidArgumentError,
    UnavailableError,
    UnknownError,
    UnsupportedError,
)
from backends.config.normalisation import normalise
from tests.support.forests import TREE, Leaf, build, config, saved
from tests.support.models import auto_complete, context_of, load

BARE = 'name: "m" backend: "fil" '
CLASSES = build([TREE, TREE, Leaf(0.0)], classes=3, task="kMultiClf", postprocessor="softmax")
TREE_MODEL = build([TREE])
BINARY = build([TREE], task="kBinaryClf", postprocessor="sigmoid")


def parameter(name, value):
    return f'parameters {{ key: "{name}" value: {{ string_value: "{value}" }} }} '


def tensors(found):
    return [(one.name, one.datatype, one.dims) for one in (*found.input, *found.output)]


def refusal(error, context, act=load):
    with pytest.raises(error) as raised:
        act(context)
    return raised.value.message


def test_config_without_anything_is_completed_from_the_file(tmp_path):
    found = auto_complete(saved(tmp_path, BARE, CLASSES))
    assert tensors(found) == [("input__0", "FP32", (2,)), ("output__0", "FP32", (1,))]
    assert found.parameters == {"model_type": "treelite_checkpoint", "is_classifier": "true"}
    assert found.max_batch_size == 4
    assert found.dynamic_batching is not None


def test_completed_config_loads(tmp_path):
    found = auto_complete(saved(tmp_path, BARE, build([TREE])))
    assert found.parameters["is_classifier"] == "false"
    load(context_of(tmp_path, BARE).__class__(found, str(tmp_path / "m"), 1, "m_0_0"))


@pytest.mark.parametrize(
    ("parameters", "model", "width"),
    [
        ("", BINARY, 1),
        (parameter("predict_proba", "true"), BINARY, 2),
        (parameter("predict_proba", "true"), CLASSES, 3),
        (parameter("is_classifier", "false"), CLASSES, 3),
        (parameter("output_class", "false"), CLASSES, 3),
        ("", build([TREE]), 1),
    ],
)
def test_output_is_completed_as_wide_as_the_parameters_make_it(tmp_path, parameters, model, width):
    found = auto_complete(saved(tmp_path, BARE + parameters, model))
    assert found.output[0].dims == (width,)


def test_batch_size_of_0_is_kept_where_a_side_is_described(tmp_path):
    text = BARE + 'input { name: "input__0" data_type: TYPE_FP32 dims: [ -1, 2 ] }'
    found = auto_complete(saved(tmp_path, text, build([TREE])))
    assert found.max_batch_size == 0
    assert found.output[0].dims == (-1, 1)


def test_whole_config_is_not_touched_and_the_file_not_read(tmp_path):
    context = context_of(tmp_path, config())
    assert auto_complete(context) == context.config


def test_what_auto_completion_would_tell_is_required_without_it(tmp_path):
    message = refusal(
        InvalidArgumentError, saved(tmp_path, config(is_classifier=""), build([TREE]))
    )
    assert message.startswith("Required parameter is_classifier not found in config")


@pytest.mark.parametrize(
    ("error", "name", "value", "text"),
    [
        (
            UnsupportedError,
            "model_type",
            "catboost",
            "catboost not recognized as a valid serialization format.",
        ),
        (
            InternalError,
            "is_classifier",
            "True",
            "Expected 'true' or 'false' for parameter 'is_classifier', got: 'True'",
        ),
        (
            InternalError,
            "predict_proba",
            "1",
            "Expected 'true' or 'false' for parameter 'predict_proba', got: '1'",
        ),
        (InvalidArgumentError, "threshold", "half", "Bad input for parameter threshold"),
    ],
)
def test_parameter_that_is_none_is_refused_with_the_text_of_triton(
    tmp_path, error, name, value, text
):
    context = saved(tmp_path, config(**{name: value}), build([TREE]))
    assert refusal(error, context).startswith(text)
    assert refusal(error, saved(tmp_path, BARE + parameter(name, value), TREE_MODEL), auto_complete)


@pytest.mark.parametrize(
    ("name", "value", "says"),
    [
        ("algo", "ALGO_AUTO", "The `algo` parameter has been removed in 25.09 release. Use `layo"),
        ("threads_per_tree", "4", "Use `chunk_size` instead."),
        ("output_class", "false", "Use `is_classifier` instead."),
        ("storage_type", "SPARSE", "The `storage_type` parameter has been removed in 25.09"),
        ("blocks_per_sm", "2", "The `blocks_per_sm` parameter has been removed in 25.09 release."),
        ("use_experimental_optimizations", "true", "is deprecated"),
        ("layout", "sideways", "Unknown nvForest layout name: sideways"),
        ("cpu_nthread", "many", "has parameter cpu_nthread 'many', expected an integer"),
    ],
)
def test_parameter_without_effect_is_named_in_the_log(tmp_path, caplog, name, value, says):
    with caplog.at_level(logging.WARNING):
        load(saved(tmp_path, config(**{name: value}), TREE_MODEL))
    assert says in caplog.text
    assert "'m'" in caplog.text


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("layout", "layered"),
        ("chunk_size", "32"),
        ("transfer_threshold", "5"),
        ("cpu_nthread", "-1"),
        ("use_experimental_optimizations", "false"),
    ],
)
def test_parameter_that_only_says_how_to_compute_is_taken_silently(tmp_path, caplog, name, value):
    with caplog.at_level(logging.WARNING):
        load(saved(tmp_path, config(**{name: value}), TREE_MODEL))
    assert not caplog.text


@pytest.mark.parametrize(
    ("error", "old", "new", "says"),
    [
        (InternalError, "input__0", "X", "unknown request input name input__0: model 'm' has"),
        (InternalError, "output__0", "Y", "No output with name output__0 in configuration."),
        (
            InvalidArgumentError,
            "TYPE_FP32",
            "TYPE_FP64",
            "unable to load model 'm', tensor 'input__0' has datatype TYPE_FP64 in the config, "
            "expected TYPE_FP32",
        ),
        (
            InvalidArgumentError,
            "dims: [ 2 ]",
            "dims: [ 3 ]",
            "unable to load model 'm', tensor 'input__0' has 3 features a row (dims [3]) in the "
            "config, the model has 2",
        ),
        (
            InvalidArgumentError,
            "dims: [ 1 ]",
            "dims: [ 2 ]",
            "unable to load model 'm', tensor 'output__0' has 2 scores a row (dims [2]) in the "
            "config, the model has 1",
        ),
    ],
)
def test_config_that_is_not_the_models_is_refused(tmp_path, error, old, new, says):
    context = saved(tmp_path, config().replace(old, new), TREE_MODEL)
    assert refusal(error, context).startswith(says)


@pytest.mark.parametrize(
    ("name", "width", "says"),
    [
        ("treeshap_output", 2, "has 2 Shapley values a row (dims [2]) in the config, the model"),
        ("leaf_ids", 2, "has output 'leaf_ids' in its config, backend 'fil' has 'output__0' and"),
    ],
)
def test_second_output_that_is_none_is_refused(tmp_path, name, width, says):
    more = f'output {{ name: "{name}" data_type: TYPE_FP32 dims: [ {width} ] }}'
    with pytest.raises((InternalError, InvalidArgumentError)) as raised:
        load(saved(tmp_path, config(more=more), TREE_MODEL))
    assert says in raised.value.message


def test_gpu_is_refused_where_it_is_asked_for_and_passed_over_where_not(tmp_path):
    context = saved(tmp_path, config(), TREE_MODEL, kind="GPU")
    message = refusal(UnsupportedError, context)
    assert message.startswith("KIND_GPU cannot be used in CPU-only build")
    (group,) = normalise(context.config, gpu_ids=(0, 1)).instance_group
    assert (group.kind, group.gpus) == ("KIND_CPU", ())


@pytest.mark.parametrize("act", [load, auto_complete])
def test_missing_file_is_unavailable(tmp_path, act):
    text = config() if act is load else BARE + parameter("model_type", "treelite_checkpoint")
    message = refusal(UnavailableError, context_of(tmp_path, text), act)
    assert message.startswith("Could not open model file ")
    assert message.endswith(
        "1/checkpoint.tl of model 'm', which has parameter model_type 'treelite_checkpoint'"
    )


def test_missing_file_advises_the_type_of_the_file_there_is(tmp_path):
    context = saved(tmp_path, config(model_type="xgboost_json"), TREE_MODEL)
    message = refusal(UnavailableError, context)
    assert message.endswith("; there is 'checkpoint.tl': set model_type to 'treelite_checkpoint'")


def test_pickle_is_not_read_and_its_conversion_advised(tmp_path):
    context = context_of(tmp_path, config())
    Path(context.version_dir, "model.pkl").write_bytes(b"\x80\x04N.")
    advice = "'python -m backends.fil.convert_sklearn model.pkl checkpoint.tl'"
    assert advice in refusal(UnavailableError, context)
    named = context_of(tmp_path, config(more='default_model_filename: "model.pkl"'))
    assert advice in refusal(UnknownError, named)


@pytest.mark.parametrize(
    ("model_type", "filename", "content", "says"),
    [
        (
            "xgboost_json",
            "xgboost.json",
            b'{"learner": 3',
            "Provided JSON could not be parsed as XGBoost model.",
        ),
        ("xgboost", "xgboost.model", b"{}", ""),
        ("xgboost", "xgboost.model", b"", "Check failed: "),
        ("xgboost_ubj", "xgboost.ubj", b"{", "Check failed: "),
        ("lightgbm", "model.txt", b"tree\n", "Ill-formed LightGBM model file"),
        (
            "treelite_checkpoint",
            "checkpoint.tl",
            b"\x03\0\0\0\x08\0\0\0\0\0\0\0",
            "Cannot load model from a different major Treelite version",
        ),
    ],
)
def test_broken_file_is_refused_with_treelites_words(tmp_path, model_type, filename, content, says):
    context = context_of(tmp_path, config(model_type=model_type))
    Path(context.version_dir, filename).write_bytes(content)
    message = refusal(UnknownError, context)
    assert says in message
    assert not message.startswith("[")
    assert f"(model 'm', file '{context.version_dir}/{filename}', model_type" in message


def test_several_targets_are_refused(tmp_path):
    from treelite.model_builder import Metadata, ModelBuilder, PostProcessorFunc, TreeAnnotation

    builder = ModelBuilder(
        threshold_type="float32",
        leaf_output_type="float32",
        metadata=Metadata(
            num_feature=2,
            task_type="kRegressor",
            average_tree_output=False,
            num_target=2,
            num_class=[1, 1],
            leaf_vector_shape=(1, 1),
        ),
        tree_annotation=TreeAnnotation(num_tree=1, target_id=[0], class_id=[0]),
        postprocessor=PostProcessorFunc("identity"),
        base_scores=[0.0, 0.0],
    )
    builder.start_tree()
    builder.start_node(0)
    builder.leaf(1.0)
    builder.end_node()
    builder.end_tree()
    message = refusal(UnsupportedError, saved(tmp_path, config(), builder.commit()))
    assert message.startswith("Multi-target model not supported")


def test_file_may_have_another_name(tmp_path):
    context = saved(tmp_path, config(more='default_model_filename: "forest.bin"'), TREE_MODEL)
    assert context.model_path("checkpoint.tl").endswith("/1/forest.bin")
    load(context)
