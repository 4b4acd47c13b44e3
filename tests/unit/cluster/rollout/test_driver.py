# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Rollouts as the controller drives them, in virtual time."""

import asyncio
import random
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from backends.api.custom_metrics import CustomFamily, CustomMetric, MetricKind
from backends.api.errors import InvalidArgumentError, NotFoundError
from backends.api.model_config import ModelConfig
from cluster.models.records import Records
from cluster.models.states import VersionRecord
from cluster.rollout.driver import Rollouts
from cluster.rollout.evidence import CustomCounters
from cluster.rollout.state import decode
from deployments.contracts.arm_report import ArmReport, encode_arms
from deployments.contracts.control import RolloutAction
from deployments.contracts.routing_table import ModelReadyState
from deployments.metrics.counters import Snapshot
from deployments.metrics.distributions import class_of
from deployments.metrics.rollouts import render_rollouts
from deployments.rollouts.encoding import decode_traffic

CANARY: dict[str, Any] = {
    "kind": "canary",
    "stable": 1,
    "candidate": 2,
    "steps": [
        {"weight": 20, "hold_s": 30, "min_samples": 100},
        {"weight": 50, "hold_s": 30, "min_samples": 100},
    ],
    "analysis": {
        "period_s": 5,
        "metrics": [{"kind": "errors", "tolerance": 0.05}, {"kind": "p95", "tolerance": 0.2}],
    },
}


class Doubtful:
    """Instances of a version that count their doubts."""

    def __init__(self, doubts: float) -> None:
        self._doubts = doubts

    async def statistics(self) -> Mapping[str, Snapshot]:
        metrics = [CustomMetric(value=self._doubts)]
        return {
            "a": Snapshot(custom=[CustomFamily("doubts", "", MetricKind.COUNTER, metrics)]),
        }


class Here:
    """A model ``m`` with three versions, of which two are ready, and routers that report of it."""

    def __init__(self) -> None:
        self.now_s = 1000.0
        self._records = Records(lambda _key: None)
        self.records = self._records.by_name
        self.direct = self._records.direct
        self.saved: dict[str, bytes] = {}
        self.saves = 0
        self.doubts: dict[int, float] = {}
        self.drawn = random.Random(7)
        for version in (1, 2):
            self.put(version, ModelReadyState.READY)
        self.rollouts = self.controller()

    def put(self, version: int, state: ModelReadyState, **fields: Any) -> None:
        config = replace(ModelConfig("m"), **fields)
        self._records.put_version("m", VersionRecord(version, state, config=config))

    def controller(self) -> Rollouts:
        def changed() -> None:
            self.saves += 1

        self.counters = CustomCounters(self.pool_of)
        return Rollouts(
            self.records, self.direct, self.saved, changed, self.counters, lambda: self.now_s
        )

    def pool_of(self, name: str, version: int) -> Doubtful | None:
        del name
        return Doubtful(self.doubts[version]) if version in self.doubts else None

    def set(self, document: dict[str, Any]) -> dict[str, Any]:
        return self.rollouts.ask("m", RolloutAction.SET, document)

    def do(self, action: RolloutAction) -> dict[str, Any]:
        return self.rollouts.ask("m", action, {})

    def phase(self) -> str:
        return str(self.rollouts.status("m")["phase"])

    def weights(self) -> dict[int, int]:
        traffic = decode_traffic(self.records["m"].traffic)
        return {arm.version: arm.weight for arm in traffic.arms}

    def second(self, fail: float = 0.0, slow: float = 1.0) -> None:
        """Let a second go by in which the versions answer 100 requests by their weights."""
        rows = []
        for version, weight in self.weights().items():
            row = ArmReport("m", version)
            for _ in range(weight // 100):
                row.requests += 1
                if version == 2 and self.drawn.random() < fail:
                    row.errors += 1
                    continue
                took_us = int(self.drawn.gauss(1000, 100) * (slow if version == 2 else 1))
                at = class_of(took_us)
                row.latencies[at] = row.latencies.get(at, 0) + 1
            rows.append(row)
        self.rollouts.take(encode_arms(rows))
        self.now_s += 1.0
        asyncio.run(self.counters.read([("m", decode(self.saved["m"]))]))
        self.rollouts.tick()

    def run(self, most_s: int = 900, **faults: float) -> str:
        """Let time go by until the rollout is over."""
        for _ in range(most_s):
            self.second(**faults)
            if self.phase() in {"promoted", "rolled_back"}:
                break
        return self.phase()


@pytest.fixture
def here() -> Here:
    return Here()


def test_a_split_is_in_force_when_it_was_set(here: Here) -> None:
    arms = [
        {"name": "a", "version": 1, "weight": 70},
        {"name": "b", "version": 2, "weight": 30},
    ]
    told = here.set({"kind": "ab", "arms": arms})
    assert here.weights() == {1: 7000, 2: 3000}
    assert [(arm["name"], arm["weight"]) for arm in told["arms"]] == [("a", 70), ("b", 30)]
    assert here.saves


def test_a_good_canary_is_promoted_step_by_step(here: Here) -> None:
    here.set(CANARY)
    assert here.weights() == {1: 8000, 2: 2000}
    assert here.run() == "promoted"
    assert here.weights() == {1: 0, 2: 10000}
    actions = [each["action"] for each in here.rollouts.status("m")["history"]]
    assert actions == ["start", "step", "promote", "promoted"]


@pytest.mark.parametrize("fault", [{"fail": 0.2}, {"slow": 1.6}])
def test_a_canary_that_fails_or_is_slow_is_rolled_back(here: Here, fault: dict[str, float]) -> None:
    here.set(CANARY)
    assert here.run(**fault) == "rolled_back"
    assert here.weights() == {1: 10000, 2: 0}
    assert "worse" in here.rollouts.status("m")["reason"]


def judged_by_doubts() -> dict[str, Any]:
    metrics = [{"kind": "custom", "family": "doubts", "tolerance": 0.05}]
    return {**CANARY, "analysis": {"period_s": 1, "metrics": metrics}}


def test_a_canary_that_doubts_more_answers_is_rolled_back_and_the_reason_names_the_counter(
    here: Here,
) -> None:
    here.doubts = {1: 0.0, 2: 0.0}
    here.set(judged_by_doubts())
    for _ in range(60):
        here.second()
        here.doubts[2] += 5
    assert here.phase() == "rolled_back"
    assert "doubts: worse" in here.rollouts.status("m")["reason"]


def test_what_was_counted_before_a_rollout_is_not_held_against_its_candidate(here: Here) -> None:
    here.set(judged_by_doubts())
    # No instance has said anything yet.
    here.second()
    here.doubts = {1: 0.0, 2: 50_000.0}
    for _ in range(8):
        here.second()
    assert "doubts: not decided yet: 0.00% of" in here.rollouts.status("m")["evidence"]["doubts"]
    assert here.run() == "promoted"


def test_another_controller_goes_on_where_the_last_one_was(here: Here) -> None:
    here.set(CANARY)
    for _ in range(40):
        here.second()
    before = here.rollouts.status("m")
    here.direct("m", b"")
    here.rollouts = here.controller()
    after = here.rollouts.status("m")
    assert (after["phase"], after["step"]) == (before["phase"], before["step"])
    assert here.weights() == {1: 5000, 2: 5000}
    assert here.run() == "promoted"


def test_a_state_that_cannot_be_read_does_not_keep_a_controller_from_starting(here: Here) -> None:
    here.saved["m"] = b"nothing"
    assert here.controller().statuses() == []


def test_commands_change_the_weights_at_once(here: Here) -> None:
    here.set(CANARY)
    assert here.do(RolloutAction.PAUSE)["phase"] == "paused"
    here.second()
    assert here.weights() == {1: 8000, 2: 2000}
    assert here.do(RolloutAction.RESUME)["phase"] == "progressing"
    here.do(RolloutAction.PROMOTE)
    assert here.weights() == {1: 0, 2: 10000}
    here.do(RolloutAction.ROLLBACK)
    assert here.weights() == {1: 10000, 2: 0}


def test_an_ended_rollout_leaves_the_choice_to_the_newest_version(here: Here) -> None:
    here.set(CANARY)
    here.do(RolloutAction.END)
    assert here.records["m"].traffic == b""
    assert here.saved == {}
    with pytest.raises(NotFoundError, match="model 'm' has no rollout"):
        here.rollouts.status("m")


def test_a_version_that_is_not_loaded_is_refused_with_what_to_do(here: Here) -> None:
    here.put(3, ModelReadyState.UNAVAILABLE)
    with pytest.raises(InvalidArgumentError, match=r"versions: \[ 1, 2, 3 \]") as caught:
        here.set({**CANARY, "candidate": 3})
    assert "names version 3 of model 'm', which takes no requests; ready are: 1, 2" in str(
        caught.value
    )


def test_versions_that_are_asked_otherwise_cannot_share_requests(here: Here) -> None:
    here.put(2, ModelReadyState.READY, decoupled=True)
    with pytest.raises(InvalidArgumentError, match="version 2 of model 'm' is decoupled"):
        here.set(CANARY)


def test_metrics_tell_weights_counts_and_the_phase(here: Here) -> None:
    here.set(CANARY)
    here.second()
    page = render_rollouts(here.rollouts.statuses()).decode()
    assert 'manta_rollout_weight{model="m",version="2",arm="canary"} 0.2' in page
    assert 'manta_rollout_requests_total{model="m",version="1",arm="stable"} 80' in page
    assert 'manta_rollout_phase{model="m",phase="progressing"} 1' in page
    assert 'manta_rollout_decisions_total{model="m"} 1' in page
    assert render_rollouts([]) == b""


def test_reports_of_models_without_a_rollout_and_nonsense_are_dropped(here: Here) -> None:
    here.set(CANARY)
    here.rollouts.take(encode_arms([ArmReport("other", 1, 5)]))
    here.rollouts.take(b"nonsense")
    assert [arm["requests"] for arm in here.rollouts.status("m")["arms"]] == [0, 0]
