# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""The load on versions that autoscale, as routers and instances tell it."""

import logging
import math
from collections.abc import Iterable, Mapping
from typing import Final

import msgspec

from cluster.autoscaling.counts import Key
from cluster.autoscaling.policy import LoadReading
from deployments.contracts.load_report import VersionLoad, decode_loads
from deployments.metrics.counters import Snapshot, merge
from deployments.metrics.distributions import quantile

_log = logging.getLogger(__name__)

# Routers tell of a load every second; one that has said nothing for so long is gone, and its
# requests with it.
SILENCE_S: Final = 10.0
_NS_PER_US: Final = 1000
_P95: Final = 0.95


class LoadBoard:
    """What routers have last told. Times are seconds of one clock that only goes forward."""

    def __init__(self) -> None:
        # By version and router: when it was told, and what.
        self._loads: dict[Key, dict[str, tuple[float, VersionLoad]]] = {}
        self._used: set[Key] = set()

    def take(self, router_id: str, report: bytes, now_s: float) -> None:
        """Take the report of a router; one that cannot be read is left out."""
        try:
            loads = decode_loads(report)
        except msgspec.MsgspecError as error:
            _log.warning("the load that a router tells cannot be read: %s", error)
            return
        for load in loads:
            key = load.key, load.version
            if load.is_quiet:
                self._loads.get(key, {}).pop(router_id, None)
            else:
                self._loads.setdefault(key, {})[router_id] = now_s, load
                self._used.add(key)

    def read(self, key: Key, now_s: float, measured_us: float | None = None) -> LoadReading:
        """Return the load on a version now.

        Args:
            key: Model key and version number.
            now_s: The time.
            measured_us: What was measured of its instances, if its target needs that.
        """
        loads = self._loads.get(key, {})
        for router_id in [name for name, (at_s, _) in loads.items() if now_s - at_s > SILENCE_S]:
            del loads[router_id]
        is_used = key in self._used
        self._used.discard(key)
        told = [load for _, load in loads.values()]
        return LoadReading(
            sum(load.ongoing for load in told),
            sum(load.rate for load in told),
            is_used,
            measured_us,
        )

    def keep_only(self, keys: Iterable[Key]) -> None:
        """Forget all other versions."""
        kept = set(keys)
        self._loads = {key: loads for key, loads in self._loads.items() if key in kept}
        self._used &= kept


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
