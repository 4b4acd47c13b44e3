# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from backends.api.errors import InvalidArgumentError
from backends.api.model_config import InstanceGroup, ModelConfig
from backends.config.normalisation import (
    change_requires_reload,
    infer_backend,
    normalise,
    normalise_defaults,
    with_groups_of,
)
from backends.config.pbtxt import parse_pbtxt
from tests.support.examples import examples


def config(text: str) -> ModelConfig:
    return parse_pbtxt(f'name: "m" {text}', "p")


@pytest.mark.parametrize(
    ("text", "listing", "expected"),
    [
        ("", {"model.onnx": False}, ("onnxruntime", "onnxruntime_onnx", "model.onnx")),
        ("", {"model.onnx": True}, ("onnxruntime", "onnxruntime_onnx", "model.onnx")),
        ("", {"model.plan": False}, ("tensorrt", "tensorrt_plan", "model.plan")),
        ("", {"model.pt": False}, ("pytorch", "pytorch_libtorch", "")),
        ('backend: "pytorch"', {}, ("pytorch", "pytorch_libtorch", "model.pt")),
        (
            'backend: "pytorch" runtime: "model.py"',
            {"model.py": False, "model.pt": False},
            ("pytorch", "pytorch_libtorch", ""),
        ),
        ("", {"model.pt2": False}, ("pytorch", "torch_aoti", "model.pt2")),
        ("", {"model.xml": False, "model.bin": False}, ("openvino", "", "model.xml")),
        ("", {"model.py": False, "x": True}, ("python", "", "model.py")),
        (
            "",
            {"model.savedmodel": True},
            ("tensorflow", "tensorflow_savedmodel", "model.savedmodel"),
        ),
        ("", {"model.graphdef": False}, ("tensorflow", "tensorflow_graphdef", "model.graphdef")),
        (
            "",
            {"model.py": False, "model.onnx": False},
            ("onnxruntime", "onnxruntime_onnx", "model.onnx"),
        ),
        ('platform: "onnxruntime_onnx"', {}, ("onnxruntime", "onnxruntime_onnx", "model.onnx")),
        ('platform: "libtorch"', {}, ("pytorch", "libtorch", "")),
        ('default_model_filename: "model.py"', {}, ("python", "", "model.py")),
        (
            'platform: "onnx" default_model_filename: "model.onnx"',
            {},
            ("onnxruntime", "onnx", "model.onnx"),
        ),
        ('backend: "python"', {"model.onnx": False}, ("python", "", "model.py")),
        (
            'backend: "onnxruntime" default_model_filename: "x"',
            {},
            ("onnxruntime", "onnxruntime_onnx", "x"),
        ),
        ('backend: "identity"', {"model.py": False}, ("identity", "", "")),
        ('platform: "ensemble"', {}, ("", "ensemble", "")),
    ],
)
def test_backend_is_inferred(text: str, listing: dict, expected: tuple):
    found = infer_backend(config(text), listing)
    assert (found.backend, found.platform, found.default_model_filename) == expected


def test_a_plan_that_is_a_directory_is_no_tensorrt_model():
    with pytest.raises(InvalidArgumentError):
        infer_backend(config(""), {"model.plan": True})


def test_backend_is_the_name_behind_the_dot():
    found = infer_backend(parse_pbtxt('name: "x.identity"', "p"), None)
    assert (found.backend, found.default_model_filename) == ("identity", "model.identity")


def test_a_name_without_a_dot_tells_no_backend():
    with pytest.raises(InvalidArgumentError) as caught:
        infer_backend(config(""), None)
    assert caught.value.message == (
        "Invalid model name: Could not determine backend for model 'm' with no backend in model "
        "configuration. Expected model name of the form 'model.<backend_name>'."
    )


@pytest.mark.parametrize(
    ("text", "gpu_ids", "expected"),
    [
        ("", (), ("m", "KIND_CPU", 1, ())),
        ("", (0, 1), ("m", "KIND_GPU", 1, (0, 1))),
        ("instance_group {}", (), ("m_0", "KIND_CPU", 1, ())),
        ("instance_group { gpus: [0] }", (0, 1), ("m_0", "KIND_GPU", 1, (0,))),
        ("instance_group { gpus: [7] }", (0, 1), ("m_0", "KIND_CPU", 1, (7,))),
        ("instance_group { kind: KIND_GPU count: 3 }", (1, 0), ("m_0", "KIND_GPU", 3, (0, 1))),
        ("instance_group { kind: KIND_GPU }", (), ("m_0", "KIND_GPU", 1, ())),
        ('instance_group { kind: KIND_MODEL name: "g" }', (0,), ("g", "KIND_MODEL", 1, ())),
        ('backend: "onnxruntime"', (), ("m", "KIND_CPU", 2, ())),
        ('backend: "onnxruntime"', (0,), ("m", "KIND_GPU", 1, (0,))),
        ('backend: "pytorch"', (), ("m", "KIND_CPU", 1, ())),
        ('backend: "fil"', (0,), ("m", "KIND_CPU", 1, ())),
        ('backend: "fil" instance_group { kind: KIND_GPU }', (0,), ("m_0", "KIND_GPU", 1, (0,))),
    ],
)
def test_instance_groups_are_completed(text: str, gpu_ids: tuple, expected: tuple):
    (group,) = normalise(config(text), gpu_ids=gpu_ids).instance_group
    assert (group.name, group.kind, group.count, group.gpus) == expected


def test_the_backends_preferred_group_is_used_when_none_is_given():
    preferred = (InstanceGroup(kind="KIND_GPU"), InstanceGroup(kind="KIND_CPU", count=4))
    (group,) = normalise(config(""), gpu_ids=(), preferred_groups=preferred).instance_group
    assert (group.kind, group.count) == ("KIND_CPU", 4)
    (group,) = normalise(config(""), gpu_ids=(0,), preferred_groups=preferred).instance_group
    assert (group.kind, group.count, group.gpus) == ("KIND_GPU", 1, (0,))


def test_the_backends_preference_fills_given_groups():
    preferred = (InstanceGroup(kind="KIND_GPU", gpus=(1,), count=2),)
    found = normalise(
        config("instance_group { kind: KIND_GPU }"), gpu_ids=(0, 1), preferred_groups=preferred
    )
    assert found.instance_group[0].gpus == (1,)
    assert found.instance_group[0].count == 2


def test_ensembles_get_neither_instance_groups_nor_memory_settings():
    found = normalise(config('platform: "ensemble" ensemble_scheduling {}'), gpu_ids=(0,))
    assert found.instance_group == ()
    assert found == normalise_defaults(found)
    assert b"optimization" not in found.message


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("max_batch_size: 8 dynamic_batching {}", (8,)),
        ("max_batch_size: 8 dynamic_batching { preferred_batch_size: 2 }", (2,)),
        ("dynamic_batching {}", ()),
    ],
)
def test_preferred_batch_size_defaults_to_the_largest(text: str, expected: tuple):
    batching = normalise_defaults(config(text)).dynamic_batching
    assert batching is not None
    assert batching.preferred_batch_size == expected


def test_sequence_defaults_are_filled_in():
    sequence = normalise_defaults(
        config("max_batch_size: 4 sequence_batching { oldest {} }")
    ).sequence_batching
    assert sequence is not None
    assert sequence.max_sequence_idle_us == 1_000_000
    assert sequence.preferred_batch_size == (4,)


def test_instance_groups_and_version_policy_change_in_place():
    old = config("max_batch_size: 4")
    moved = config("max_batch_size: 4 instance_group { count: 3 } version_policy { all {} }")
    assert not change_requires_reload(old, moved)
    assert change_requires_reload(old, config("max_batch_size: 5"))


def test_groups_and_policy_are_taken_over_whole_and_nothing_else():
    old = config("max_batch_size: 4 instance_group { count: 1 }")
    groups = "instance_group { count: 3 passive: true secondary_devices { device_id: 7 } }"
    newer = config(f"max_batch_size: 5 {groups} version_policy {{ all {{}} }}")
    taken = with_groups_of(old, newer)
    assert taken == config(f"max_batch_size: 4 {groups} version_policy {{ all {{}} }}")
    assert taken.instance_group[0].secondary_devices == (("KIND_NVDLA", 7),)
    assert with_groups_of(taken, newer) is taken


@settings(max_examples=examples(30), deadline=None)
@given(
    kinds=st.lists(
        st.sampled_from(["KIND_AUTO", "KIND_CPU", "KIND_GPU", "KIND_MODEL"]), max_size=3
    ),
    max_batch_size=st.integers(0, 8),
    batcher=st.sampled_from(["", "dynamic_batching {}", "sequence_batching { oldest {} }"]),
    gpu_ids=st.sets(st.integers(0, 3)),
)
def test_normalising_twice_changes_nothing(
    kinds: list[str], max_batch_size: int, batcher: str, gpu_ids: set[int]
):
    groups = " ".join(f"instance_group {{ kind: {kind} }}" for kind in kinds)
    once = normalise(
        config(f"max_batch_size: {max_batch_size} {batcher} {groups}"), gpu_ids=sorted(gpu_ids)
    )
    assert normalise(once, gpu_ids=sorted(gpu_ids)) == once
