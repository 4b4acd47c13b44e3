# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Claims about the GPU report, on any machine."""

import base64
import importlib
import json
import platform
import runpy
import subprocess
import sys
from types import ModuleType
from typing import Any

import numpy as np
import onnxruntime
import pytest

from cluster.devices.nvml import read_nvml
from tests.support.fake_nvml import FakeGpu, FakeMig, FakeNvml
from tests.support.server import ROOT

SCRIPT = ROOT / "scripts/gpu_check.py"
LISTED = """GPU 0: NVIDIA A100-SXM4-40GB (UUID: GPU-aa)
  MIG 1g.5gb      Device  0: (UUID: MIG-1)
  MIG 3g.20gb     Device  1: (UUID: MIG-2)
GPU 1: NVIDIA H200 (UUID: GPU-bb)
"""


@pytest.fixture(scope="module")
def script() -> dict[str, Any]:
    return runpy.run_path(str(SCRIPT))


def test_gpus_and_their_mig_devices_are_read_from_nvidia_smi(script: dict[str, Any]) -> None:
    first, second = script["parse_list"](LISTED)
    assert (first["index"], first["name"], first["uuid"]) == (0, "NVIDIA A100-SXM4-40GB", "GPU-aa")
    assert [(mig["index"], mig["profile"]) for mig in first["mig"]] == [
        (0, "1g.5gb"),
        (1, "3g.20gb"),
    ]
    assert (second["index"], second["mig"]) == (1, [])


@pytest.mark.parametrize(
    ("outcomes", "gpus", "require_gpu", "code"),
    [
        (["skipped", "skipped"], 0, False, 0),
        (["skipped", "skipped"], 0, True, 3),
        (["passed", "skipped"], 1, True, 0),
        (["passed", "failed"], 1, False, 1),
    ],
)
def test_exit_code_tells_failures_from_missing_gpus(
    script: dict[str, Any], outcomes: list[str], gpus: int, require_gpu: bool, code: int
) -> None:
    checks = {str(index): {"outcome": outcome} for index, outcome in enumerate(outcomes)}
    report = {"gpu_count": gpus, "checks": checks}
    assert script["exit_code"](report, require_gpu=require_gpu) == code


def test_a_check_that_raises_is_a_failure_of_its_own(script: dict[str, Any]) -> None:
    def broken() -> None:
        raise OSError("libcudnn.so.9 is not there")

    assert script["outcome_of"](broken) == {
        "outcome": "failed",
        "reason": "OSError: libcudnn.so.9 is not there",
    }


def test_the_tiny_model_doubles_its_input(script: dict[str, Any]) -> None:
    session = onnxruntime.InferenceSession(
        base64.b64decode(script["ADD_MODEL"]), providers=["CPUExecutionProvider"]
    )
    (doubled,) = session.run(None, {"x": np.arange(4, dtype=np.float32)})
    assert doubled.tolist() == [0, 2, 4, 6]


@pytest.fixture
def on_torch(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    pytest.importorskip("torch")
    monkeypatch.syspath_prepend(str(SCRIPT.parent))
    return importlib.import_module("gpu_check_torch")


@pytest.mark.slow
def test_an_instance_answers_here_and_in_another_process_as_on_the_cpu(
    on_torch: ModuleType,
) -> None:
    assert on_torch.placement("cpu") == {"largest_difference": 0.0, "in_another_process": 0.0}


@pytest.mark.slow
def test_every_datatype_comes_back_from_an_instance(on_torch: ModuleType) -> None:
    found = on_torch.datatypes("cpu")
    assert len(found) == 13
    assert "BF16" in found


def test_an_instance_in_bfloat16_answers_nearly_as_in_fp32(on_torch: ModuleType) -> None:
    assert 0 < on_torch.autocast("cpu")["bfloat16"]["largest_difference"] < 0.01


@pytest.mark.slow
def test_weights_of_another_process_are_read_and_their_end_is_reported(
    on_torch: ModuleType,
) -> None:
    found = on_torch.weights_through_ipc("cpu")
    # Memory of the CPU lives as long as anybody has it; on a GPU it is what is to be found out.
    assert found == {"cost_bytes": 0, "after_a_crash_of_their_process": "the same"}


def test_answers_from_the_wrong_device_or_too_far_away_are_failures(on_torch: ModuleType) -> None:
    answers = [{"y__0": np.zeros(2), "on_gpu__1": np.zeros((1, 2))}]
    with pytest.raises(RuntimeError, match="on a GPU"):
        on_torch._check_places(answers, "cuda")
    with pytest.raises(AssertionError, match=r"differ by 0\.5"):
        on_torch._compare(answers, [{"y__0": np.full(2, 0.5)}], 0.1)


def test_providers_that_are_not_there_are_named_by_the_instance_that_needs_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.syspath_prepend(str(SCRIPT.parent))
    if "CUDAExecutionProvider" in onnxruntime.get_available_providers():
        pytest.skip("this onnxruntime has providers of GPUs")
    found = importlib.import_module("gpu_check_backends").onnxruntime_providers()
    assert set(found) == {"CUDAExecutionProvider", "TensorrtExecutionProvider"}
    for text in found.values():
        assert "KIND_GPU but the installed onnxruntime has no CUDA support" in text


@pytest.fixture
def on_devices(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(SCRIPT.parent))
    return importlib.import_module("gpu_check_devices")


def test_what_manta_reads_of_gpus_is_compared_with_nvidia_smi(on_devices: ModuleType) -> None:
    parts = {0: FakeMig("MIG-1", "A100 MIG 1g.5gb"), 1: FakeMig("MIG-2", "A100 MIG 3g.20gb")}
    divided = FakeGpu("GPU-aa", "NVIDIA A100-SXM4-40GB", mig=parts)
    nvml = FakeNvml(divided, FakeGpu("GPU-bb", "NVIDIA H200", capability=(9, 0)))
    listed = importlib.import_module("gpu_check").parse_list(LISTED)
    row = {"memory.total": "81920", "compute_cap": "8.0", "mig.mode.current": "Enabled"}
    whole = {"memory.total": "81559", "compute_cap": "9.0", "mig.mode.current": "Disabled"}
    rows = {"GPU-aa": row, "GPU-bb": whole}
    assert on_devices.compare(read_nvml(nvml), listed, rows) == []
    rows["GPU-bb"] = {**whole, "memory.total": "40000", "compute_cap": "8.9"}
    parts.pop(1)
    assert on_devices.compare(read_nvml(nvml), listed, rows) == [
        "MIG of GPU-aa: Manta reads [('1g.5gb', 'MIG-1')], nvidia-smi shows"
        " [('1g.5gb', 'MIG-1'), ('3g.20gb', 'MIG-2')]",
        "compute capability of GPU-bb: Manta reads 9.0, nvidia-smi shows 8.9",
        "MiB of GPU-bb: Manta reads 81920, nvidia-smi shows 40000",
    ]
    assert "GPUs: Manta reads" in on_devices.compare(read_nvml(nvml), listed[:1], rows)[0]


def test_without_mantas_packages_its_backends_are_skipped(
    script: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(script["module_beside"].__globals__, "MANTA_NEEDS", (99, 0))
    assert script["outcome_of"](script["CHECKS"]["onnxruntime_providers"]) == {
        "outcome": "skipped",
        "reason": f"Manta needs Python 99.0, this is {platform.python_version()}",
    }


def test_without_a_driver_everything_is_skipped_with_a_reason(script: dict[str, Any]) -> None:
    # -S keeps installed packages out, as on a bare machine; no PATH, no nvidia-smi.
    ran = subprocess.run(
        [sys.executable, "-S", SCRIPT],
        capture_output=True,
        text=True,
        timeout=60,
        env={},
        check=False,
    )
    report = json.loads(ran.stdout)
    assert set(report["checks"]) == {
        "gpus",
        "driver",
        "cuda_ipc",
        "inventory",
        "gpu_memory",
        "visible_by_uuid",
        "cuda_python",
        "torch",
        "onnxruntime",
        "cuda_ipc_torch",
        "torch_placement",
        "torch_kind_model",
        "torch_datatypes",
        "torch_autocast",
        "torch_cache_cleaning",
        "torch_out_of_memory",
        "torch_weights_through_ipc",
        "onnxruntime_providers",
        *script["OF_SERVER"],
    }
    if report["gpu_count"]:
        pytest.skip("this machine has a GPU")
    assert ran.returncode == 0
    assert "no GPU" in ran.stderr
    for check in report["checks"].values():
        assert check["outcome"] == "skipped"
        assert check["reason"]
