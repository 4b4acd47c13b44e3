# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
import pytest

from backends.api.errors import InternalError, InvalidArgumentError, TritonError
from backends.tensorflow.auto_complete import auto_complete
from tests.support.models import context_of
from tests.support.saved_models import Named, graph, save, save_add_sub, signature

BARE = 'name: "m" backend: "tensorflow" platform: "tensorflow_savedmodel" '


def completed(tmp_path, config, dims=(-1, 4), **fields):
    context = context_of(tmp_path, config, **fields)
    save_add_sub(context.model_path("model.savedmodel"), dims)
    return auto_complete(context)


def test_model_that_batches_is_completed_with_batching(tmp_path, caplog):
    config = completed(tmp_path, BARE)
    assert (config.max_batch_size, config.dynamic_batching is not None) == (4, True)
    assert [(one.name, one.datatype, one.dims) for one in config.input] == [
        ("INPUT0", "INT32", (4,)),
        ("INPUT1", "INT32", (4,)),
    ]
    assert [one.name for one in config.output] == ["OUTPUT0", "OUTPUT1"]
    assert "autofilled max_batch_size to 4 for model 'm'" in caplog.text


def test_model_of_fixed_shape_is_completed_without_batching(tmp_path):
    config = completed(tmp_path, BARE, (2, 4))
    assert (config.max_batch_size, config.dynamic_batching) == (0, None)
    assert config.output[0].dims == (2, 4)


def test_vector_per_batch_is_completed_with_an_empty_reshape(tmp_path):
    config = completed(tmp_path, BARE, (-1,))
    assert (config.input[0].dims, config.input[0].reshape) == ((1,), ())


def test_what_a_tensor_lacks_is_filled_in_and_others_are_not_added(tmp_path):
    config = completed(tmp_path, BARE + 'output { name: "OUTPUT1" }')
    assert [(one.name, one.datatype, one.dims) for one in config.output] == [
        ("OUTPUT1", "INT32", (4,))
    ]


@pytest.mark.parametrize(("dims", "size"), [("4", 4), ("-1, 4", 0)])
def test_dims_of_the_config_tell_whether_it_batches(tmp_path, dims, size):
    text = BARE + f'input {{ name: "INPUT0" data_type: TYPE_INT32 dims: [ {dims} ] }}'
    assert completed(tmp_path, text).max_batch_size == size


def test_dims_that_contradict_each_other_have_the_text_of_triton(tmp_path):
    text = BARE + 'input { name: "INPUT0" dims: [ 4 ] } output { name: "OUTPUT0" dims: [ -1, 4 ] }'
    with pytest.raises(InternalError) as raised:
        completed(tmp_path, text)
    assert raised.value.message == (
        "unable to autofill for 'm', model tensor configurations are contradicting each other in "
        "terms of whether batching is supported"
    )


def test_batch_size_for_a_model_that_does_not_batch_has_the_text_of_triton(tmp_path):
    with pytest.raises(InternalError) as raised:
        completed(tmp_path, BARE + "max_batch_size: 8", (2, 4))
    assert raised.value.message == (
        "unable to autofill for 'm', configuration specified max-batch 8 but model signature does "
        "not support batching"
    )


def test_rank_that_nobody_tells_has_the_text_of_triton(tmp_path):
    with pytest.raises(InvalidArgumentError) as raised:
        completed(tmp_path, BARE, None)
    assert raised.value.message == (
        "Unable to autofill for 'm': the rank of model tensor 'INPUT0' is 0 and dimensions are not "
        "defined"
    )


def test_rank_of_the_config_is_taken_where_the_model_tells_none(tmp_path):
    tensors = "".join(
        f'{side}put {{ name: "{side.upper()}PUT{k}" data_type: TYPE_INT32 dims: [ 4 ] }} '
        for side in ("in", "out")
        for k in (0, 1)
    )
    config = completed(tmp_path, BARE + tensors, None)
    assert (config.max_batch_size, config.input[0].dims) == (0, (4,))


def test_scalars_are_completed_as_one_element(tmp_path):
    context = context_of(tmp_path, BARE)
    tensors = signature({"X": Named("x:0", "FP32", ())}, {"Y": Named("y:0", "FP32", ())})
    save(context.model_path("model.savedmodel"), graph(), {"serving_default": tensors})
    config = auto_complete(context)
    assert (config.input[0].dims, config.input[0].reshape) == ((1,), None)


def test_graph_def_tells_nothing(tmp_path):
    context = context_of(tmp_path, BARE.replace("savedmodel", "graphdef"))
    assert auto_complete(context) == context.config


@pytest.mark.parametrize(
    ("config", "fields", "says"),
    [
        (
            BARE.replace("savedmodel", "keras"),
            {},
            "platform tensorflow_keras not supported for TensorFlow model 'm'",
        ),
        (
            BARE,
            {"backend_config": {"version": "1"}},
            "starting from 23.04, Triton no longer supports Tensorflow 1. Please switch to "
            "Tensorflow 2.",
        ),
        (
            BARE + 'parameters { key: "TF_SIGNATURE_DEF" value { string_value: "other" } }',
            {},
            "unable to auto-complete model configuration for 'm', failed to load model: unable to "
            "load model 'm', expected 'other' signature",
        ),
    ],
)
def test_what_cannot_be_completed_has_the_text_of_triton(tmp_path, config, fields, says):
    with pytest.raises(TritonError) as raised:
        completed(tmp_path, config, **fields)
    assert raised.value.message.startswith(says)
