# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""A setting becomes the config of a variant."""

import json

import pytest

from backends.api.errors import InvalidArgumentError
from backends.config.pbtxt import from_json, parse_pbtxt
from manta_tools.analyze.records import Candidate, Setting
from manta_tools.analyze.space.variants import VariantNames, config_text, load_config, variant
from tests.support.analyzed_servers import config_of

BATCHED = """
max_batch_size: 8 backend: "onnxruntime"
dynamic_batching { preferred_batch_size: [4, 8] max_queue_delay_microseconds: 7 }
instance_group [ { kind: KIND_CPU count: 1 }, { kind: KIND_GPU count: 1 gpus: [0] } ]
model_warmup { name: "w" batch_size: 8 }
parameters { key: "placement.strategy" value { string_value: "pack" } }
"""


def made(*values, text=BATCHED, **named):
    return variant(config_of("m", text), Setting("m", values), **named)


def test_a_smaller_batch_takes_preferred_sizes_and_warm_up_with_it():
    config = made(("max_batch_size", 2))
    assert config.dynamic_batching.preferred_batch_size == ()
    assert config.dynamic_batching.max_queue_delay_us == 7
    assert config.warmup[0].batch_size == 2


def test_preferred_sizes_of_the_setting_stay():
    config = made(
        ("dynamic_batching.preferred_batch_size.0", 2),
        ("dynamic_batching.preferred_batch_size.1", 4),
        ("max_batch_size", 4),
    )
    assert config.dynamic_batching.preferred_batch_size == (2, 4)


def test_instances_are_those_of_every_group():
    config = made(("instance_group.count", 3))
    assert [(each.count, each.kind) for each in config.instance_group] == [
        (3, "KIND_CPU"), (3, "KIND_GPU")]  # fmt: skip


def test_groups_that_are_given_by_number_replace_all():
    config = made(("instance_group.0.count", 2), ("instance_group.0.kind", "KIND_CPU"))
    assert [(each.count, each.kind) for each in config.instance_group] == [(2, "KIND_CPU")]


def test_a_model_without_groups_gets_one():
    config = made(("instance_group.count", 3), text='backend: "python"')
    assert [each.count for each in config.instance_group] == [3]


def test_a_batcher_may_be_switched_on_and_off():
    assert made(("dynamic_batching", True), text="max_batch_size: 2").dynamic_batching is not None
    assert made(("dynamic_batching", False)).dynamic_batching is None


def test_parameters_are_texts_and_may_have_points_in_their_names():
    config = made(
        ("parameters.placement.strategy", "spread"),
        ("parameters.ray_num_gpus", 0.25),
        ("parameters.threads", 2),
    )
    assert dict(config.parameters) == {
        "placement.strategy": "spread", "ray_num_gpus": "0.25", "threads": "2"}  # fmt: skip


def test_a_step_of_an_ensemble_may_be_a_variant():
    text = 'platform: "ensemble" ensemble_scheduling { step { model_name: "a" } }'
    config = made(text=text, name="e_config_0", steps={"a": "a_config_2"})
    assert (config.name, config.ensemble_steps[0].model_name) == ("e_config_0", "a_config_2")


def test_an_empty_setting_changes_nothing():
    assert made() == config_of("m", BATCHED)


def test_a_variant_is_read_back_from_both_of_its_forms():
    config = made(("instance_group.count", 3), ("max_batch_size", 4))
    assert parse_pbtxt(config_text(config), "x") == config
    assert from_json(load_config(config)) == config
    assert json.loads(load_config(config))["max_batch_size"] == 4


@pytest.mark.parametrize(
    ("field", "value", "expected"),
    [
        ("max_batch_sise", 1, "did you mean 'max_batch_size'"),
        ("dynamic_batching.max_queue_delay", 1, "max_queue_delay_microseconds"),
        ("max_batch_size", "many", "'max_batch_size' of model 'm'"),
        ("instance_group.kind", "KIND_TPU", "KIND_CPU"),
        ("dynamic_batching", 3, "expected true, false or fields of it"),
    ],
)
def test_a_field_that_is_none_is_named(field, value, expected):
    with pytest.raises(InvalidArgumentError, match=expected):
        made((field, value))


def test_names_follow_the_order_of_asking():
    names = VariantNames()
    one, two = Setting("m", (("max_batch_size", 1),)), Setting("m", (("max_batch_size", 2),))
    named = [names.names(Candidate((each,)))["m"] for each in (two, one, two, Setting("m"))]
    assert named == ["m_config_0", "m_config_1", "m_config_0", "m_config_default"]
    assert names.names(Candidate((Setting("b"), one))) == {
        "b": "b_config_default", "m": "m_config_1"}  # fmt: skip


def test_a_model_that_calls_others_has_another_name_with_each_of_their_variants():
    names = VariantNames({"top": ("middle",), "middle": ("leaf",)})

    def named(count):
        values = (("instance_group.count", count),) if count else ()
        return names.names(Candidate((Setting("leaf", values), Setting("middle"), Setting("top"))))

    assert set(named(0).values()) == {
        "leaf_config_default", "middle_config_default", "top_config_default"}  # fmt: skip
    for number, count in enumerate((2, 3)):
        assert set(named(count).values()) == {
            f"leaf_config_{number}", f"middle_config_{number}", f"top_config_{number}"}  # fmt: skip
    assert named(2)["top"] == "top_config_0"
