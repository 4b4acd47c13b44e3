# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""What the processes of a node may use of its GPUs."""

from pathlib import Path

from cluster.devices.inventory import AMD
from cluster.devices.local import read_local
from tests.support.fake_nvml import FakeGpu, FakeNvml

GPUS = FakeNvml(FakeGpu("GPU-a"), FakeGpu("GPU-b"))
NONE = FakeNvml(failing=("nvmlInit",))


def proc_of(folder: Path, environ: bytes) -> str:
    (folder / "self").mkdir()
    (folder / "self/environ").write_bytes(environ)
    return str(folder)


def test_gpus_hidden_from_ray_at_its_start_are_not_there(tmp_path: Path) -> None:
    proc = proc_of(tmp_path, b"HOME=/\0CUDA_VISIBLE_DEVICES=1\0LANG=C\0")
    assert [(g.index, g.uuid) for g in read_local(GPUS, proc, "/nowhere").gpus] == [(0, "GPU-b")]


def test_what_ray_does_to_the_variable_later_changes_nothing(tmp_path: Path) -> None:
    assert len(read_local(GPUS, proc_of(tmp_path, b"HOME=/\0"), "/nowhere").gpus) == 2
    assert len(read_local(GPUS, "/nowhere", "/nowhere").gpus) == 2


def test_gpus_of_amd_are_counted_and_named(tmp_path: Path) -> None:
    nodes = tmp_path / "class/kfd/kfd/topology/nodes"
    for number, properties in enumerate(("simd_count 0\n", "simd_count 440\nunique_id 255\n")):
        (nodes / str(number) / "mem_banks/0").mkdir(parents=True)
        (nodes / str(number) / "properties").write_text(properties)
        (nodes / str(number) / "name").write_text("gfx90a\n")
        (nodes / str(number) / "mem_banks/0/properties").write_text("size_in_bytes 1024\n")
    (gpu,) = read_local(NONE, "/nowhere", str(tmp_path)).gpus
    assert (gpu.index, gpu.uuid, gpu.name, gpu.memory_bytes) == (0, "GPU-ff", "gfx90a", 1024)
    assert gpu.vendor == AMD


def test_without_any_gpu_it_says_what_nvml_said() -> None:
    found = read_local(NONE, "/nowhere", "/nowhere")
    assert (found.gpus, found.problems) == ((), ("NVML: Unknown Error",))
