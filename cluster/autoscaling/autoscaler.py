# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Has the versions that autoscale follow their load.

A look at a version takes what routers have told, lets the policy decide and notes the count. What
is to be done about it, is done beside the looks, one thing at a time for each version: instances
are added or let go in place, or all let go. A change that fails is tried again, after a time that
grows; one that a load or an unload cuts short, at the next look. The count stands meanwhile, and
the next load makes as many instances too.

A look takes some 20 us for each version that autoscales. Of many versions only some are looked at
in one go, so that the controller does other things in between.

Instances are asked only for targets that routers cannot measure: each instance of a version with
`target_queue_us` or `target_latency_p95_us` is asked for its counters once a second, which costs it
and the controller some tenths of a millisecond. No request pays for the former; for the latter the
instance notes each request's latencies, some microseconds, as it does for ``summary_latencies``.
"""

import asyncio
import logging
from collections.abc import Callable, Coroutine, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from backends.api.errors import TritonError
from backends.api.model_config import ModelConfig
from backends.api.model_identifier import shown
from backends.config.autoscaling import (
    AutoscalingRules,
    Signal,
    is_autoscaled,
    read_autoscaling,
)
from cluster.autoscaling.counts import InstanceCounts, Key
from cluster.autoscaling.loads import LoadBoard, latency_p95_us, queue_us
from cluster.autoscaling.policy import ScalingState, begin, decide
from cluster.models.lifecycle import ModelLifecycle
from cluster.models.states import VersionRecord
from deployments.metrics.counters import Snapshot

_log = logging.getLogger(__name__)

# Versions that are looked at in one go.
_MOST_AT_ONCE: Final = 500
# What instances said is of no use any more.
_MEASURE_AGE_S: Final = 10.0
# Between attempts at what fails.
_FIRST_RETRY_S: Final = 5.0
_LAST_RETRY_S: Final = 60.0

Rest = Callable[[str, int], bool]


@dataclass(slots=True, eq=False)
class _Measure:
    """What the instances of one version say, which are asked again and again."""

    counted: Mapping[str, Snapshot] = field(default_factory=dict)
    value_us: float | None = None
    at_s: float = float("-inf")
    question: asyncio.Task[None] | None = None


@dataclass(slots=True, eq=False)
class _Scaled:
    """One version.

    Attributes:
        config: What its rules were read from.
        state: What the policy remembers.
        applied: The count that its instances were last brought to; None when that failed.
        work: What is being done about the count.
        retry_s: When to try again what has failed.
        delay_s: How long to wait after the next failure.
        measure: What its instances say.
    """

    config: ModelConfig
    rules: AutoscalingRules
    state: ScalingState
    applied: int | None
    work: asyncio.Task[None] | None = None
    retry_s: float = 0.0
    delay_s: float = _FIRST_RETRY_S
    measure: _Measure = field(default_factory=_Measure)


class Autoscaler:
    """Looks at all versions that autoscale.

    Args:
        models: The models.
        counts: Where counts are noted, for loads too.
        spawn: Runs in the background, under a name, what nobody waits for.
        rest: Lets go of all instances of a version, which stays ready and starts one when somebody
            asks for it; returns whether that was done.
        clock_s: Seconds of a clock that only goes forward.

    Attributes:
        loads: What routers tell.
    """

    def __init__(
        self,
        models: ModelLifecycle,
        counts: InstanceCounts,
        spawn: Callable[[str, Coroutine[Any, Any, None]], asyncio.Task[None]],
        rest: Rest,
        clock_s: Callable[[], float] | None = None,
    ) -> None:
        self.loads = LoadBoard()
        self._models = models
        self._counts = counts
        self._spawn = spawn
        self._rest = rest
        self._clock_s = clock_s or asyncio.get_running_loop().time
        self._scaled: dict[Key, _Scaled] = {}

    def take(self, router_id: str, report: bytes) -> None:
        """Take what a router tells of its load."""
        self.loads.take(router_id, report, self._clock_s())

    async def look_at_all(self) -> None:
        """`look`, with others in between."""
        for _ in self.look():
            await asyncio.sleep(0)

    def look(self) -> Iterator[None]:
        """Look at each version once, and begin what is to be done.

        Yields:
            After each few milliseconds' worth of versions.
        """
        now_s = self._clock_s()
        seen: set[Key] = set()
        for name in list(self._models.records):
            record = self._models.records.get(name)
            for version, at in list(record.versions.items()) if record else ():
                if at.config is None or not is_autoscaled(at.config):
                    continue
                seen.add((name, version))
                if at.is_ready:
                    self._look_at((name, version), at, at.config, now_s)
                elif at.is_unloaded:
                    self._forget((name, version))
                if not len(seen) % _MOST_AT_ONCE:
                    yield
                    now_s = self._clock_s()
        for key in self._scaled.keys() - seen:
            self._forget(key)
        self.loads.keep_only(seen)

    def _look_at(self, key: Key, record: VersionRecord, config: ModelConfig, now_s: float) -> None:
        scaled = self._scaled.get(key)
        if scaled is None or scaled.config is not config:
            scaled = self._read(key, scaled, config, now_s)
        if scaled is None or (scaled.work is not None and not scaled.work.done()):
            return
        reading = self.loads.read(key, now_s, self._measured(key, scaled, now_s))
        if (
            scaled.state.count == 0
            and record.instances
            and (scaled.applied == 0 or reading.is_used)
        ):
            scaled.state = begin(scaled.rules, 1, now_s)
            self._note(key, scaled)
            scaled.applied = None
        before = scaled.state.count
        scaled.state, decision = decide(scaled.rules, scaled.state, reading, now_s)
        if decision is not None:
            _log.info(
                "model '%s' version %d: from %d to %d instances: %s",
                shown(key[0]),
                key[1],
                before,
                decision.count,
                decision.reason,
            )
            self._note(key, scaled)
            scaled.retry_s, scaled.delay_s = now_s, _FIRST_RETRY_S
        if scaled.applied != scaled.state.count and now_s >= scaled.retry_s:
            name = f"autoscaling of '{key[0]}' version {key[1]}"
            scaled.work = self._spawn(name, self._apply(key, scaled))

    def _read(
        self, key: Key, known: _Scaled | None, config: ModelConfig, now_s: float
    ) -> _Scaled | None:
        """Return a version that is new, or known and with another config."""
        try:
            rules = read_autoscaling(config)
        except TritonError as error:
            # Of a version that an earlier release has loaded.
            _log.warning("model '%s' does not autoscale: %s", shown(key[0]), error.message)
            return None
        if rules is None:
            return None
        if known is not None:
            known.config, known.rules = config, rules
            return known
        count = self._counts.of(*key, config)
        scaled = self._scaled[key] = _Scaled(config, rules, begin(rules, count, now_s), count)
        self._note(key, scaled)
        return scaled

    def _note(self, key: Key, scaled: _Scaled) -> None:
        """Have loads and readers of the record know the count."""
        self._counts.put(*key, scaled.state.count)
        self._models.desire(*key, scaled.state.count)

    def _forget(self, key: Key) -> None:
        if self._scaled.pop(key, None) is not None:
            self._models.desire(*key, None)
        self._counts.forget(*key)

    async def _apply(self, key: Key, scaled: _Scaled) -> None:
        """Bring a version to its count."""
        count = scaled.state.count
        scaled.applied = None
        try:
            if count:
                is_done = await self._models.resize(*key, count)
            else:
                is_done = self._rest(*key)
        except TritonError as error:
            _log.warning(
                "model '%s' version %d has not got %d instances, which is tried again in %g s: %s",
                shown(key[0]),
                key[1],
                count,
                scaled.delay_s,
                error.message,
            )
            scaled.retry_s = self._clock_s() + scaled.delay_s
            scaled.delay_s = min(2 * scaled.delay_s, _LAST_RETRY_S)
            return
        # Else a load or an unload was under way, or came between: the next look tries again.
        if is_done:
            scaled.applied, scaled.delay_s = count, _FIRST_RETRY_S

    def _measured(self, key: Key, scaled: _Scaled, now_s: float) -> float | None:
        """Return what its instances last said, and ask them again."""
        if scaled.rules.signal is Signal.ONGOING_REQUESTS:
            return None
        measure = scaled.measure
        if measure.question is None or measure.question.done():
            name = f"question for the counters of '{key[0]}' version {key[1]}"
            measure.question = self._spawn(name, self._ask(key, scaled))
        return measure.value_us if now_s - measure.at_s <= _MEASURE_AGE_S else None

    async def _ask(self, key: Key, scaled: _Scaled) -> None:
        pool = self._models.pool_of(*key)
        if pool is None:
            return
        measure, counted = scaled.measure, await pool.statistics()
        if scaled.rules.signal is Signal.QUEUE_US:
            value_us = queue_us(measure.counted, counted)
        else:
            value_us = latency_p95_us(counted.values())
        measure.counted = counted
        if value_us is not None:
            measure.value_us, measure.at_s = value_us, self._clock_s()
