# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""What the control plane decides costs O(n log n) at most, and what routers are told O(change).

Counted are instructions of the interpreter, so that nothing depends on the machine.
`scripts/simulate_scale.py` measures the same events in a cluster of any size.
"""

import math
from functools import cache

import pytest

from tests.support import scale_of_control, scale_of_routing
from tests.support.instruction_count import instructions
from tests.support.large_cluster import Prepare, Size, prepared

EVENTS = (*scale_of_control.EVENTS, *scale_of_routing.EVENTS)
SMALL, LARGE = Size(16), Size(64)
# Beyond growth, what does not grow at all makes the quotient smaller only.
_TIMES = LARGE.models / SMALL.models
_N_LOG_N = _TIMES * math.log(LARGE.models) / math.log(SMALL.models)
AS_LARGE_AS_THE_CHANGE = [
    scale_of_routing.change,
    scale_of_routing.lose_node,
    scale_of_routing.whole_table_again,
    scale_of_routing.take_change,
    scale_of_routing.choose_node,
]


def _cost(prepare: Prepare, size: Size) -> int:
    with prepared(prepare, size) as event:
        return instructions(event)


@cache
def _growth(prepare: Prepare) -> float:
    """Return how many times as many instructions an event takes in the larger cluster."""
    return _cost(prepare, LARGE) / max(1, _cost(prepare, SMALL))


@pytest.mark.slow
@pytest.mark.parametrize("prepare", EVENTS, ids=lambda each: each.__name__)
def test_no_event_is_worse_than_n_log_n(prepare: Prepare) -> None:
    assert _growth(prepare) < 1.1 * _N_LOG_N


@pytest.mark.slow
@pytest.mark.parametrize("prepare", AS_LARGE_AS_THE_CHANGE, ids=lambda each: each.__name__)
def test_an_event_costs_what_has_changed_however_large_the_cluster(prepare: Prepare) -> None:
    assert _growth(prepare) < 1.25


@pytest.mark.slow
def test_a_part_of_a_look_is_of_some_versions_however_many_autoscale() -> None:
    part = _cost(scale_of_control.autoscale_part, Size(100))
    assert part < _cost(scale_of_control.autoscale, Size(100)) / 3


@pytest.mark.parametrize(
    ("prepare", "size", "most_bytes"),
    [
        (scale_of_routing.change, LARGE, 3_000),
        (scale_of_routing.lose_node, LARGE, 20_000),
        (scale_of_routing.change_large_pool, Size(1000, models_per_node=1), 100_000),
    ],
    ids=["instance restarts", "node of 40 instances is lost", "pool of 1,000 instances"],
)
def test_a_change_of_the_table_is_small(prepare: Prepare, size: Size, most_bytes: int) -> None:
    with prepared(prepare, size) as event:
        assert 0 < event() <= most_bytes
