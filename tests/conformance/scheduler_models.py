# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""The models of Triton's scheduler tests, as models of our own, by title of variant and name.

The variants are those that the test.sh files make of one repository with sed.
"""

from typing import Final

from tests.conformance.example_models import EXTRAS, REPOSITORY, ExampleModel
from tests.conformance.scheduler_sources import (
    COUNTS,
    PLAIN_SEQUENCE,
    SUMS_BY_ID,
    SUMS_BY_SLOT,
    UNEQUAL,
)

_ADD_SUB: Final = next(each for each in REPOSITORY + EXTRAS if each.name == "simple").source


def tensor(kind: str, name: str, datatype: str, dim: int, more: str = "") -> str:
    """Return a line of config.pbtxt."""
    return f'{kind} {{ name: "{name}" data_type: TYPE_{datatype} dims: [ {dim} ] {more} }}'


def _group(count: int) -> str:
    return f"instance_group {{ kind: KIND_CPU count: {count} }}"


def _lines(*lines: str) -> str:
    return "\n".join(lines)


def _batcher(dim: int, batching: str) -> ExampleModel:
    """Return the model of most of L0_batcher."""
    return ExampleModel(
        "python_float32_float32_float32",
        _lines(
            "max_batch_size: 8",
            "version_policy: { specific { versions: [1] }}",
            *(tensor("input", f"INPUT{index}", "FP32", dim) for index in (0, 1)),
            *(tensor("output", f"OUTPUT{index}", "FP32", dim) for index in (0, 1)),
            f"dynamic_batching {{ {batching} }}",
            _group(1),
        ),
        _ADD_SUB,
    )


def _identity(size: int, batching: str, *more: str, ragged: bool = False) -> ExampleModel:
    """Return an identity model under the name of upstream's custom one."""
    allowed = "allow_ragged_batch: true" if ragged else ""
    return ExampleModel(
        "custom_zero_1_float32",
        _lines(
            f"max_batch_size: {size}",
            tensor("input", "INPUT0", "FP32", -1, allowed),
            tensor("output", "OUTPUT0", "FP32", -1),
            f"dynamic_batching {{ {batching} }}",
            *(more or [_group(1)]),
        ),
        backend="identity",
    )


def _unequal(preserve: str) -> ExampleModel:
    """Return a model of two instances of different speed."""
    return ExampleModel(
        "custom_zero_1_float32",
        _lines(
            "max_batch_size: 4",
            tensor("input", "INPUT0", "FP32", -1),
            tensor("output", "OUTPUT0", "FP32", -1),
            f"dynamic_batching {{ preferred_batch_size: [ 4 ] preserve_ordering: {preserve} }}",
            _group(2),
        ),
        UNEQUAL,
    )


def _delay(delay_ms: int) -> str:
    return f'parameters {{ key: "execute_delay_ms" value: {{ string_value: "{delay_ms}" }} }}'


_HELD: Final = "preferred_batch_size: [ 2, 6 ] max_queue_delay_microseconds: 10000000"
_FLAGS: Final = "int32_false_true: [ 0, 1 ]"
_BOOLS: Final = "bool_false_true: [ false, true ]"


def _control(kind: str, how: str) -> str:
    return f'control_input {{ name: "{kind}" control {{ kind: CONTROL_SEQUENCE_{kind} {how} }} }}'


def _sequence(
    name: str,
    size: int,
    instances: int,
    *strategy: str,
    dim: int = 1,
    source: str = PLAIN_SEQUENCE,
    ragged: bool = False,
) -> ExampleModel:
    flags = _BOOLS if "bool" in name else _FLAGS
    return ExampleModel(
        name,
        _lines(
            f"max_batch_size: {size}",
            tensor("input", "INPUT", "INT32", dim, "allow_ragged_batch: true" if ragged else ""),
            tensor("output", "OUTPUT", "INT32", dim),
            "sequence_batching { max_sequence_idle_microseconds: 5000000",
            *strategy,
            _control("START", flags),
            _control("READY", flags),
            "}",
            _group(instances),
        ),
        source,
    )


def _custom_sequence(
    size: int, instances: int, *strategy: str, suffix: str = "", ragged: bool = False
) -> ExampleModel:
    name = f"custom_sequence_int32{suffix}"
    return _sequence(name, size, instances, *strategy, dim=-1, source=SUMS_BY_SLOT, ragged=ragged)


def _python_sequences(
    size: int, instances: int, dim: int = 1, prefix: str = "python"
) -> list[ExampleModel]:
    numbers, flags = (
        _sequence(f"{prefix}_sequence_{kind}", size, instances, dim=dim)
        for kind in ("int32", "bool")
    )
    return [numbers, flags, _nop(), *_ensembles(numbers, size, dim)]


_NOP: Final = "nop_TYPE_INT32_-1"


def _nop() -> ExampleModel:
    """Return the model that upstream puts before and behind the others of an ensemble."""
    return ExampleModel(
        _NOP,
        _lines(
            "max_batch_size: 1024",
            *(tensor("input", f"INPUT{index}", "INT32", -1) for index in (0, 1)),
            *(tensor("output", f"OUTPUT{index}", "INT32", -1) for index in (0, 1)),
            _group(1),
        ),
        backend="identity",
    )


def _mapped(kind: str, key: str, value: str) -> str:
    return f'{kind}_map {{ key: "{key}" value: "{value}" }}'


def _nop_step(given: str, made: str) -> str:
    maps = [_mapped("input", f"INPUT{index}", given) for index in (0, 1)]
    return _lines(
        f'step {{ model_name: "{_NOP}" model_version: -1',
        *maps,
        _mapped("output", "OUTPUT0", made),
        "}",
    )


def _ensembles(base: ExampleModel, size: int, dim: int) -> list[ExampleModel]:
    """Return the three ensembles of a sequence model: alone, behind a nop, and between two."""

    def step(given: str, made: str) -> str:
        maps = (_mapped("input", "INPUT", given), _mapped("output", "OUTPUT", made))
        return _lines(f'step {{ model_name: "{base.name}" model_version: -1', *maps, "}")

    before, behind = _nop_step("INPUT", "same_input"), _nop_step("same_output", "OUTPUT")
    steps = {
        "simple": [step("INPUT", "OUTPUT")],
        "sequence": [before, step("same_input", "OUTPUT")],
        "fan": [before, step("same_input", "same_output"), behind],
    }
    return [
        ExampleModel(
            f"{kind}_{base.name}",
            _lines(
                f"max_batch_size: {size}",
                tensor("input", "INPUT", "INT32", dim),
                tensor("output", "OUTPUT", "INT32", dim),
                "ensemble_scheduling {",
                *each,
                "}",
            ),
            backend="ensemble",
        )
        for kind, each in steps.items()
    ]


def _waiting(utilization: str) -> str:
    return (
        "direct { max_queue_delay_microseconds: 3000000 "
        f"minimum_slot_utilization: {utilization} }}"
    )


def _dynamic_sequence(
    name: str, id_type: str, candidates: int, delay_us: int, *, ragged: bool = False
) -> ExampleModel:
    return ExampleModel(
        name,
        _lines(
            "max_batch_size: 8",
            tensor("input", "INPUT", "INT32", -1, "allow_ragged_batch: true" if ragged else ""),
            tensor("output", "OUTPUT", "INT32", -1),
            "sequence_batching { max_sequence_idle_microseconds: 5000000",
            f"oldest {{ max_candidate_sequences: {candidates} preferred_batch_size: [ 4 ]",
            f"max_queue_delay_microseconds: {delay_us} }}",
            *(_control(kind, _FLAGS) for kind in ("START", "END", "READY")),
            _control("CORRID", f"data_type: TYPE_{id_type}"),
            "}",
            _group(1),
        ),
        SUMS_BY_ID,
    )


def _dynamic_sequences(candidates: int, delay_us: int) -> list[ExampleModel]:
    return [
        _dynamic_sequence("custom_dyna_sequence_int32", "UINT64", candidates, delay_us),
        _dynamic_sequence("custom_string_dyna_sequence_int32", "STRING", candidates, delay_us),
    ]


def _counting(name: str, preserve: str) -> ExampleModel:
    return ExampleModel(
        name,
        _lines(
            "max_batch_size: 4",
            tensor("input", "INPUT0", "INT32", 1),
            tensor("output", "OUTPUT0", "INT32", 1),
            "sequence_batching { oldest { max_candidate_sequences: 4",
            f"max_queue_delay_microseconds: 1000000 preserve_ordering: {preserve} }}",
            "max_sequence_idle_microseconds: 10000000 }",
        ),
        COUNTS,
    )


_TIMEOUT: Final = ExampleModel(
    "custom_sequence_int32_timeout",
    _lines(
        "max_batch_size: 1",
        tensor("input", "INPUT0", "INT32", 1),
        tensor("output", "OUTPUT0", "INT32", 1),
        _group(1),
        "sequence_batching { max_sequence_idle_microseconds: 50000000 }",
        _delay(5000),
    ),
    backend="identity",
)
_PROMPT: Final = ExampleModel(
    "dynamic_batch",
    _lines(
        "max_batch_size: 1",
        tensor("input", "INPUT0", "FP32", -1),
        tensor("output", "OUTPUT0", "FP32", -1),
        _group(1),
        "dynamic_batching { preferred_batch_size: [ 1 ] default_queue_policy {",
        "timeout_action: REJECT default_timeout_microseconds: 1000000 max_queue_size: 8 } }",
        _delay(8000),
    ),
    backend="identity",
)

VARIANTS: Final[dict[str, list[ExampleModel]]] = {
    "batcher fixed": [_batcher(16, _HELD)],
    "batcher variable": [_batcher(-1, _HELD), _identity(8, _HELD, ragged=True)],
    "batcher preferred": [_batcher(16, "preferred_batch_size: [ 4, 6 ]")],
    "batcher delay": [_identity(100, "max_queue_delay_microseconds: 0", _group(1), _delay(100))],
    "batcher order": [_unequal("true")],
    "batcher no order": [_unequal("false")],
    "batcher timeout": [_PROMPT],
    "sequence 0": _python_sequences(0, 4, prefix="python_nobatch"),
    **{
        f"sequence {count}": [
            *_python_sequences(4 // count, count),
            _custom_sequence(4 // count, count),
        ]
        for count in (1, 2, 4)
    },
    # Upstream has cases of shapes that differ for this backend, though not for Python.
    "sequence v": _python_sequences(4, 1, dim=-1, prefix="onnx"),
    "sequence ragged": [_custom_sequence(8, 1, ragged=True)],
    "sequence delay": [
        model
        for suffix, utilization in (("", "0"), ("_half", "0.5"), ("_full", "1"))
        for model in (
            _custom_sequence(4, 1, _waiting(utilization), suffix=suffix),
            *(
                _sequence(f"python_sequence_{kind}{suffix}", 4, 1, _waiting(utilization))
                for kind in ("int32", "bool")
            ),
        )
    ],
    "sequence timeout": [_TIMEOUT],
    "sequence order": [
        _counting("seqpy_preserve_ordering_nondecoupled", "true"),
        _counting("seqpy_no_preserve_ordering_nondecoupled", "false"),
    ],
    "dyna": _dynamic_sequences(6, 0),
    "dyna delay": _dynamic_sequences(4, 5000000),
    "dyna ragged": [
        _dynamic_sequence("custom_dyna_sequence_int32", "UINT64", 4, 5000000, ragged=True)
    ],
}
# As upstream_models.MODELS has them: by variant and name.
MODELS: Final = {
    f"{variant}: {model.name}": model for variant, models in VARIANTS.items() for model in models
}
