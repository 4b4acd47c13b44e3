# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Triton's tests of its schedulers: which cases run against which models, instances and holds.

Instances, holds, ensembles and configs are those of the test.sh files. A case runs over stand-ins
for its Python and custom models. Upstream repeats the cases with implicit states and with shared
memory, which have tests of their own.
"""

from dataclasses import replace
from typing import Final

from tests.conformance.scheduler_models import VARIANTS
from tests.conformance.upstream_suites import EXPLICIT, Suite

_HOLD: Final = "TRITONSERVER_DELAY_SCHEDULER"
_BACKLOG_HOLD: Final = "TRITONSERVER_BACKLOG_DELAY_SCHEDULER"


def _suite(
    title: str,
    program: str,
    variant: str,
    test_class: str,
    cases: tuple[str, ...],
    environment: dict[str, str],
    holds: dict[str, int] | None = None,
) -> Suite:
    return Suite(
        title,
        program,
        tuple(f"{variant}: {model.name}" for model in VARIANTS[variant]),
        EXPLICIT,
        tuple(f"{test_class}.test_{case}" for case in cases),
        anew="models",
        environment=tuple(environment.items()),
        server_environment=tuple((name, str(count)) for name, count in (holds or {}).items()),
    )


def _batcher(
    title: str, variant: str, cases: tuple[str, ...], held: int = 0, kind: str = "FIXED"
) -> Suite:
    return _suite(
        f"L0_batcher, {title}",
        "L0_batcher/batcher_test.py",
        variant,
        "BatcherTest",
        cases,
        {"BACKENDS": "python", "BATCHER_TYPE": kind},
        {_HOLD: held} if held else {},
    )


_AT_ONCE: Final = (
    "static_batch_preferred",
    "static_batch_lt_any_preferred",
    "static_batch_not_preferred",
    "static_batch_gt_max_preferred",
    "multi_batch_not_preferred",
    "multi_batch_gt_max_preferred",
    "multi_batch_sum_gt_max_preferred",
    "multi_same_output0",
    "multi_same_output1",
    "multi_different_outputs",
    "multi_different_output_order",
)
_BEST: Final = ("multi_batch_use_best_preferred", "multi_batch_delayed_use_max_batch")
_SHAPES: Final = tuple(
    f"multi_batch_{case}"
    for case in (
        "not_preferred_different_shape",
        "preferred_different_shape",
        "different_shape_allow_ragged",
        "different_shape",
    )
)

_TRACED: Final = ("--trace-level=MIN", "--trace-rate=1")


def _ordered(title: str, *preserve: str) -> Suite:
    """Return a suite whose order of responses is read from the server's traces."""
    suite = _batcher(title, f"batcher {title}", ("multi_batch_preserve_ordering",), 12)
    verifier = ("L0_batcher/verify_timestamps.py", *preserve)
    return replace(suite, flags=suite.flags + _TRACED, verifier=verifier)


_BATCHER: Final = (
    *(
        suite
        for kind in ("fixed", "variable")
        for suite in (
            _batcher(kind, f"batcher {kind}", _AT_ONCE, kind=kind.upper()),
            *(
                _batcher(f"{kind}, held {held}", f"batcher {kind}", cases, held, kind.upper())
                for held, cases in (
                    (2, ("multi_batch_delayed_sum_gt_max_preferred",)),
                    (3, _BEST),
                    (6, ("multi_batch_use_biggest_preferred",)),
                )
            ),
        )
    ),
    _batcher("shapes", "batcher variable", _SHAPES, kind="VARIABLE"),
    _batcher(
        "shapes, held 4",
        "batcher variable",
        ("multi_batch_delayed_preferred_different_shape",),
        4,
        "VARIABLE",
    ),
    *(
        _batcher(
            f"preferred only, held {held}",
            "batcher preferred",
            (f"preferred_batch_only_{case}",),
            held,
        )
        for held, case in (
            (4, "aligned"),
            (5, "unaligned"),
            (7, "use_biggest_preferred"),
            (3, "use_no_preferred_size"),
        )
    ),
    _batcher(
        "delay only",
        "batcher delay",
        ("max_queue_delay_only_default", "max_queue_delay_only_non_default"),
    ),
    _ordered("order", "-p"),
    _ordered("no order"),
    _suite(
        "L0_batcher, timeout",
        "L0_batcher/queue_timeout_test.py",
        "batcher timeout",
        "TestMaxQueueDelayTimeout",
        ("default_queue_policy_timeout_prompt_response",),
        {},
    ),
)

# Held requests of a sequence, held sequences of the backlog, and the cases of both.
_SEQUENCE_HOLDS: Final = (
    (
        0,
        0,
        (
            "simple_sequence",
            "length1_sequence",
            "batch_size",
            "no_sequence_start",
            "no_sequence_start2",
            "no_sequence_end",
            "no_correlation_id",
        ),
    ),
    (12, 0, ("skip_batch", "full_batch", "ragged_batch", "backlog")),
    (8, 0, ("half_batch",)),
    (4, 0, ("backlog_sequence_timeout",)),
    (10, 2, ("backlog_fill",)),
    (10, 3, ("backlog_fill_no_end",)),
    (12, 2, ("backlog_same_correlation_id",)),
    (16, 0, ("backlog_same_correlation_id_no_end",)),
)
# Cases that return at once for more instances.
_OF_ONE_INSTANCE: Final = {
    "ragged_batch",
    "backlog_fill",
    "backlog_fill_no_end",
    "backlog_same_correlation_id_no_end",
    "backlog_sequence_timeout",
}


def _sequence_suite(
    title: str,
    variant: str,
    cases: tuple[str, ...],
    environment: dict[str, str],
    held: tuple[int, int] | None,
    test_class: str = "SequenceBatcherTest",
) -> Suite:
    settings = {
        "BACKENDS": "custom",
        "ENSEMBLES": "0",
        "IMPLICIT_STATE": "0",
        "INITIAL_STATE_FILE": "0",
        "NO_BATCHING": "0",
        "MODEL_INSTANCES": "1",
        "BATCHER_TYPE": "FIXED",
    }
    return _suite(
        f"L0_sequence_batcher, {title}",
        "L0_sequence_batcher/sequence_batcher_test.py",
        variant,
        test_class,
        cases,
        settings | environment,
        None if held is None else {_HOLD: held[0], _BACKLOG_HOLD: held[1]},
    )


def _trial(name: str) -> tuple[Suite, ...]:
    """Return the suites of one of test.sh's model trials: an instance count, or v."""
    environment = {
        "BACKENDS": {"0": "python", "v": "onnx"}.get(name, "custom python"),
        "ENSEMBLES": "1",
        "NO_BATCHING": str(int(name == "0")),
        "MODEL_INSTANCES": {"0": "4", "v": "1"}.get(name, name),
        "BATCHER_TYPE": "VARIABLE" if name == "v" else "FIXED",
    }
    skipped = _OF_ONE_INSTANCE if environment["MODEL_INSTANCES"] != "1" else set()
    chosen = [
        (held, backlog, tuple(case for case in cases if case not in skipped))
        for held, backlog, cases in _SEQUENCE_HOLDS
    ]
    return tuple(
        _sequence_suite(
            f"trial {name}, held {held} and {backlog}" if held else f"trial {name}",
            f"sequence {name}",
            cases,
            environment,
            (held, backlog) if held else None,
        )
        for held, backlog, cases in chosen
        if cases
    )


_SEQUENCE: Final = (
    *(suite for name in ("0", "1", "2", "4", "v") for suite in _trial(name)),
    _sequence_suite("ragged", "sequence ragged", ("ragged_batch_allowed",), {}, (12, 0)),
    _sequence_suite(
        "delay",
        "sequence delay",
        tuple(f"queue_delay_{case}_min_util" for case in ("no", "half", "full")),
        {"BACKENDS": "custom python"},
        (2, 0),
    ),
    _sequence_suite(
        "timeout",
        "sequence timeout",
        ("request_timeout", "send_request_after_timeout"),
        {},
        None,
        "SequenceBatcherRequestTimeoutTest",
    ),
    _sequence_suite(
        "order",
        "sequence order",
        ("sequence_with_preserve_ordering", "sequence_without_preserve_ordering"),
        {"BACKENDS": "python"},
        None,
        "SequenceBatcherPreserveOrderingTest",
    ),
)


def _dynamic(title: str, variant: str, no_batching: int, cases: tuple[str, ...]) -> Suite:
    return _suite(
        f"L0_dyna_sequence_batcher, {title}",
        "L0_dyna_sequence_batcher/dyna_sequence_batcher_test.py",
        variant,
        "DynaSequenceBatcherTest",
        cases,
        {
            "BACKENDS": "custom custom_string",
            "IMPLICIT_STATE": "0",
            "NO_BATCHING": str(no_batching),
        },
    )


_DYNAMIC: Final = (
    _dynamic("at once", "dyna", 1, ("simple_sequence", "length1_sequence")),
    _dynamic(
        "delay",
        "dyna delay",
        0,
        (
            "multi_sequence_different_shape",
            "multi_sequence",
            "multi_parallel_sequence",
            "backlog",
            "backlog_fill",
            "backlog_fill_no_end",
            "backlog_sequence_timeout",
        ),
    ),
    _dynamic("ragged", "dyna ragged", 0, ("multi_sequence_different_shape_allow_ragged",)),
)

SCHEDULER_SUITES: Final = (*_BATCHER, *_SEQUENCE, *_DYNAMIC)
