# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Facts about this machine: processor and memory from /proc, GPUs from NVML.

Triton: core/src/metrics.cc @73aad7c
"""

import contextlib
import logging
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

_log = logging.getLogger(__name__)

# Triton polls at half of --metrics-interval-ms, which is 2000 by default.
_DEFAULT_INTERVAL_NS: Final = 1_000_000_000
_MW_PER_W: Final = 1000
_MJ_PER_J: Final = 1000
_PERCENT: Final = 100


@dataclass(frozen=True, slots=True)
class HostMetrics:
    """Processor and memory; utilization is in [0, 1]."""

    cpu_utilization: float = 0.0
    memory_total_bytes: int = 0
    memory_used_bytes: int = 0


@dataclass(frozen=True, slots=True)
class GpuMetrics:
    """One GPU; what it does not tell is None.

    Attributes:
        uuid: Its UUID.
        utilization: In [0, 1].
        memory_total_bytes: Size of its memory.
        memory_used_bytes: How much of that is used.
        power_usage_w: Present power.
        power_limit_w: Power it may take.
        energy_j: Energy since the first reading.
    """

    uuid: str
    utilization: float | None = None
    memory_total_bytes: int | None = None
    memory_used_bytes: int | None = None
    power_usage_w: float | None = None
    power_limit_w: float | None = None
    energy_j: float | None = None


class HostSampler:
    """Reads processor and memory use from /proc; where there is none, everything is 0.

    Args:
        proc: The folder.
        interval_ns: Facts younger than this are not read again.
    """

    __slots__ = ("_busy", "_interval_ns", "_last", "_proc", "_sampled_ns", "_total")

    def __init__(self, proc: str = "/proc", interval_ns: int = _DEFAULT_INTERVAL_NS) -> None:
        self._proc = Path(proc)
        self._interval_ns = interval_ns
        self._sampled_ns: int | None = None
        self._busy = self._total = 0
        self._last = HostMetrics()

    def sample(self, now_ns: int) -> HostMetrics:
        """Return the facts, read again when the last ones are old."""
        if self._sampled_ns is not None and now_ns - self._sampled_ns < self._interval_ns:
            return self._last
        self._sampled_ns = now_ns
        try:
            utilization = self._utilization((self._proc / "stat").read_text())
            total, available = _memory((self._proc / "meminfo").read_text())
        except (OSError, ValueError):
            return self._last
        self._last = HostMetrics(utilization, total, total - available)
        return self._last

    def _utilization(self, stat: str) -> float:
        # "cpu  user nice system idle iowait irq softirq steal guest guest_nice"; guest time is
        # already in user time.
        ticks = [int(word) for word in stat.split("\n", 1)[0].split()[1:9]]
        total = sum(ticks)
        busy = total - sum(ticks[3:5])
        elapsed, used = total - self._total, busy - self._busy
        self._total, self._busy = total, busy
        return round(used / elapsed, 4) if elapsed > 0 else self._last.cpu_utilization


def _memory(meminfo: str) -> tuple[int, int]:
    sizes = {}
    for line in meminfo.splitlines():
        key, _, rest = line.partition(":")
        if key in {"MemTotal", "MemAvailable"}:
            sizes[key] = int(rest.split()[0]) * 1024
    return sizes.get("MemTotal", 0), sizes.get("MemAvailable", 0)


class GpuSampler:
    """Reads GPUs over NVML; without the package, the driver or a GPU there are none.

    Args:
        nvml: The module ``pynvml``; None imports it when first needed.
        interval_ns: Facts younger than this are not read again.
    """

    __slots__ = ("_first_energy", "_handles", "_interval_ns", "_last", "_nvml", "_sampled_ns")

    def __init__(self, nvml: Any = None, interval_ns: int = _DEFAULT_INTERVAL_NS) -> None:
        self._nvml = nvml
        self._interval_ns = interval_ns
        self._handles: dict[str, Any] | None = None
        self._first_energy: dict[str, int] = {}
        self._sampled_ns = 0
        self._last: tuple[GpuMetrics, ...] = ()

    def sample(self, now_ns: int) -> tuple[GpuMetrics, ...]:
        """Return the facts, read again when the last ones are old; may take milliseconds."""
        if self._handles is None:
            self._handles = self._find()
        elif now_ns - self._sampled_ns < self._interval_ns:
            return self._last
        self._sampled_ns = now_ns
        self._last = tuple(self._read(uuid, each) for uuid, each in self._handles.items())
        return self._last

    def _find(self) -> dict[str, Any]:
        try:
            if self._nvml is None:
                import pynvml  # noqa: PLC0415 - an optional dependency

                self._nvml = pynvml
            nvml = self._nvml
            nvml.nvmlInit()
            handles = [nvml.nvmlDeviceGetHandleByIndex(n) for n in range(nvml.nvmlDeviceGetCount())]
            return {nvml.nvmlDeviceGetUUID(each): each for each in handles}
        except ImportError as missing:
            _log.info("no GPU metrics: %s", missing)
        except self._nvml.NVMLError as error:
            _log.info("no GPU metrics: %s", error)
        return {}

    def _read(self, uuid: str, handle: Any) -> GpuMetrics:
        nvml = self._nvml
        found: dict[str, Any] = {}
        # A GPU in MIG mode, for one, tells no utilization.
        for read in (self._memory_of, self._rates_of, self._power_of, self._energy_of):
            with contextlib.suppress(nvml.NVMLError):
                found |= read(uuid, handle)
        return GpuMetrics(uuid, **found)

    def _memory_of(self, _: str, handle: Any) -> dict[str, Any]:
        memory = self._nvml.nvmlDeviceGetMemoryInfo(handle)
        return {"memory_total_bytes": memory.total, "memory_used_bytes": memory.used}

    def _rates_of(self, _: str, handle: Any) -> dict[str, Any]:
        rates = self._nvml.nvmlDeviceGetUtilizationRates(handle)
        return {"utilization": rates.gpu / _PERCENT}

    def _power_of(self, _: str, handle: Any) -> dict[str, Any]:
        nvml = self._nvml
        usage, limit = (
            nvml.nvmlDeviceGetPowerUsage(handle),
            nvml.nvmlDeviceGetEnforcedPowerLimit(handle),
        )
        return {"power_usage_w": usage / _MW_PER_W, "power_limit_w": limit / _MW_PER_W}

    def _energy_of(self, uuid: str, handle: Any) -> dict[str, Any]:
        energy = self._nvml.nvmlDeviceGetTotalEnergyConsumption(handle)
        return {"energy_j": (energy - self._first_energy.setdefault(uuid, energy)) / _MJ_PER_J}


class MachineSampler:
    """Both, as the settings of metrics ask for.

    Args:
        interval_ms: ``--metrics-interval-ms``.
    """

    def __init__(self, interval_ms: float) -> None:
        interval_ns = int(interval_ms * 1e6 / 2)
        self._host = HostSampler(interval_ns=interval_ns)
        self._gpus = GpuSampler(interval_ns=interval_ns)

    def sample(
        self, now_ns: int, *, has_cpu: bool, has_gpu: bool
    ) -> tuple[HostMetrics | None, tuple[GpuMetrics, ...]]:
        """Return processor and memory, or None, and the GPUs, or none."""
        host = self._host.sample(now_ns) if has_cpu else None
        return host, self._gpus.sample(now_ns) if has_gpu else ()


def gpu_rows(gpus: tuple[GpuMetrics, ...], field: str) -> Iterator[tuple[str, float]]:
    """Yield UUID and value of a field, for the GPUs that tell it."""
    for gpu in gpus:
        value = getattr(gpu, field)
        if value is not None:
            yield gpu.uuid, value
