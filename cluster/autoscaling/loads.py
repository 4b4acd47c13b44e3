# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""The load on versions that autoscale, as routers and instances tell it."""

import logging
import math
from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

import msgspec

from cluster.autoscaling.counts import Key
from cluster.autoscaling.policy import LoadReading
from deployments.contracts.load_report import decode_loads
from deployments.metrics.counters import Snapshot, merge
from deployments.metrics.distributions import quantile

_log = logging.getLogger(__name__)

# Routers tell of a load every second; one that has said nothing for so long is gone, and its
# requests with it.
SILENCE_S: Final = 10.0
_NS_PER_US: Final = 1000
_P95: Final = 0.95


# Sums are of whole numbers: what is added and taken away again leaves nothing.
_UNIT: Final = 1_000_000


class _Load(NamedTuple):
    """What one router, or all together, have told of a version, in millionths."""

    ongoing: int = 0
    rate: int = 0


_NOTHING: Final = _Load()


class LoadBoard:
    """What routers have last told. Times are seconds of one clock that only goes forward.

    A report tells of all versions that its router has requests for, and takes the place of the one
    before. A reading costs the same however many routers there are.
    """

    def __init__(self) -> None:
        # By router, the one that has been silent for the longest time first.
        self._told: dict[str, tuple[float, dict[Key, _Load]]] = {}
        self._sums: dict[Key, _Load] = {}
        self._used: set[Key] = set()

    def take(self, router_id: str, report: bytes, now_s: float) -> None:
        """Take the report of a router; one that cannot be read is left out."""
        try:
            loads = decode_loads(report)
        except msgspec.MsgspecError as error:
            _log.warning("the load that a router tells cannot be read: %s", error)
            return
        self._forget(router_id)
        told: dict[Key, _Load] = {}
        for each in loads:
            if each.is_quiet:
                continue
            key = each.key, each.version
            self._used.add(key)
            load = _Load(round(each.ongoing * _UNIT), round(each.rate * _UNIT))
            if load != _NOTHING:
                told[key] = load
                known = self._sums.get(key, _NOTHING)
                self._sums[key] = _Load(known.ongoing + load.ongoing, known.rate + load.rate)
        self._told[router_id] = now_s, told

    def read(self, key: Key, now_s: float, measured_us: float | None = None) -> LoadReading:
        """Return the load on a version now.

        Args:
            key: Model key and version number.
            now_s: The time.
            measured_us: What was measured of its instances, if its target needs that.
        """
        while self._told:
            oldest, (at_s, _) = next(iter(self._told.items()))
            if now_s - at_s <= SILENCE_S:
                break
            self._forget(oldest)
        load = self._sums.get(key, _NOTHING)
        is_used = key in self._used
        self._used.discard(key)
        return LoadReading(load.ongoing / _UNIT, load.rate / _UNIT, is_used, measured_us)

    def keep_only(self, keys: Iterable[Key]) -> None:
        """Forget all other versions."""
        kept = set(keys)
        gone = self._sums.keys() - kept
        for key in gone:
            del self._sums[key]
        for _, told in self._told.values() if gone else ():
            for key in gone:
                told.pop(key, None)
        self._used &= kept

    def _forget(self, router_id: str) -> None:
        """Take away what a router has told."""
        _, told = self._told.pop(router_id, (0.0, {}))
        for key, load in told.items():
            known = self._sums[key]
            left = _Load(known.ongoing - load.ongoing, known.rate - load.rate)
            if left == _NOTHING:
                del self._sums[key]
            else:
                self._sums[key] = left


def queue_us(before: Mapping[str, Snapshot], now: Mapping[str, Snapshot]) -> float | None:
    """Return the mean time that requests waited that were answered between two questions.

    Args:
        before: What instances had counted, by name.
        now: What they have counted since; an instance that is new has counted from 0.

    Returns:
        Microseconds; None when no request was answered.
    """
    count = total_ns = 0
    for name, snapshot in now.items():
        known = before.get(name)
        if known is None or known.success_count > snapshot.success_count:
            # It is new, or its process is.
            known = Snapshot()
        count += snapshot.success_count - known.success_count
        total_ns += snapshot.queue_ns - known.queue_ns
    return total_ns / count / _NS_PER_US if count > 0 else None


def latency_p95_us(now: Iterable[Snapshot]) -> float | None:
    """Return the 95th percentile of the last minute's latencies, queue included.

    Returns:
        Microseconds; None when no request was answered, or the instances keep no latencies.
    """
    latencies = merge(now).latencies
    if not latencies:
        return None
    found = quantile(latencies[0], _P95)
    return None if math.isnan(found) else found
