# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""What is read of GPUs, from a stand-in for NVML."""

import inspect
from pathlib import Path

import pynvml
import pytest

from cluster.devices.inventory import Gpu, Inventory, MigDevice
from cluster.devices.nvml import read_nvml
from tests.support.fake_nvml import GB, FakeGpu, FakeMig, FakeNvml

A100 = FakeGpu("GPU-a", numa_node=1, processes={7: GB})


def read(*gpus: FakeGpu, failing: tuple[str, ...] = ()) -> Inventory:
    return read_nvml(FakeNvml(*gpus, failing=failing), "/nowhere")


def test_the_stand_in_has_the_calls_of_the_real_module() -> None:
    calls = [name for name in dir(FakeNvml) if name.startswith("nvml")]
    assert calls
    for name in calls:
        real = list(inspect.signature(getattr(pynvml, name)).parameters)
        played = list(inspect.signature(getattr(FakeNvml, name)).parameters)
        assert played == ["self", *real], name
    assert issubclass(pynvml.NVMLError_NotFound, pynvml.NVMLError)
    attributes = [name for name, _ in pynvml.c_nvmlDeviceAttributes._fields_]
    assert {"gpuInstanceSliceCount", "memorySizeMB"} <= set(attributes)
    assert {"pid", "usedGpuMemory"} <= {n for n, _ in pynvml.c_nvmlProcessInfo_v3_t._fields_}


def test_a_gpu_is_read_whole() -> None:
    (gpu,) = read(A100).gpus
    assert gpu == Gpu(
        index=0,
        physical_index=0,
        uuid="GPU-a",
        name="NVIDIA A100-SXM4-80GB",
        memory_bytes=80 * GB,
        used_bytes=GB,
        compute_capability=(8, 0),
        numa_node=1,
        processes={7: GB},
    )
    assert gpu.devices == (gpu,)


def test_eight_gpus_are_in_the_drivers_order() -> None:
    found = read(*(FakeGpu(f"GPU-{n}") for n in range(8)))
    assert [(gpu.index, gpu.uuid) for gpu in found.gpus] == [(n, f"GPU-{n}") for n in range(8)]
    assert not found.problems


def test_gpus_with_and_without_mig_are_told_apart() -> None:
    small = FakeMig("MIG-1", processes={9: 5})
    large = FakeMig("MIG-2", "NVIDIA A100-SXM4-80GB MIG 3g.40gb", 40 * GB, slices=3)
    whole, divided = read(A100, FakeGpu("GPU-b", mig={0: small, 4: large}, processes={9: 5})).gpus
    assert (whole.is_mig, divided.is_mig) == (False, True)
    assert divided.devices == (
        MigDevice("MIG-1", "1g.10gb", 10 * GB, 0, {9: 5}),
        MigDevice("MIG-2", "3g.40gb", 40 * GB, 0),
    )
    assert not divided.processes


def test_a_gpu_in_mig_mode_without_parts_has_nothing_that_computes() -> None:
    (gpu,) = read(FakeGpu("GPU-b", mig={})).gpus
    assert gpu.devices == ()


def test_a_profile_that_is_in_no_name_is_made_of_its_sizes() -> None:
    part = FakeMig("MIG-1", "NVIDIA A100-SXM4-80GB", 40 * GB, slices=3)
    (gpu,) = read(FakeGpu("GPU-b", mig={0: part})).gpus
    assert gpu.mig_devices[0].profile == "3g.40gb"


def test_what_is_plugged_in_or_divided_later_is_seen_by_the_next_reading() -> None:
    nvml = FakeNvml(FakeGpu("GPU-a"))
    assert len(read_nvml(nvml).gpus) == 1
    nvml.gpus.append(FakeGpu("GPU-b"))
    nvml.gpus[0].mig = {0: FakeMig("MIG-1")}
    first, second = read_nvml(nvml).gpus
    assert (first.devices[0].uuid, second.uuid) == ("MIG-1", "GPU-b")
    nvml.gpus.pop(0)
    assert [gpu.uuid for gpu in read_nvml(nvml).gpus] == ["GPU-b"]
    assert nvml.open_count == 0


def test_a_machine_without_the_driver_has_no_gpus_and_says_why() -> None:
    assert read(A100, failing=("nvmlInit",)) == Inventory(problems=("NVML: Unknown Error",))


def test_a_lost_gpu_costs_itself_only() -> None:
    found = read(A100, FakeGpu("GPU-b"), failing=("nvmlDeviceGetHandleByIndex:GPU-a",))
    assert [(gpu.index, gpu.uuid) for gpu in found.gpus] == [(1, "GPU-b")]
    assert found.problems == ("GPU 0: Unknown Error",)


@pytest.mark.parametrize(
    ("call", "field", "value"),
    [
        ("nvmlDeviceGetName", "name", ""),
        ("nvmlDeviceGetMemoryInfo", "used_bytes", None),
        ("nvmlDeviceGetMemoryInfo", "memory_bytes", 0),
        ("nvmlDeviceGetCudaComputeCapability", "compute_capability", (0, 0)),
        ("nvmlDeviceGetNumaNodeId", "numa_node", None),
        ("nvmlDeviceGetMigMode", "is_mig", False),
        ("nvmlDeviceGetComputeRunningProcesses", "processes", {}),
        ("nvmlShutdown", "uuid", "GPU-a"),
    ],
)
def test_a_call_that_fails_costs_what_it_was_to_tell(call: str, field: str, value: object) -> None:
    (gpu,) = read(A100, failing=(call,)).gpus
    assert getattr(gpu, field) == value


def test_a_failing_count_leaves_no_gpus() -> None:
    found = read(A100, failing=("nvmlDeviceGetCount",))
    assert found == Inventory(problems=("the number of GPUs: Unknown Error",))


@pytest.mark.parametrize(("text", "node"), [("1\n", 1), ("-1\n", None), (None, None)])
def test_an_old_driver_leaves_the_numa_node_to_sysfs(
    tmp_path: Path, text: str | None, node: int | None
) -> None:
    if text is not None:
        folder = tmp_path / "bus/pci/devices/0000:3b:00.0"
        folder.mkdir(parents=True)
        (folder / "numa_node").write_text(text)
    (gpu,) = read_nvml(FakeNvml(FakeGpu("GPU-a")), str(tmp_path)).gpus
    assert gpu.numa_node == node


def test_a_process_whose_share_is_unknown_is_left_out() -> None:
    (gpu,) = read(FakeGpu("GPU-a", processes={7: None, 8: 3})).gpus
    assert gpu.processes == {8: 3}
