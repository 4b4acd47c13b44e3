# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
import json
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tritonclient.grpc import model_config_pb2

from backends.api.errors import InternalError, InvalidArgumentError
from backends.api.model_config import InitialState, RateLimiterResource, SequenceControl
from backends.config.normalisation import infer_backend, normalise
from backends.config.pbtxt import (
    MAX_CONFIG_BYTES,
    edit,
    empty_config,
    from_json,
    from_message,
    parse_pbtxt,
    to_json,
    to_json_dict,
    to_message,
    to_pbtxt,
)
from tests.support.examples import examples

RENDERED = Path(__file__).parent / "rendered"


def read(name: str):
    path = RENDERED / f"{name}.pbtxt"
    return parse_pbtxt(path.read_text(), str(path))


@pytest.mark.parametrize("name", ["every_field", "sequence_oldest", "sequence_direct"])
def test_json_is_what_triton_renders(name: str):
    config = read(name)
    named = edit(config, lambda message: setattr(message, "name", name))
    complete = normalise(infer_backend(named, {"model.py": False}), gpu_ids=())
    assert to_json_dict(complete) == json.loads((RENDERED / f"{name}.json").read_text())


def test_json_fields_come_in_schema_order():
    rendered = to_json_dict(read("every_field"))
    schema = [field.name for field in model_config_pb2.ModelConfig.DESCRIPTOR.fields]
    assert list(rendered) == [name for name in schema if name in rendered]
    assert list(rendered["dynamic_batching"]["priority_queue_policy"]) == ["1", "2"]


def test_64_bit_fields_outside_tritons_list_stay_strings():
    rendered = to_json_dict(read("every_field"))
    assert rendered["instance_group"][0]["secondary_devices"][0]["device_id"] == "3"
    assert rendered["optimization"]["cuda"]["graph_spec"][0]["input"]["A"]["dim"] == ["3", "4"]


def test_json_reads_back():
    config = read("every_field")
    assert from_json(to_json(config)).message == config.message


def test_typed_fields_are_views_of_the_message():
    config = read("every_field")
    assert config.max_batch_size == 8
    assert config.input[0].dims == (3, -1)
    assert config.input[0].reshape == (1, 3, -1)
    assert config.input[1].reshape == ()
    assert config.output[0].reshape is None
    assert config.version_policy.versions == (1, 3)
    assert config.instance_group[0].resources == (RateLimiterResource("r", 2, is_global=True),)
    assert config.instance_group[1].passive
    assert config.dynamic_batching is not None
    assert config.dynamic_batching.max_queue_delay_us == 5_000_000_000
    assert config.dynamic_batching.default_queue_policy.timeout_action == "DELAY"
    assert list(config.dynamic_batching.priority_queue_policy) == [1, 2]
    assert config.parameters == {"zeta": '1/2"é', "alpha": ""}
    assert [sample.count for sample in config.warmup] == [1]
    assert [tensor.name for tensor in config.warmup[0].inputs] == ["A", "B"]
    assert config.batch_input[0].source_inputs == ("B",)
    assert config.batch_output[0].kind == "BATCH_SCATTER_WITH_INPUT_SHAPE"


def test_sequence_batching_is_viewed():
    sequence = read("sequence_oldest").sequence_batching
    assert sequence is not None
    assert sequence.strategy == "oldest"
    assert sequence.max_candidate_sequences == 7
    assert sequence.controls[0].datatype == "FP32"
    assert sequence.controls[0].true_value == pytest.approx(0.1)
    assert sequence.controls[1] == SequenceControl("C", "CONTROL_SEQUENCE_CORRID", "UINT64")
    assert sequence.states[0].initial_state == InitialState("i", "FP32", (2,), zero_data=True)


def test_sequence_batching_without_strategy_is_direct():
    config = parse_pbtxt("sequence_batching { }", "p")
    assert config.sequence_batching is not None
    assert config.sequence_batching.strategy == "direct"
    assert config.has_sequence_batching


def test_ensemble_steps_are_viewed():
    config = parse_pbtxt(
        'ensemble_scheduling { step { model_name: "a" model_version: -1 input_map { key: "I"'
        ' value: "X" } output_map { key: "O" value: "Y" } } max_inflight_requests: 3 }',
        "p",
    )
    (step,) = config.ensemble_steps
    assert (step.model_name, step.model_version) == ("a", -1)
    assert (step.input_map, step.output_map) == ({"I": "X"}, {"O": "Y"})
    assert config.max_inflight_requests == 3


def test_datatype_not_given_is_empty():
    assert parse_pbtxt('input { name: "a" }', "p").input[0].datatype == ""


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            'name: "m"\nmax_batch_siz: 3',
            "line 2, column 1, at '>>>max_batch_siz: 3': Message type \"inference.ModelConfig\" "
            "has no field named \"max_batch_siz\", did you mean 'max_batch_size'?",
        ),
        ("input { data_type: TYPE_FP3 }", "did you mean 'TYPE_FP32'?"),
        ("input { data_type: TYPE_FLOAT }", "did you mean 'TYPE_FP32'?"),
        ("instance_group { kind: KIND_CPUU }", "did you mean 'KIND_CPU'?"),
        ("dynamic_batching { max_queue_delay: 3 }", "did you mean 'max_queue_delay_microseconds'?"),
        ("max_batch_size: x", "line 1, column 17, at 'max_batch_size: >>>x': Couldn't parse"),
        ("input { dims: [ " + "9" * 40 + " ] }", "Value out of range: 999"),
        ('input [ { name: "a" } { } ]', 'Expected ","'),
        ("dynamic_batching {} sequence_batching {}", 'another member of oneof "scheduling_choice"'),
        ("qqqq: 1", 'has no field named "qqqq"'),
    ],
)
def test_text_that_does_not_parse_is_pointed_at(text: str, expected: str):
    with pytest.raises(InternalError) as caught:
        parse_pbtxt(text, "/r/m/config.pbtxt")
    assert caught.value.message.startswith("failed to read text proto from /r/m/config.pbtxt: ")
    assert expected in caught.value.message
    assert "\n" not in caught.value.message


def test_a_long_line_is_shortened_around_the_pointer():
    with pytest.raises(InternalError) as caught:
        parse_pbtxt(f'name: "{"x" * 5000}" nope: 1 platform: "{"y" * 5000}"', "p")
    assert ">>>nope" in caught.value.message
    assert len(caught.value.message) < 500


def test_oversized_configs_are_refused():
    with pytest.raises(InternalError, match="at most"):
        parse_pbtxt("#" * (MAX_CONFIG_BYTES + 1), "p")
    with pytest.raises(InvalidArgumentError, match="at most"):
        from_json(" " * (MAX_CONFIG_BYTES + 1))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("{", "Expecting property name"),
        ("[]", "expected a JSON object, got list"),
        ('{"max_batch_sise": 1}', "did you mean 'max_batch_size'?"),
        ('{"input": [{"data_type": "type_fp33"}]}', "did you mean 'TYPE_FP32'?"),
        ('{"input": {}}', "repeated field input must be in []"),
        ('{"max_batch_size": "x"}', "invalid literal"),
        ("[" * 100_000, "recursion"),
    ],
)
def test_json_that_is_no_config_is_an_invalid_override(text: str, expected: str):
    with pytest.raises(InvalidArgumentError) as caught:
        from_json(text)
    assert caught.value.message.startswith("Invalid config override: ")
    assert expected in caught.value.message
    assert "\n" not in caught.value.message


def test_json_enum_names_are_read_in_any_case():
    config = from_json(
        '{"input": [{"name": "a", "data_type": "Type_Fp32", "dims": ["3", 4]}],'
        ' "optimization": {"priority": "priority_max"}, "instanceGroup": [{"kind": "kind_cpu"}],'
        ' "model_warmup": [{"inputs": {"a": {"data_type": "type_int8"}}}],'
        ' "parameters": {"kind_cpu": {"string_value": "kind_cpu"}}}'
    )
    assert config.input[0].datatype == "FP32"
    assert config.input[0].dims == (3, 4)
    assert config.instance_group[0].kind == "KIND_CPU"
    assert config.warmup[0].inputs[0].datatype == "INT8"
    assert config.parameters == {"kind_cpu": "kind_cpu"}


def test_edit_leaves_the_original_alone():
    config = empty_config("m")
    changed = edit(config, lambda message: setattr(message, "max_batch_size", 4))
    assert (config.max_batch_size, changed.max_batch_size) == (0, 4)
    assert to_message(changed).max_batch_size == 4


def test_bytes_that_are_no_message_are_refused():
    with pytest.raises(InternalError, match="failed to parse serialised model configuration"):
        from_message(b"\xff\xff")


NAMES = st.text("abcxyz_09", min_size=1, max_size=8)
TENSORS = st.fixed_dictionaries(
    {
        "name": NAMES,
        "data_type": st.sampled_from(["TYPE_FP32", "TYPE_STRING", "TYPE_BF16"]),
        "dims": st.lists(st.integers(-1, 2**40), max_size=4),
    }
)
CONFIGS = st.fixed_dictionaries(
    {"name": st.text(max_size=10), "max_batch_size": st.integers(0, 2**31 - 1)},
    optional={
        "input": st.lists(TENSORS, max_size=3),
        "output": st.lists(TENSORS, max_size=3),
        "parameters": st.dictionaries(
            NAMES, st.fixed_dictionaries({"string_value": st.text(max_size=10)}), max_size=3
        ),
        "version_policy": st.one_of(
            st.just({"all": {}}),
            st.builds(
                lambda versions: {"specific": {"versions": versions}},
                st.lists(st.integers(1, 2**60), max_size=3),
            ),
        ),
    },
)


@pytest.mark.slow
@settings(max_examples=examples(40), deadline=None)
@given(CONFIGS)
def test_text_json_and_message_forms_agree(tree: dict):
    config = from_json(json.dumps(tree))
    assert parse_pbtxt(to_pbtxt(config), "p") == config
    assert from_message(config.message) == config
    assert from_json(to_json(config)) == config
