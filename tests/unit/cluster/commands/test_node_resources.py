# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""What `ray start` is told of a machine's GPUs."""

import json
import shlex

import pytest

from cluster.cli import main as manta
from cluster.commands.node_resources import NodeStart, main, node_start
from cluster.devices.inventory import AMD, Inventory
from tests.support.fake_nvml import FakeGpu, FakeMig, FakeNvml
from tests.support.gpu_clusters import gpu, mig_gpu


@pytest.mark.parametrize(
    ("gpus", "expected"),
    [
        pytest.param((), NodeStart(0, {}), id="none"),
        pytest.param((gpu(0), gpu(1)), NodeStart(2, {"gpu_0": 1, "gpu_1": 1}), id="two"),
        pytest.param(
            (mig_gpu(0, "3g.40gb", "1g.10gb", "1g.10gb"), gpu(1)),
            NodeStart(
                4,
                {"gpu_1": 1, "mig_1g.10gb": 2, "mig_3g.40gb": 1},
                "MIG-a00,MIG-a01,MIG-a02,GPU-a1",
            ),
            id="MIG beside a whole GPU",
        ),
        pytest.param((gpu(0, vendor=AMD),), NodeStart(1, {}), id="AMD"),
    ],
)
def test_each_device_is_a_resource(gpus: tuple, expected: NodeStart) -> None:
    assert node_start(Inventory(gpus)) == expected


def test_what_ray_is_started_with_is_what_its_processes_then_may_use() -> None:
    there = Inventory((mig_gpu(0, "1g.10gb", "1g.10gb"), gpu(1)))
    start = node_start(there)
    assert there.visible(start.visible_devices).usable(start.num_gpus) == there


def test_the_command_survives_a_shell() -> None:
    words = shlex.split(node_start(Inventory((mig_gpu(0, "1g.10gb"),))).command)
    assert words == [
        "CUDA_VISIBLE_DEVICES=MIG-a00",
        "ray",
        "start",
        "--num-gpus=1",
        '--resources={"mig_1g.10gb": 1}',
    ]


def test_gpus_are_shown_above_the_command(capsys: pytest.CaptureFixture[str]) -> None:
    nvml = FakeNvml(FakeGpu("GPU-a"), FakeGpu("GPU-b", mig={0: FakeMig("MIG-1")}))
    assert main([], nvml) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "# GPU 0: NVIDIA A100-SXM4-80GB (GPU-a), 81920 MiB"
    assert lines[1] == "# GPU 1: NVIDIA A100-SXM4-80GB (GPU-b), MIG: 1g.10gb"
    assert lines[2].startswith("CUDA_VISIBLE_DEVICES=GPU-a,MIG-1 ray start --num-gpus=2 ")


def test_json_has_the_inventory_too(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--json"], FakeNvml(FakeGpu("GPU-a"))) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["num_gpus"], found["gpus"][0]["uuid"]) == (1, "GPU-a")


def test_a_machine_without_a_gpu_says_why_and_how_to_start(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main([], FakeNvml(failing=("nvmlInit",))) == 0
    assert capsys.readouterr().out.splitlines() == [
        "# NVML: Unknown Error",
        "ray start --num-gpus=0",
    ]


def test_the_command_is_one_of_mantas(capsys: pytest.CaptureFixture[str]) -> None:
    assert manta(["node-resources"]) == 0
    assert "ray start --num-gpus=" in capsys.readouterr().out
