# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Servers that are functions: what a candidate does under a load, with noise from a seed."""

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from backends.api.model_config import ModelConfig
from backends.config.pbtxt import parse_pbtxt
from manta_tools.analyze.json_forms import to_json
from manta_tools.analyze.records import Candidate, Measured, Search, Trial

MODEL = 'max_batch_size: 8 backend: "python" instance_group { count: 1 kind: KIND_CPU }'


def config_of(name: str, text: str = MODEL) -> ModelConfig:
    return parse_pbtxt(f'name: "{name}" {text}', "test")


@dataclass(frozen=True)
class Model:
    """A model: a batch takes ``fixed_ms`` and ``row_ms`` a row on one core of its own.

    Attributes:
        fixed_ms: Of an execution.
        row_ms: Of a row of its batch.
        cores: Which the instances share; more of them than cores slow each other down.
        contention: What each instance beyond the cores costs all others, as a part.
        memory_mb: Of an instance.
        max_batch_size: What its config says.
        instances: What its config says.
    """

    fixed_ms: float
    row_ms: float
    cores: int = 4
    contention: float = 0.03
    memory_mb: float = 100.0
    max_batch_size: int = 8
    instances: int = 1

    def capacity(self, batch: float, instances: int) -> float:
        running = min(instances, self.cores)
        lost = 1 + self.contention * max(0, instances - self.cores)
        return running * batch / (self.fixed_ms + self.row_ms * batch) / lost * 1000

    def latency_ms(self, batch: float, instances: int) -> float:
        slowed = max(1.0, instances / self.cores)
        return (self.fixed_ms + self.row_ms * batch) * slowed


@dataclass
class Server:
    """A server with a front end that takes ``request_ms`` of one core for each request.

    Attributes:
        models: By name.
        pipelines: Models that each model that is asked calls, in turn; itself where left out.
        request_ms: Of the front end, and what a client waits in any case.
        noise: Standard deviation of throughput and latency, as a part.
        seed: Of the noise.
        trials: What has been measured.
    """

    models: Mapping[str, Model]
    pipelines: Mapping[str, Sequence[str]] = field(default_factory=dict)
    request_ms: float = 0.04
    noise: float = 0.01
    seed: int = 0
    trials: list[Trial] = field(default_factory=list)

    def measure(self, trial: Trial) -> Measured:
        self.trials.append(trial)
        shared = len(trial.loads)
        metrics = {
            load.model: self._metrics(trial.candidate, load, trial, shared) for load in trial.loads
        }
        return Measured(trial, metrics)

    def _metrics(self, candidate: Candidate, load: Any, trial: Trial, shared: int) -> Any:
        values: dict[str, dict[str, Any]] = {
            each.model: dict(each.values) for each in candidate.settings
        }
        capacity = 1000 / self.request_ms / shared * load.batch_size
        alone_ms = 2 * self.request_ms
        memory_mb = 50.0
        in_flight = load.level * load.batch_size
        for name in self.pipelines.get(load.model, (load.model,)):
            model = self.models[name]
            instances = values.get(name, {}).get("instance_group.count", model.instances)
            largest = values.get(name, {}).get("max_batch_size", model.max_batch_size)
            batch = max(1.0, min(largest, in_flight / instances))
            capacity = min(capacity, model.capacity(batch, instances) / shared)
            alone_ms += model.latency_ms(batch, instances)
            memory_mb += instances * model.memory_mb
        unlimited = in_flight / alone_ms * 1000
        throughput = unlimited * capacity / (unlimited**6 + capacity**6) ** (1 / 6)
        latency_ms = max(alone_ms, in_flight / throughput * 1000)
        chance = random.Random(f"{self.seed} {to_json(Measured(trial, {}))['trial']}")
        spread = self.noise / trial.budget**0.5
        return {
            "perf_throughput": throughput * chance.gauss(1, spread),
            "perf_latency_avg": latency_ms,
            "perf_latency_p99": latency_ms * 1.4 * chance.gauss(1, spread),
            "cpu_used_ram": memory_mb,
        }


def run(search: Search, server: Server, most: int = 100_000) -> list[Measured]:
    """Run a search to its end, or so many trials, and return what was measured."""
    found: list[Measured] = []
    while len(found) < most and (trials := search.ask()):
        for trial in trials[: most - len(found)]:
            found.append(server.measure(trial))
            search.tell(found[-1])
    return found
