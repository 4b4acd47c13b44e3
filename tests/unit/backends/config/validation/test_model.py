# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
import pytest

from backends.api.errors import InvalidArgumentError
from backends.config.normalisation import normalise
from backends.config.pbtxt import parse_pbtxt
from backends.config.validation.model import (
    validate,
    validate_before_auto_complete,
    validate_tensors,
)

INPUT = 'input { name: "input" data_type: TYPE_FP32 dims: [2] }'
OUTPUT = 'output { name: "OUTPUT" data_type: TYPE_FP32 dims: [2] }'
HEAD = 'name: "m" backend: "python"'


def complaint_of(text: str, gpu_ids: tuple[int, ...] = ()) -> str:
    config = normalise(parse_pbtxt(text, "p"), gpu_ids=gpu_ids)
    with pytest.raises(InvalidArgumentError) as caught:
        validate(config, gpu_ids=gpu_ids)
    return caught.value.message


def tensor(direction: str, rest: str) -> str:
    return f'{direction} {{ name: "{direction}" data_type: TYPE_FP32 {rest} }}'


def control(kind: str, rest: str, name: str = "C") -> str:
    return (
        f'sequence_batching {{ control_input {{ name: "{name}" control {{ '
        f"kind: CONTROL_SEQUENCE_{kind} {rest} }} }} }}"
    )


def two_controls(kind: str, other: str, first: str = "A", second: str = "B") -> str:
    rows = "".join(
        f'control_input {{ name: "{name}" control {{ kind: CONTROL_SEQUENCE_{one}'
        " int32_false_true: [0, 1] } } "
        for name, one in ((first, kind), (second, other))
    )
    return f"sequence_batching {{ {rows} }}"


def state(rest: str) -> str:
    return (
        'sequence_batching { state { input_name: "s" output_name: "o" data_type: TYPE_FP32 '
        f"dims: [2] {rest} }} }}"
    )


def batch_input(kind: str, sources: str, datatype: str = "TYPE_FP32") -> str:
    return (
        f'{INPUT} batch_input {{ kind: {kind} target_name: "t" data_type: {datatype} '
        f"source_input: [{sources}] }}"
    )


def batch_output(sources: str, targets: str = '"OUTPUT"') -> str:
    return (
        f"{INPUT} {OUTPUT} batch_output {{ kind: BATCH_SCATTER_WITH_INPUT_SHAPE "
        f"target_name: [{targets}] source_input: [{sources}] }}"
    )


ELEMENT_COUNT_KINDS = (
    "BATCH_ELEMENT_COUNT",
    "BATCH_ACCUMULATED_ELEMENT_COUNT",
    "BATCH_ACCUMULATED_ELEMENT_COUNT_WITH_ZERO",
    "BATCH_MAX_ELEMENT_COUNT_AS_SHAPE",
    "BATCH_ITEM_SHAPE",
    "BATCH_ITEM_SHAPE_FLATTEN",
)
IN = "model input 'input'"
OUT = "model output 'output'"
DIMENSION = "must be integer >= 1, or -1 to indicate a variable-size dimension for m"
SIZE = "has different size for dims and reshape for m"
VARIABLES = "has different number of variable-size dimensions for dims and reshape for m"
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
    ("text", "expected"),
    [
        (
            control("START", "int32_false_true: [0, 1]", name=""),
            "control tensor must have a name for m",
        ),
        (
            two_controls("START", "END", "START", "START"),
            "control tensor 'START' is specified for multiple control kinds for m",
        ),
        *(
            (two_controls(kind, kind), f"specifies multiple CONTROL_SEQUENCE_{kind} tensors for m")
            for kind in ("START", "END", "READY")
        ),
        (
            control("READY", ""),
            "must specify either 'int32_false_true', 'fp32_false_true' or 'bool_false_true' for "
            "CONTROL_SEQUENCE_READY for m",
        ),
        (
            control("READY", "int32_false_true: [0, 1] fp32_false_true: [0, 1]"),
            "specifies more than one from 'int32_false_true', 'fp32_false_true' and "
            "'bool_false_true' for CONTROL_SEQUENCE_READY for m",
        ),
        *(
            (
                control("END", f"{field}_false_true: [{value}]"),
                f"control '{field}_false_true' must have exactly 2 entries for "
                "CONTROL_SEQUENCE_END for m",
            )
            for field, value in (("int32", "0"), ("fp32", "0"), ("bool", "true"))
        ),
        (
            control("CORRID", "int32_false_true: [0, 1] data_type: TYPE_UINT64"),
            "must not specify either 'int32_false_true', 'fp32_false_true' or 'bool_false_true' "
            "for CONTROL_SEQUENCE_CORRID for m",
        ),
        (
            "sequence_batching { oldest { preferred_batch_size: 0 } }",
            "preferred batch size must be positive for m",
        ),
        (
            "sequence_batching { oldest { preferred_batch_size: 9 } }",
            "preferred batch size must be <= max batch size for m",
        ),
        (
            "sequence_batching { direct { minimum_slot_utilization: 1.5 } }",
            "minimum slot utilization must be in range (0.0, 1.0] for m",
        ),
    ],
)
def test_sequence_rule(text: str, expected: str):
    assert complaint_of(f"{HEAD} max_batch_size: 4 {text}") == f"sequence batching {expected}"


def test_correlation_id_has_its_own_datatypes():
    assert complaint_of(f"{HEAD} {control('CORRID', 'data_type: TYPE_FP32')}") == (
        "unexpected data type for control CONTROL_SEQUENCE_CORRID for m. Allowed data types are "
        "TYPE_UINT64, TYPE_INT64, TYPE_UINT32, TYPE_INT32 and TYPE_STRING"
    )


INITIAL = 'initial_state {{ name: "i" data_type: {0} dims: [{1}] {2} }}'


@pytest.mark.parametrize(
    ("rest", "expected"),
    [
        (
            INITIAL.format("TYPE_FP32", 2, "zero_data: true") * 2,
            "initial_state field for state input 's' must contain exactly one or zero element. "
            "Found '2' elements.",
        ),
        (
            INITIAL.format("TYPE_INT8", 2, "zero_data: true"),
            "The data type used for 'initial_state' field of state 's' does not match the state "
            "data type.",
        ),
        (
            "initial_state { data_type: TYPE_FP32 dims: [2] zero_data: true }",
            "Field 'name' must be set when using initial_state for state input 's'.",
        ),
        (
            INITIAL.format("TYPE_FP32", "2, 1", "zero_data: true"),
            "Number of dimensions in 'initial_state' doesn't match the size of 'state' dimensions "
            "for state input 's'. 2 != 1",
        ),
        (
            INITIAL.format("TYPE_FP32", "-1", "zero_data: true"),
            "'initial_state' field for state input name 's' contains variable dimensions.",
        ),
        (
            INITIAL.format("TYPE_FP32", 2, ""),
            "initial_state setting expects state's' to have state_data set",
        ),
        (
            "use_growable_memory: true",
            "In order to 'use_growable_memory', you must also enable 'use_single_buffer' for state "
            "input name 's'.",
        ),
    ],
)
def test_state_rule(rest: str, expected: str):
    assert complaint_of(f"{HEAD} {state(rest)}") == expected


def test_state_inputs_are_unique():
    twice = 'state { input_name: "s" output_name: "o" }' * 2
    assert complaint_of(f"{HEAD} sequence_batching {{ {twice} }}") == (
        "State input name 's' specified more than once."
    )


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("input { data_type: TYPE_FP32 dims: [1] }", "model input must specify 'name' for m"),
        ('input { name: "input" dims: [1] }', f"{IN} must specify 'data_type' for m"),
        (tensor("input", ""), f"{IN} must specify 'dims' for m"),
        (tensor("output", ""), f"{OUT} must specify 'dims' for m"),
        (tensor("input", "dims: [0]"), f"{IN} dimension {DIMENSION}"),
        (tensor("output", "dims: [-2]"), f"{OUT} dimension {DIMENSION}"),
        (
            tensor("input", "dims: [1] reshape {}"),
            f"{IN} cannot have empty reshape for non-batching model as scalar tensors are not "
            "supported for m",
        ),
        (
            tensor("input", "dims: [1] reshape { shape: [0] }"),
            f"{IN} reshape dimensions {DIMENSION}",
        ),
        (tensor("input", "dims: [4] reshape { shape: [2, 3] }"), f"{IN} {SIZE}"),
        (tensor("output", "dims: [4] reshape { shape: [-1] }"), f"{OUT} {SIZE}"),
        (tensor("input", "dims: [2, -1] reshape { shape: [-1, 2] }"), f"{IN} {SIZE}"),
        (tensor("output", "dims: [-1] reshape { shape: [-1, -1] }"), f"{OUT} {VARIABLES}"),
        (
            tensor("input", "dims: [2] format: FORMAT_NHWC"),
            "model input NHWC/NCHW require 3 dims for m",
        ),
        (
            tensor("input", "dims: [2] is_shape_tensor: true"),
            "shape tensors are only supported for TensorRT platform for m",
        ),
        (
            tensor("output", "dims: [2] is_non_linear_format_io: true"),
            "Non-linear IO format is only supported for the TensorRT platform for m",
        ),
        *(
            (
                batch_input(kind, ""),
                f"batch input kind '{kind}' expects 1 source input, got 0 for m",
            )
            for kind in ELEMENT_COUNT_KINDS
        ),
        *(
            (
                batch_input(kind, '"input", "input"'),
                f"batch input kind '{kind}' expects 1 source input, got 2 for m",
            )
            for kind in ELEMENT_COUNT_KINDS
        ),
        (
            batch_input("BATCH_ELEMENT_COUNT", '"input"', "TYPE_INT64"),
            "batch input data type must be TYPE_INT32 or TYPE_FP32 for m",
        ),
        (
            batch_input("BATCH_ELEMENT_COUNT", '"UNKNOWN_INPUT"'),
            "unknown source input name 'UNKNOWN_INPUT' for m",
        ),
        (
            batch_output(""),
            "batch output kind 'BATCH_SCATTER_WITH_INPUT_SHAPE' expects 1 source input, got 0 "
            "for m",
        ),
        (batch_output('"UNKNOWN_INPUT"'), "unknown source input name 'UNKNOWN_INPUT' for m"),
        (
            batch_output('"input"', '"UNKNOWN_OUTPUT"'),
            "unknown target output name 'UNKNOWN_OUTPUT' for m",
        ),
        (
            batch_output('"input"', '"OUTPUT", "OUTPUT"'),
            "target output name 'OUTPUT' can only be specified once for m",
        ),
    ],
)
def test_tensor_rule(text: str, expected: str):
    assert complaint_of(f"{HEAD} {text}") == expected


def test_tensors_are_left_to_auto_complete_at_first():
    config = normalise(parse_pbtxt(f"{HEAD} {tensor('input', '')}", "p"), gpu_ids=())
    validate_before_auto_complete(config)
    with pytest.raises(InvalidArgumentError):
        validate_tensors(config)


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
