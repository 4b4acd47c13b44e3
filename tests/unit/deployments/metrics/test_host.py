# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
# ruff: noqa: N802 - NVML's names
"""Facts about GPUs, from a driver that the test plays."""

from types import SimpleNamespace
from typing import Any

from deployments.metrics.host import GpuMetrics, GpuSampler, MachineSampler
from deployments.metrics.page import render


class DriverError(Exception):
    pass


class Driver:
    """What `GpuSampler` uses of pynvml; the second GPU is in MIG mode."""

    NVMLError = DriverError

    def __init__(self, *, is_there: bool = True) -> None:
        self.is_there = is_there
        self.energy_mj = 5000
        self.reads = 0

    def nvmlInit(self) -> None:
        if not self.is_there:
            raise DriverError("NVML Shared Library Not Found")

    def nvmlDeviceGetCount(self) -> int:
        return 2

    def nvmlDeviceGetHandleByIndex(self, index: int) -> int:
        return index

    def nvmlDeviceGetUUID(self, handle: int) -> str:
        return f"GPU-{handle}"

    def nvmlDeviceGetMemoryInfo(self, handle: int) -> Any:
        self.reads += 1
        return SimpleNamespace(total=1000, used=10 + handle)

    def nvmlDeviceGetUtilizationRates(self, handle: int) -> Any:
        if handle:
            raise DriverError("Not Supported")
        return SimpleNamespace(gpu=25)

    def nvmlDeviceGetPowerUsage(self, handle: int) -> int:
        return 70_500

    def nvmlDeviceGetEnforcedPowerLimit(self, handle: int) -> int:
        return 700_000

    def nvmlDeviceGetTotalEnergyConsumption(self, handle: int) -> int:
        return self.energy_mj


def test_a_gpu_tells_what_it_can():
    driver = Driver()
    sampler = GpuSampler(driver)
    sampler.sample(0)
    driver.energy_mj += 1500
    first, second = sampler.sample(2_000_000_000)
    assert first == GpuMetrics("GPU-0", 0.25, 1000, 10, 70.5, 700.0, 1.5)
    assert (second.utilization, second.memory_used_bytes) == (None, 11)


def test_a_reading_is_kept_for_the_interval():
    driver = Driver()
    sampler = GpuSampler(driver, interval_ns=100)
    sampler.sample(1000)
    assert sampler.sample(1099) is sampler.sample(1099)
    assert driver.reads == 2
    sampler.sample(1100)
    assert driver.reads == 4


def test_without_a_driver_there_are_no_gpus():
    assert GpuSampler(Driver(is_there=False)).sample(0) == ()


def test_only_what_is_allowed_is_read():
    assert MachineSampler(2000).sample(0, has_cpu=False, has_gpu=False) == (None, ())
    host, _ = MachineSampler(2000).sample(0, has_cpu=True, has_gpu=False)
    assert host is not None
    assert host.memory_total_bytes > 0


def test_gpus_have_tritons_families():
    page = render((), None, GpuSampler(Driver()).sample(0)).decode()
    assert 'nv_gpu_utilization{gpu_uuid="GPU-0"} 0.25\n' in page
    assert 'nv_gpu_utilization{gpu_uuid="GPU-1"}' not in page
    assert 'nv_gpu_memory_used_bytes{gpu_uuid="GPU-1"} 11\n' in page
    assert "# TYPE nv_energy_consumption counter\n" in page
    assert "nv_cpu" not in page
