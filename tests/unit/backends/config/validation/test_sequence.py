# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
import pytest

from tests.support.config_texts import HEAD, complaint_of, control


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
