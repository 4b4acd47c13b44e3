# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Claims about the GPU report, on any machine."""

import base64
import json
import runpy
import subprocess
import sys
from typing import Any

import numpy as np
import onnxruntime
import pytest

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


def test_without_a_driver_everything_is_skipped_with_a_reason() -> None:
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
        "cuda_python",
        "torch",
        "onnxruntime",
    }
    if report["gpu_count"]:
        pytest.skip("this machine has a GPU")
    assert ran.returncode == 0
    assert "no GPU" in ran.stderr
    for check in report["checks"].values():
        assert check["outcome"] == "skipped"
        assert check["reason"]
