# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
import logging
from pathlib import Path

import onnx
import pytest
from onnx import helper

from backends.api.errors import (
    InternalError,
    InvalidArgumentError,
    TritonError,
    UnavailableError,
    UnsupportedError,
)
from tests.support.models import auto_complete, context_of, load
from tests.support.onnx_graphs import FLOAT, INT32, save, save_add_sub, value

BARE = 'name: "m" platform: "onnxruntime_onnx" '
FULL = (
    BARE + "max_batch_size: 8 "
    'input { name: "INPUT0" data_type: TYPE_INT32 dims: [ 4 ] } '
    'input { name: "INPUT1" data_type: TYPE_INT32 dims: [ 4 ] } '
    'output { name: "OUTPUT0" data_type: TYPE_INT32 dims: [ 4 ] } '
    'output { name: "OUTPUT1" data_type: TYPE_INT32 dims: [ 4 ] } '
)


def add_sub(tmp_path, config, *, batch="N", **fields):
    context = context_of(tmp_path, config, **fields)
    save_add_sub(context.model_path("model.onnx"), batch=batch)
    return context


def test_batchable_model_is_completed_with_batching(tmp_path, caplog):
    with caplog.at_level(logging.WARNING):
        config = auto_complete(add_sub(tmp_path, BARE))
    assert config.max_batch_size == 4
    assert config.dynamic_batching is not None
    assert [(one.name, one.datatype, one.dims) for one in config.input] == [
        ("INPUT0", "INT32", (4,)),
        ("INPUT1", "INT32", (4,)),
    ]
    assert [one.name for one in config.output] == ["OUTPUT0", "OUTPUT1"]
    assert "autofilled max_batch_size to 4 for model 'm'" in caplog.text


def test_default_max_batch_size_comes_from_the_backend_config(tmp_path):
    context = add_sub(tmp_path, BARE, backend_config={"default-max-batch-size": "1"})
    config = auto_complete(context)
    assert config.max_batch_size == 1
    assert config.dynamic_batching is None


def test_model_with_fixed_first_dimension_is_completed_without_batching(tmp_path):
    config = auto_complete(add_sub(tmp_path, BARE, batch=2))
    assert (config.max_batch_size, config.dynamic_batching) == (0, None)
    assert config.input[0].dims == (2, 4)


def test_batch_size_of_the_config_is_kept(tmp_path):
    assert auto_complete(add_sub(tmp_path, BARE + "max_batch_size: 16")).max_batch_size == 16


def test_only_the_missing_side_is_completed(tmp_path):
    config = auto_complete(
        add_sub(tmp_path, BARE + 'output { name: "OUTPUT1" data_type: TYPE_INT32 dims: [ 4 ] }')
    )
    assert [one.name for one in config.output] == ["OUTPUT1"]
    assert [one.name for one in config.input] == ["INPUT0", "INPUT1"]


def test_config_with_both_sides_is_not_touched(tmp_path):
    context = context_of(tmp_path, FULL.replace("max_batch_size: 8", ""))
    assert auto_complete(context) == context.config


def test_vector_per_batch_is_completed_with_an_empty_reshape(tmp_path):
    context = context_of(tmp_path, BARE)
    save(
        context.model_path("model.onnx"),
        [helper.make_node("Neg", ["X"], ["Y"])],
        [value("X", FLOAT, ["N"])],
        [value("Y", FLOAT, ["N"])],
    )
    config = auto_complete(context)
    assert (config.input[0].dims, config.input[0].reshape) == ((1,), ())


def test_batch_size_for_a_model_without_batching_is_refused(tmp_path):
    with pytest.raises(InvalidArgumentError) as raised:
        auto_complete(add_sub(tmp_path, BARE + "max_batch_size: 8", batch=2))
    assert raised.value.message == (
        "autofill failed for model 'm': model does not support batching while non-zero "
        "max_batch_size is specified"
    )


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        (
            'input { name: "INPUT1" data_type: TYPE_INT32 dims: [ 4 ] }',
            "",
            "unable to load model 'm', configuration expects 1 inputs, model provides 2",
        ),
        (
            "INPUT1",
            "INPUT_UNKNOWN",
            "unexpected inference input 'INPUT_UNKNOWN', allowed inputs are: INPUT0, INPUT1",
        ),
        (
            "OUTPUT1",
            "OUTPUT_UNKNOWN",
            "unexpected inference output 'OUTPUT_UNKNOWN', allowed outputs are: OUTPUT0, OUTPUT1",
        ),
        (
            '"INPUT1" data_type: TYPE_INT32',
            '"INPUT1" data_type: TYPE_FP32',
            "unable to load model 'm', configuration expects datatype TYPE_FP32 for input "
            "'INPUT1', model provides TYPE_INT32",
        ),
        (
            '"OUTPUT0" data_type: TYPE_INT32',
            '"OUTPUT0" data_type: TYPE_BF16',
            "unsupported datatype TYPE_BF16 for output 'OUTPUT0' for model 'm'",
        ),
        (
            '"INPUT0" data_type: TYPE_INT32 dims: [ 4 ]',
            '"INPUT0" data_type: TYPE_INT32 dims: [ 4, 1 ]',
            "model 'm', tensor 'INPUT0': the model expects 2 dimensions (shape [-1,4]) but the "
            "model configuration specifies 3 dimensions (an initial batch dimension because "
            "max_batch_size > 0 followed by the explicit tensor shape, making complete shape "
            "[-1,4,1])",
        ),
        (
            '"OUTPUT1" data_type: TYPE_INT32 dims: [ 4 ]',
            '"OUTPUT1" data_type: TYPE_INT32 dims: [ 1 ]',
            "model 'm', tensor 'OUTPUT1': the model expects 2 dimensions (shape [-1,4]) but the "
            "model configuration specifies 2 dimensions (an initial batch dimension because "
            "max_batch_size > 0 followed by the explicit tensor shape, making complete shape "
            "[-1,1])",
        ),
        (
            "max_batch_size: 8",
            "",
            "model 'm', tensor 'INPUT0': the model expects 2 dimensions (shape [-1,4]) but the "
            "model configuration specifies 1 dimensions (shape [4])",
        ),
    ],
)
def test_config_that_contradicts_the_model_fails_with_the_text_of_triton(tmp_path, old, new, says):
    assert old in FULL
    with pytest.raises(TritonError) as raised:
        load(add_sub(tmp_path, FULL.replace(old, new)))
    assert raised.value.message == says


def test_fixed_batch_dimension_with_batching_is_refused(tmp_path):
    with pytest.raises(InvalidArgumentError, match="the first dimension must be -1"):
        load(add_sub(tmp_path, FULL, batch=2))


def test_gpu_instance_never_runs_on_the_cpu_silently(tmp_path):
    with pytest.raises(UnavailableError, match=r"KIND_GPU|fell back"):
        load(add_sub(tmp_path, FULL, kind="GPU"))


@pytest.mark.parametrize("level", [-1, 1, 2])
def test_graph_optimisation_levels_of_triton_are_accepted(tmp_path, level):
    load(add_sub(tmp_path, FULL + f"optimization {{ graph {{ level: {level} }} }}")).close()


def test_model_may_be_a_directory(tmp_path):
    context = context_of(tmp_path, FULL)
    save_add_sub(f"{context.version_dir}/model.onnx/model.onnx")
    load(context).close()


def test_missing_file_names_its_path(tmp_path):
    context = context_of(tmp_path, FULL)
    with pytest.raises(
        UnavailableError, match=f"unable to find '{context.version_dir}/model.onnx'"
    ):
        load(context)


def test_file_that_is_no_model_gives_the_message_of_onnx_runtime(tmp_path):
    context = context_of(tmp_path, FULL)
    Path(context.model_path("model.onnx")).write_bytes(b"not a model")
    with pytest.raises(InternalError, match=r"onnx runtime error \d+: .*\(model 'm', file "):
        load(context)


def test_filename_outside_the_version_directory_is_refused(tmp_path):
    config = FULL + 'default_model_filename: "../../secret.onnx"'
    with pytest.raises(InvalidArgumentError, match="inside the version directory"):
        load(context_of(tmp_path, config))


def test_outputs_that_are_no_tensors_are_refused_with_advice(tmp_path):
    context = context_of(tmp_path, BARE)
    save(
        context.model_path("model.onnx"),
        [helper.make_node("SequenceConstruct", ["X"], ["S"])],
        [value("X", INT32, [2])],
        [helper.make_tensor_sequence_value_info("S", INT32, [2])],
    )
    with pytest.raises(UnsupportedError, match=r"'ONNX_TYPE_SEQUENCE' for I/O 'S'.*zipmap=False"):
        auto_complete(context)


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (lambda model: setattr(model, "ir_version", 99), "Unsupported model IR version: 99"),
        (lambda model: setattr(model.opset_import[0], "version", 99), "Opset 99"),
    ],
)
def test_file_of_a_later_version_is_refused_with_that_version(tmp_path, change, says):
    context = add_sub(tmp_path, FULL)
    path = context.model_path("model.onnx")
    model = onnx.load(path)
    change(model)
    onnx.save(model, path)
    with pytest.raises(InternalError, match=f"^onnx runtime error .*{says}"):
        load(context)
