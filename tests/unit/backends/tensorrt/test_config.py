# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""What a config may say of a plan, over a stand-in for TensorRT."""

import sys
from dataclasses import replace
from pathlib import Path

import pytest

from backends.api.errors import (
    InternalError,
    InvalidArgumentError,
    TritonError,
    UnavailableError,
    UnsupportedError,
)
from backends.registry import extra_named
from tests.support.models import auto_complete, context_of, load
from tests.support.tensorrt_plans import BARE, FULL, RESIZE, RESIZE_PLAN, add_sub, limits


def refusal(act, context, error=TritonError):
    with pytest.raises(error) as raised:
        act(context)
    return raised.value.message


def served(context):
    return load(replace(context, config=auto_complete(context)))


def test_empty_config_is_completed_from_the_plan(model):
    config = auto_complete(model(BARE))
    assert (config.max_batch_size, config.dynamic_batching is not None) == (8, True)
    assert [(one.name, one.datatype, one.dims) for one in config.output] == [
        ("OUTPUT0", "FP32", (4,)),
        ("OUTPUT1", "FP32", (4,)),
    ]


def test_shape_tensors_are_marked_when_a_config_is_completed(model):
    config = auto_complete(model(BARE, RESIZE_PLAN))
    assert [(one.name, one.dims, one.is_shape_tensor) for one in config.input] == [
        ("X", (-1,), False),
        ("S", (1,), True),
    ]
    load(model(RESIZE, RESIZE_PLAN))


def test_plan_of_fixed_shape_is_completed_without_batching(model):
    config = auto_complete(model(BARE, add_sub(shape=(2, 4), profiles=(limits(2, 2, 2),))))
    assert (config.max_batch_size, config.input[0].dims) == (0, (2, 4))


FIXED = add_sub(shape=(2, 4), profiles=(limits(2, 2, 2),))


@pytest.mark.parametrize(
    ("act", "config", "plan", "says"),
    [
        (
            auto_complete,
            FULL.replace("size: 8", "size: 9"),
            None,
            "autofill failed for model 'm': configuration specified max-batch 9 but TensorRT "
            "engine only supports max-batch 8",
        ),
        (
            auto_complete,
            FULL,
            FIXED,
            "autofill failed for model 'm': model tensor shape configuration hints for dynamic "
            "batching but the underlying engine doesn't support batching.",
        ),
        (
            served,
            FULL.replace("[ 4 ]", "[ 4 ] allow_ragged_batch: true", 1).replace("OUTPUT1", "OTHER"),
            None,
            "unexpected inference output 'OTHER', allowed outputs are: OUTPUT0, OUTPUT1",
        ),
        (
            load,
            FULL.replace("size: 8", "size: 9"),
            None,
            "unexpected configuration maximum batch size 9 for 'm', model maximum is 8",
        ),
        (
            load,
            FULL.replace("INPUT0", "OTHER"),
            None,
            "unexpected inference input 'OTHER', allowed inputs are: INPUT0, INPUT1",
        ),
        (
            load,
            FULL.replace("FP32", "FP16"),
            None,
            "unexpected datatype TYPE_FP32 for inference input 'INPUT0', expecting TYPE_FP16 for m",
        ),
        (
            load,
            FULL.replace("FP32", "FP64"),
            None,
            "unsupported datatype TYPE_FP64 for input 'INPUT0' for model 'm'",
        ),
        (
            load,
            RESIZE.replace("is_shape_tensor: true", ""),
            RESIZE_PLAN,
            "input 'S' for model 'm' is a shape tensor but the model configuration doesn't mark it "
            "as a shape tensor.",
        ),
        (
            load,
            RESIZE.replace("TYPE_INT32", "TYPE_INT64"),
            RESIZE_PLAN,
            "unexpected datatype TYPE_INT32 in engine for shape input 'S', expecting TYPE_INT64 "
            "for m",
        ),
        (
            load,
            FULL + 'input { name: "MORE" data_type: TYPE_FP32 dims: [ 4 ] }',
            None,
            "unable to load model 'm', configuration expects 3 inputs, model provides at most 2",
        ),
        (
            auto_complete,
            BARE + 'instance_group { name: "m_0" kind: KIND_GPU profile: [ "3" ] }',
            None,
            "unable to autofill for 'm', configuration specified invalid profile 3 . Number of "
            "profiles supported by TensorRT engine: 1",
        ),
        (
            load,
            FULL + 'instance_group { name: "m_0" kind: KIND_GPU profile: [ "3" ] }',
            None,
            "Can not set the specified optimization profile 3[3] for m_0_0. Expected optimization "
            "profile index range 0-0",
        ),
        (
            load,
            FULL + 'instance_group { name: "m_0" kind: KIND_GPU profile: [ "x" ] }',
            None,
            "unable to parse 'x': stoi",
        ),
        (
            load,
            FULL + 'parameters { key: "execution_context_allocation_strategy" '
            'value { string_value: "NEVER" } }',
            None,
            "Invalid value for 'execution_context_allocation_strategy': 'NEVER' for model instance "
            "'m'. Supported values are 'STATIC' and 'ON_PROFILE_CHANGE'.",
        ),
        (
            load,
            FULL,
            b"no plan",
            "unable to create TensorRT engine: Magic tag does not match",
        ),
        (load, FULL, add_sub("FP8"), "unsupported datatype FP8 for I/O 'INPUT0'"),
    ],
)
def test_what_is_wrong_fails_with_the_text_of_triton(model, act, config, plan, says):
    assert refusal(act, model(config, plan)).startswith(says)


def test_plan_of_another_version_is_refused_with_both_and_a_way_out(model):
    context = model(plan=add_sub(version="8.6.1"))
    text = refusal(load, context, InternalError)
    assert text.startswith(
        "unable to create TensorRT engine: The engine plan file is not compatible with this "
        "version of TensorRT, expecting library version 10.9.0.34 got 8.6.1"
    )
    assert "version-compatible=true" in text
    assert "\n" not in text
    settings = {"version-compatible": "true"}
    load(model(plan=add_sub(version="8.6.1"), backend_config=settings)).close()


@pytest.mark.parametrize("act", [load, auto_complete])
def test_instance_without_a_gpu_is_refused_with_advice(model, act):
    text = refusal(act, model(kind="CPU"), InvalidArgumentError)
    assert text.startswith("unable to load model 'm', TensorRT backend supports only GPU device")
    assert "onnxruntime" in text


def test_engine_for_several_gpus_is_refused(model):
    several = 'parameters { key: "enable_multi_device" value { string_value: "true" } }'
    assert "one GPU" in refusal(load, model(FULL + several, kind="MODEL"), UnsupportedError)


def test_plan_for_the_gpus_compute_capability_wins(model):
    config = FULL + 'cc_model_filenames { key: "9.0" value: "hopper.plan" }'
    context = model(config, filename="hopper.plan")
    load(context).close()
    other = config.replace("9.0", "8.0")
    Path(context.version_dir, "hopper.plan").unlink()
    Path(context.version_dir, "model.plan").unlink(missing_ok=True)
    text = refusal(load, context_like(context, other), UnavailableError)
    assert text == f"unable to find '{context.version_dir}/model.plan' for model instance 'm_0_0'"


def context_like(context, config):
    return context_of(Path(context.model_dir).parent, config, kind="GPU")


def test_plugin_that_cannot_be_loaded_is_named(model):
    context = model(backend_config={"plugins": "/nowhere/libplugin.so"})
    assert "'/nowhere/libplugin.so'" in refusal(load, context, UnavailableError)


@pytest.mark.parametrize("missing", ["tensorrt", "cuda.bindings.runtime"])
def test_missing_package_names_the_extra(model, monkeypatch, missing):
    context = model()
    monkeypatch.setitem(sys.modules, missing, None)
    if missing == "tensorrt":
        monkeypatch.setitem(sys.modules, "tensorrt_lean", None)
    with pytest.raises(InvalidArgumentError) as raised, extra_named("tensorrt"):
        load(context)
    assert f"package '{missing}' is not installed" in raised.value.message
    assert raised.value.message.endswith("pip install manta-serve[tensorrt]")
