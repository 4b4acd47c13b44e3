# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Counters of the models' own, as rollouts read them."""

import asyncio
from collections.abc import Mapping
from typing import Any

import pytest

from backends.api.custom_metrics import CustomFamily, CustomMetric, MetricKind
from cluster.rollout.evidence import CustomCounters
from cluster.rollout.state import State, created
from deployments.metrics.counters import Snapshot
from deployments.rollouts.reading import read_rollout

DOCUMENT: dict[str, Any] = {
    "kind": "canary",
    "stable": 1,
    "candidate": 2,
    "analysis": {"metrics": [{"kind": "custom", "family": "doubts_total"}]},
}


def snapshot(count: float, kind: MetricKind = MetricKind.COUNTER) -> Snapshot:
    """An instance that has counted, half of it under a label."""
    metrics = [CustomMetric(value=count / 2), CustomMetric([("of", "some")], count / 2)]
    others = CustomFamily("others_total", "", MetricKind.COUNTER, [CustomMetric(value=9)])
    return Snapshot(custom=[CustomFamily("doubts_total", "", kind, metrics), others])


class Pools:
    """Pools of instances that say what they are told to say."""

    def __init__(self) -> None:
        self.said: dict[int, dict[str, Snapshot]] = {}
        self.counters = CustomCounters(self.pool_of)

    def pool_of(self, name: str, version: int) -> "_Pool | None":
        return _Pool(self.said[version]) if version in self.said else None

    def read(self, *states: State) -> None:
        asyncio.run(self.counters.read([("m", state) for state in states]))

    def doubts(self, version: int) -> float | None:
        found = self.counters.of("m", version)
        return None if found is None else found["doubts_total"]


class _Pool:
    def __init__(self, said: Mapping[str, Snapshot]) -> None:
        self._said = said

    async def statistics(self) -> Mapping[str, Snapshot]:
        return self._said


@pytest.fixture
def pools() -> Pools:
    return Pools()


def canary() -> State:
    return created(read_rollout(DOCUMENT), "m/1", 0.0)


def test_counters_of_all_instances_are_added_up(pools: Pools) -> None:
    pools.said = {1: {"a": snapshot(4), "b": snapshot(6)}, 2: {"c": snapshot(2)}}
    pools.read(canary())
    assert (pools.doubts(1), pools.doubts(2)) == (10, 2)


def test_nothing_is_known_until_an_instance_has_said_something(pools: Pools) -> None:
    pools.said = {2: {}}
    pools.read(canary())
    assert (pools.doubts(1), pools.doubts(2)) == (None, None)


def test_an_instance_that_does_not_say_keeps_what_it_has_said(pools: Pools) -> None:
    pools.said = {1: {"a": snapshot(4), "b": snapshot(6)}}
    pools.read(canary())
    pools.said = {1: {"b": snapshot(8)}}
    pools.read(canary())
    assert pools.doubts(1) == 12
    pools.said = {}
    pools.read(canary())
    assert pools.doubts(1) == 12


def test_what_is_no_counter_or_is_not_there_counts_nothing(pools: Pools) -> None:
    pools.said = {1: {"a": snapshot(4, MetricKind.GAUGE)}, 2: {"c": Snapshot()}}
    pools.read(canary())
    assert (pools.doubts(1), pools.doubts(2)) == (0, 0)


def test_what_no_rollout_is_judged_by_is_forgotten(pools: Pools) -> None:
    pools.said = {1: {"a": snapshot(4)}}
    pools.read(canary())
    pools.read()
    assert pools.doubts(1) is None
