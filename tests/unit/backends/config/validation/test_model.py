# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
import pytest

from backends.api.errors import InvalidArgumentError
from backends.config.normalisation import normalise
from backends.config.pbtxt import parse_pbtxt
from backends.config.validation.model import (
    validate,
)
from tests.support.config_texts import HEAD, INPUT, OUTPUT, complaint_of, control, tensor

CACHE = "Response Cache does not currently support model m with"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('backend: "python"', "model configuration must specify 'name'"),
        ('name: "m" platform: "foo"', "unexpected platform type 'foo' for m"),
        (
            'name: "m" platform: "ensemble" backend: "python"',
            "Ensemble model 'm' must have platform type 'ensemble' and empty backend type",
        ),
        (
            'name: "m" platform: "onnxruntim" backend: "onnxruntime"',
            "unexpected 'platform' and 'backend' pair, got:onnxruntim, onnxruntime",
        ),
        (f"{HEAD} max_batch_size: -1", "'max_batch_size' must be non-negative value for m"),
        (
            f"{HEAD} max_batch_size: 4 dynamic_batching {{ preferred_batch_size: 0 }}",
            "dynamic batching preferred size must be positive for m",
        ),
        (
            f"{HEAD} max_batch_size: 4 dynamic_batching {{ preferred_batch_size: 5 }}",
            "dynamic batching preferred size must be <= max batch size for m",
        ),
        (
            f"{HEAD} dynamic_batching {{ priority_levels: 3 }}",
            "default priority level must be in range [1, 3] for m",
        ),
        (
            f"{HEAD} dynamic_batching {{ priority_levels: 3 default_priority_level: 4 }}",
            "default priority level must be in range [1, 3] for m",
        ),
        *(
            (
                f"{HEAD} dynamic_batching {{ priority_levels: 3 default_priority_level: 1 "
                f"priority_queue_policy {{ key: {key} value {{}} }} }}",
                "priority queue policy must have priority level in range [1, 3] for m",
            )
            for key in (0, 4)
        ),
        (
            f"{HEAD} dynamic_batching {{ priority_levels: 2 default_priority_level: 1 "
            "preserve_ordering: true }",
            "Only one priority level is allowed when 'preserve_ordering' is true for m",
        ),
        *(
            (
                f"{HEAD} dynamic_batching {{ priority_levels: 1 default_priority_level: 1 "
                f"preserve_ordering: true {policy} }}",
                "Queue policy can not have DELAY as timeout action when 'preserve_ordering' is "
                "true for m",
            )
            for policy in (
                "default_queue_policy { timeout_action: DELAY default_timeout_microseconds: 1 }",
                "priority_queue_policy { key: 1 value { timeout_action: DELAY "
                "default_timeout_microseconds: 1 } }",
            )
        ),
        (
            f"{HEAD} sequence_batching {{}} response_cache {{ enable: true }}",
            f"{CACHE} sequence batching scheduler. Please disable the response cache.",
        ),
        (
            f"{HEAD} model_transaction_policy {{ decoupled: true }} "
            "response_cache { enable: true }",
            f"{CACHE} 'decoupled' transaction policy. Please disable the response cache.",
        ),
        (
            f'{HEAD} sequence_batching {{}} parameters {{ key: "TRITON_BATCH_STRATEGY_PATH" '
            'value { string_value: "x" } }',
            "TRITON_BATCH_STRATEGY_PATH cannot be specified with sequence batcher, using default "
            "batching strategy",
        ),
    ],
)
def test_model_rule(text: str, expected: str):
    assert complaint_of(text) == expected


def test_platform_ensemble_needs_ensemble_scheduling():
    assert complaint_of('name: "m" platform: "ensemble"') == (
        "ensemble scheduling must be set for ensemble m whose platform is ensemble"
    )


@pytest.mark.parametrize(
    "text",
    [
        "max_batch_size: 2 input { name: 'a' data_type: TYPE_FP32 dims: [1] reshape { } }",
        tensor("input", "dims: [2, 4, -1, 6] reshape { shape: [8, -1, 1, 6] }"),
        f"{INPUT} {OUTPUT} max_batch_size: 4 dynamic_batching {{}}",
        control("CORRID", "data_type: TYPE_STRING"),
        "instance_group { kind: KIND_CPU }",
    ],
)
def test_a_sound_config_is_accepted(text: str):
    validate(normalise(parse_pbtxt(f"{HEAD} {text}", "p"), gpu_ids=()), gpu_ids=())


USABLE = "GPUs with at least the minimum required CUDA compute compatibility of 6.000000 are:"


@pytest.mark.parametrize(
    ("text", "gpu_ids", "expected"),
    [
        (
            "instance_group { kind: KIND_CPU gpus: [0] }",
            (0,),
            "instance group m_0 of model m has kind KIND_CPU but specifies one or more GPUs",
        ),
        (
            "instance_group { kind: KIND_MODEL gpus: [0] }",
            (0,),
            "instance group m_0 of model m has kind KIND_MODEL but specifies one or more GPUs",
        ),
        (
            "instance_group { kind: KIND_GPU }",
            (),
            "instance group m_0 of model m has kind KIND_GPU but no GPUs are available",
        ),
        (
            "instance_group { kind: KIND_GPU gpus: [42] }",
            (1, 0),
            "instance group m_0 of model m specifies invalid or unsupported gpu id 42. "
            f"{USABLE} 0, 1",
        ),
        (
            "instance_group { kind: KIND_GPU } instance_group { kind: KIND_GPU gpus: [-1] }",
            (0,),
            f"instance group m_1 of model m specifies invalid or unsupported gpu id -1. {USABLE} 0",
        ),
        (
            'instance_group { profile: "1" }',
            (),
            "instance group m_0 of model m and platform specifies profile field which is only "
            "supported for TensorRT models",
        ),
        (
            "instance_group { kind: KIND_CPU count: 96 } "
            "instance_group { kind: KIND_GPU count: 2001 }",
            (0, 1),
            "the instance groups of model m have 4098 instances in sum (count times gpus), "
            "expected at most 4096; give a smaller count",
        ),
    ],
)
def test_instance_group_rule(text: str, gpu_ids: tuple[int, ...], expected: str):
    assert complaint_of(f"{HEAD} {text}", gpu_ids) == expected


def test_groups_that_were_not_normalised_are_refused():
    bare = parse_pbtxt(f"{HEAD} version_policy {{ all {{}} }}", "p")
    with pytest.raises(InvalidArgumentError, match="must specify one or more 'instance group's"):
        validate(bare, gpu_ids=())
    auto = parse_pbtxt(f"{HEAD} version_policy {{ all {{}} }} instance_group {{}}", "p")
    with pytest.raises(InvalidArgumentError, match="has unexpected kind KIND_AUTO"):
        validate(auto, gpu_ids=())
    gpu = parse_pbtxt(
        f"{HEAD} version_policy {{ all {{}} }} instance_group {{ kind: KIND_GPU }}", "p"
    )
    with pytest.raises(InvalidArgumentError, match="has kind KIND_GPU but specifies no GPUs"):
        validate(gpu, gpu_ids=(0,))
    with pytest.raises(InvalidArgumentError, match="must specify 'version policy' for m"):
        validate(parse_pbtxt(HEAD, "p"), gpu_ids=())


def test_profiles_of_tensorrt_are_numbers():
    head = 'name: "m" backend: "tensorrt" platform: "tensorrt_plan" instance_group { profile: '
    assert "specifies invalid profile x." in complaint_of(f'{head} "x" }}')
    validate(normalise(parse_pbtxt(f'{head} "1" }}', "p"), gpu_ids=()), gpu_ids=())


@pytest.mark.parametrize(
    ("control_text", "expected"),
    [
        ("", "metric control must specify 'metric_identifier'"),
        ("metric_identifier {}", "metric identifier must specify non-empty 'family'"),
        (
            'metric_identifier { family: "f" }',
            "metric control must specify 'histogram_options'",
        ),
        (
            'metric_identifier { family: "f" } histogram_options {}',
            "histogram options must specify non-empty 'buckets'",
        ),
    ],
)
def test_metric_rule(control_text: str, expected: str):
    assert (
        complaint_of(f"{HEAD} model_metrics {{ metric_control {{ {control_text} }} }}") == expected
    )
