# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
import logging
from pathlib import Path

import numpy as np
import pytest
from openvino import opset13

from backends.api.errors import (
    InternalError,
    InvalidArgumentError,
    TritonError,
    UnavailableError,
)
from backends.config.normalisation import normalise
from tests.support.models import auto_complete, context_of, load
from tests.support.openvino_models import (
    answers,
    parameter,
    result,
    save,
    save_add_sub,
    save_layers,
)
from tests.support.recording import execute, recorded

BARE = 'name: "m" backend: "openvino" '
FULL = (
    BARE + "max_batch_size: 8 "
    'input { name: "INPUT0" data_type: TYPE_INT32 dims: [ 4 ] } '
    'input { name: "INPUT1" data_type: TYPE_INT32 dims: [ 4 ] } '
    'output { name: "OUTPUT0" data_type: TYPE_INT32 dims: [ 4 ] } '
    'output { name: "OUTPUT1" data_type: TYPE_INT32 dims: [ 4 ] } '
)


def with_parameters(**given):
    return FULL + "".join(
        f'parameters {{ key: "{key}" value {{ string_value: "{text}" }} }} '
        for key, text in given.items()
    )


def add_sub(tmp_path, config, fields=None, **model):
    context = context_of(tmp_path, config, **(fields or {}))
    save_add_sub(context.model_path("model.xml"), **model)
    return context


@pytest.mark.parametrize("model", [{}, {"batch": 2, "layout": "NC"}])
def test_model_that_batches_is_completed_with_batching(tmp_path, caplog, model):
    with caplog.at_level(logging.WARNING):
        config = auto_complete(add_sub(tmp_path, BARE, **model))
    assert config.max_batch_size == 4
    assert config.dynamic_batching is not None
    assert [(one.name, one.datatype, one.dims) for one in config.input] == [
        ("INPUT0", "INT32", (4,)),
        ("INPUT1", "INT32", (4,)),
    ]
    assert [one.name for one in config.output] == ["OUTPUT0", "OUTPUT1"]
    assert (
        "autofilled max_batch_size to 4 for model 'm' since batching is supported but no "
        "max_batch_size is specified" in caplog.text
    )


def test_model_of_fixed_batch_size_without_layout_is_completed_without_batching(tmp_path, caplog):
    config = auto_complete(add_sub(tmp_path, BARE, batch=2))
    assert (config.max_batch_size, config.dynamic_batching) == (0, None)
    assert config.input[0].dims == (2, 4)
    assert not caplog.text


def test_batch_size_for_a_model_without_layout_is_a_warning(tmp_path, caplog):
    config = auto_complete(add_sub(tmp_path, BARE + "max_batch_size: 3", batch=2))
    assert config.max_batch_size == 3
    assert (
        "model layout for model m does not support batching while non-zero max_batch_size is "
        "specified" in caplog.text
    )


def test_completed_config_loads_and_answers(tmp_path):
    context = context_of(tmp_path, BARE)
    path = context.model_path("model.xml")
    save_layers(path)
    completed = context_of(tmp_path, auto_complete_text(auto_complete(context)))
    given = np.ones((2, 32), np.float32)
    request = recorded({"X": given})
    execute(load(completed), request)
    expected = answers(path, {"X": given})["Y"]
    np.testing.assert_allclose(request.arrays()["Y"], expected, rtol=1e-5, atol=1e-6)


def auto_complete_text(config):
    from backends.config.pbtxt import to_pbtxt

    return to_pbtxt(config)


def test_tensor_without_a_name_goes_by_its_operations(tmp_path):
    context = context_of(tmp_path, BARE)
    x = opset13.parameter([-1, 4], np.float32, name="X")
    y = opset13.negative(x, name="Y")
    save(context.model_path("model.xml"), [opset13.result(y)], [x])
    config = auto_complete(context)
    assert ([one.name for one in config.input], [one.name for one in config.output]) == (
        ["X"],
        ["Y"],
    )
    instance = load(context_of(tmp_path, auto_complete_text(config)))
    request = recorded({"X": np.ones((1, 4), np.float32)})
    execute(instance, request)
    assert request.arrays()["Y"].tolist() == [[-1, -1, -1, -1]]


def test_tensor_with_several_names_goes_by_the_configs(tmp_path):
    config = BARE + (
        'max_batch_size: 2 input { name: "X" data_type: TYPE_FP32 dims: [ 4 ] } '
        'output { name: "second" data_type: TYPE_FP32 dims: [ 4 ] }'
    )
    context = context_of(tmp_path, config)
    x = parameter("X", np.float32, [-1, 4])
    save(context.model_path("model.xml"), [result(opset13.negative(x), "first", "second")], [x])
    request = recorded({"X": np.ones((1, 4), np.float32)})
    execute(load(context), request)
    assert list(request.arrays()) == ["second"]


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
            '"INPUT1" data_type: TYPE_STRING',
            "unsupported datatype TYPE_STRING for input 'INPUT1' for model 'm'",
        ),
        (
            '"OUTPUT0" data_type: TYPE_INT32',
            '"OUTPUT0" data_type: TYPE_FP64',
            "unsupported datatype TYPE_FP64 for output 'OUTPUT0' for model 'm'",
        ),
        (
            '"INPUT0" data_type: TYPE_INT32 dims: [ 4 ]',
            '"INPUT0" data_type: TYPE_INT32 dims: [ 4, 1 ]',
            "model 'm', tensor 'INPUT0': the model expects 2 dimensions (shape [-1,4]) but the "
            "model configuration specifies 3 dimensions (an initial batch dimension because "
            "max_batch_size > 0 followed by the explicit tensor shape, making complete shape "
            "[-1,4,1])",
        ),
    ],
)
def test_config_that_contradicts_the_model_fails_with_the_text_of_triton(tmp_path, old, new, says):
    assert old in FULL
    with pytest.raises(TritonError) as raised:
        load(add_sub(tmp_path, FULL.replace(old, new)))
    assert raised.value.message == says


@pytest.mark.parametrize(
    ("parameter", "text", "says"),
    [
        ("PERFORMANCE_HINT", "Fast", "to be LATENCY/THROUGHPUT/CUMULATIVE_THROUGHPUT, got fast"),
        ("INFERENCE_NUM_THREADS", "-1", "to be a non-negative number, got -1"),
        ("COMPILATION_NUM_THREADS", "x", "to be a non-negative number, got x"),
        ("NUM_STREAMS", "Many", "to be either AUTO/NUMA/<int_value>, got many"),
        ("HINT_BF16", "NO", "to be YES, got no"),
    ],
)
def test_parameter_of_a_wrong_value_has_the_text_of_triton(tmp_path, parameter, text, says):
    with pytest.raises(InvalidArgumentError) as raised:
        load(add_sub(tmp_path, with_parameters(**{parameter: text})))
    assert raised.value.message.startswith(f"expected the parameter '{parameter}' {says}")


@pytest.mark.parametrize(
    "given",
    [
        {"PERFORMANCE_HINT": "throughput"},
        {"PERFORMANCE_HINT": "LATENCY", "INFERENCE_NUM_THREADS": "2"},
        {"INFERENCE_NUM_THREADS": "1", "NUM_STREAMS": "1"},
        {"INFERENCE_NUM_THREADS": "2", "NUM_STREAMS": "2"},
        {"NUM_STREAMS": "AUTO"},
        {"NUM_STREAMS": "numa"},
        {"COMPILATION_NUM_THREADS": "1"},
        {"SKIP_OV_DYNAMIC_BATCHSIZE": "YES"},
        {"TARGET_DEVICE": "cpu"},
        {"TARGET_DEVICE": "HETERO:CPU"},
        {"SOMETHING_UNKNOWN": "is ignored"},
    ],
)
def test_failure_inside_the_model_is_told_with_any_streams_and_threads(tmp_path, given):
    # With streams of one thread infer() says nothing, and the outputs are the previous request's.
    config = with_parameters(**given).replace("dims: [ 4 ]", "dims: [ -1 ]")
    context = context_of(tmp_path, config)
    a, b = (parameter(name, np.int32, [-1, -1]) for name in ("INPUT0", "INPUT1"))
    outputs = [result(opset13.add(a, b), "OUTPUT0"), result(opset13.subtract(a, b), "OUTPUT1")]
    save(context.model_path("model.xml"), outputs, [a, b])
    instance = load(context)

    def ask(*widths):
        arrays = [np.ones((1, width), np.int32) for width in widths]
        request = recorded(dict(zip(("INPUT0", "INPUT1"), arrays, strict=True)))
        execute(instance, request)
        return request

    assert ask(4, 4).arrays()["OUTPUT0"].tolist() == [[2, 2, 2, 2]]
    assert ask(4, 3).error.message.startswith("openvino error in running inference : ")
    assert ask(2, 2).arrays()["OUTPUT0"].tolist() == [[2, 2]]


def test_bf16_is_used_only_on_request(tmp_path):
    config = BARE + (
        'max_batch_size: 8 input { name: "X" data_type: TYPE_FP32 dims: [ 32 ] } '
        'output { name: "Y" data_type: TYPE_FP32 dims: [ 32 ] } '
    )
    hint = 'parameters { key: "HINT_BF16" value { string_value: "yes" } }'
    given = np.linspace(0, 1, 32, dtype=np.float32)[np.newaxis]
    results = []
    for text in (config, config + hint):
        context = context_of(tmp_path, text)
        save_layers(context.model_path("model.xml"))
        request = recorded({"X": given})
        execute(load(context), request)
        results.append(request.arrays()["Y"])
    expected = answers(context.model_path("model.xml"), {"X": given})["Y"]
    np.testing.assert_allclose(results[0], expected, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(results[1], expected, rtol=0.1, atol=0.1)


def test_layers_are_reshaped_to_the_config_on_request(tmp_path):
    config = with_parameters(RESHAPE_IO_LAYERS="yes").replace("dims: [ 4 ]", "dims: [ 6 ]")
    instance = load(add_sub(tmp_path, config, batch=1))
    request = recorded({name: np.ones((3, 6), np.int32) for name in ("INPUT0", "INPUT1")})
    execute(instance, request)
    assert request.arrays()["OUTPUT0"].shape == (3, 6)


def test_model_file_that_is_missing_has_the_text_of_triton(tmp_path):
    context = context_of(tmp_path, FULL)
    with pytest.raises(UnavailableError) as raised:
        load(context)
    assert raised.value.message == (
        f"unable to find '{context.version_dir}/model.xml' for model 'm'"
    )


def test_file_that_is_no_model_is_told_on_one_line(tmp_path):
    context = context_of(tmp_path, FULL)
    Path(context.model_path("model.xml")).write_text("<net")
    with pytest.raises(InternalError) as raised:
        load(context)
    assert raised.value.message.startswith("openvino error in reading model : Unable to read")
    assert "\n" not in raised.value.message


def test_device_that_is_not_there_is_named(tmp_path):
    with pytest.raises(UnavailableError, match="TARGET_DEVICE 'NPU', but this node has the dev"):
        load(add_sub(tmp_path, with_parameters(TARGET_DEVICE="npu")))


def test_extension_that_is_missing_is_named(tmp_path):
    with pytest.raises(InternalError, match=r"loading custom CPU extensions : .*/none.so"):
        load(add_sub(tmp_path, with_parameters(CPU_EXTENSION_PATH="/none.so")))


def test_gpu_instances_are_refused_with_the_text_of_triton(tmp_path):
    with pytest.raises(InvalidArgumentError) as raised:
        load(add_sub(tmp_path, FULL, {"kind": "GPU"}))
    assert raised.value.message.startswith(
        "unable to load model 'm', Triton OpenVINO backend supports only Kind CPU and AUTO"
    )


def test_model_without_instance_groups_runs_on_the_cpu_where_gpus_are(tmp_path):
    config = normalise(context_of(tmp_path, FULL).config, gpu_ids=[0, 1])
    (group,) = config.instance_group
    assert (group.kind, group.count, group.gpus) == ("KIND_CPU", 1, ())


def test_weights_stay_out_of_the_cache_and_changed_weights_are_used(tmp_path, cache):
    config = BARE + (
        'max_batch_size: 8 input { name: "X" data_type: TYPE_FP32 dims: [ 512 ] } '
        'output { name: "Y" data_type: TYPE_FP32 dims: [ 512 ] } '
    )
    context = context_of(tmp_path, config)
    path = context.model_path("model.xml")
    given = np.ones((1, 512), np.float32)
    for seed in (0, 0, 1, 0):
        save_layers(path, width=512, seed=seed)
        request = recorded({"X": given})
        execute(load(context), request)
        expected = answers(path, {"X": given})["Y"]
        np.testing.assert_allclose(request.arrays()["Y"], expected, rtol=1e-4, atol=1e-5)
    blobs = list(cache.rglob("*.blob"))
    assert len(blobs) == 2
    assert (
        sum(blob.stat().st_size for blob in blobs) < Path(path).with_suffix(".bin").stat().st_size
    )


def test_cache_of_a_model_that_is_gone_is_removed(tmp_path, cache):
    context = add_sub(tmp_path, FULL)
    load(context)
    (before,) = (folder for folder in cache.iterdir() if folder.is_dir())
    for file in Path(context.version_dir).iterdir():
        file.unlink()
    other = add_sub(tmp_path / "other", FULL)
    load(other)
    (after,) = (folder for folder in cache.iterdir() if folder.is_dir())
    assert before != after


def test_cache_that_cannot_be_written_is_a_line_in_the_log(tmp_path, monkeypatch, caplog):
    monkeypatch.setenv("MANTA_OPENVINO_CACHE", "/dev/null/cache")
    load(add_sub(tmp_path, FULL)).close()
    assert "OpenVINO compiles without a cache" in caplog.text


def test_file_of_a_later_version_is_refused(tmp_path):
    context = add_sub(tmp_path, FULL)
    path = Path(context.model_path("model.xml"))
    path.write_text(path.read_text().replace('version="11"', 'version="99"', 1))
    with pytest.raises(InternalError, match=r"^openvino error in reading model : Unable to"):
        load(context)
