# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""What a start takes, Manta beside the reference Triton: time, CPU, memory and processes.

Usage: bench_starts.py [--rounds N] [--only manta|triton]; also part of bench_lifecycle.py. Times
are from the command to the first answer that the server is ready, medians of the rounds.
"""

import argparse
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final, NamedTuple

import psutil
from bench_servers import ROOT, SERVERS, NotReadyError

DEMO: Final = ROOT / "configs/models"
ONNX_MODEL: Final = "simple"
PYTHON_MODELS: Final = 10
ROUNDS: Final = 3
# Processes go on with what may wait until a server is ready.
SETTLE_S: Final = 2.0
MODEL: Final = """
import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def execute(self, requests):
        return [pb_utils.InferenceResponse(output_tensors=[pb_utils.Tensor(
            "OUTPUT0", pb_utils.get_input_tensor_by_name(request, "INPUT0").as_numpy())])
            for request in requests]
"""
CONFIG: Final = """
backend: "python"
input [ { name: "INPUT0" data_type: TYPE_FP32 dims: [ -1 ] } ]
output [ { name: "OUTPUT0" data_type: TYPE_FP32 dims: [ -1 ] } ]
"""


class Start(NamedTuple):
    """What one start took."""

    ready_s: float
    cpu_s: float
    memory_mb: float
    processes: float


def write_python_model(repository: Path, name: str) -> None:
    """Write a model that gives back what it gets."""
    version = repository / name / "1"
    version.mkdir(parents=True)
    (version / "model.py").write_text(MODEL)
    (version.parent / "config.pbtxt").write_text(CONFIG)


def repositories(folder: Path) -> dict[str, Path]:
    """Return what is served, by its name."""
    empty, onnx, python = (folder / name for name in ("empty", "onnx", "python"))
    empty.mkdir()
    shutil.copytree(DEMO / ONNX_MODEL, onnx / ONNX_MODEL)
    for number in range(PYTHON_MODELS):
        write_python_model(python, f"echo_{number}")
    found = {"empty": empty, "one ONNX model": onnx, f"{PYTHON_MODELS} Python models": python}
    return {**found, "demo repository": DEMO}


def start(name: str, repository: Path, work: Path) -> Start:
    """Start a server, and end it.

    Raises:
        NotReadyError: It does not get ready.
    """
    began_s = time.monotonic()
    with SERVERS[name]([repository], work) as target:
        ready_s = time.monotonic() - began_s
        time.sleep(SETTLE_S)
        seconds = target.processes()
        memory = 0
        for pid in seconds:
            try:
                memory += psutil.Process(pid).memory_full_info().pss
            except psutil.Error:
                continue
        return Start(ready_s, sum(seconds.values()), memory / 1e6, len(seconds))


def measure_starts(names: Sequence[str], rounds: int) -> None:
    """Print a table."""
    print("| served | server | ready s | CPU s | PSS MB | processes |\n|---|---|---|---|---|---|")
    with tempfile.TemporaryDirectory(prefix="manta-starts-") as folder:
        work = Path(folder, "work")
        work.mkdir()
        for served, repository in repositories(Path(folder)).items():
            for name in names:
                try:
                    found = [start(name, repository, work) for _ in range(rounds)]
                except NotReadyError as error:
                    print(f"| {served} | {name} | {str(error).splitlines()[0]} | | | |")
                    continue
                medians = [statistics.median(each) for each in zip(*found, strict=True)]
                row = " | ".join(f"{each:.1f}" for each in medians[:2])
                print(f"| {served} | {name} | {row} | {medians[2]:.0f} | {medians[3]:.0f} |")


def main() -> int:
    """Measure what the command line says."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--only", choices=sorted(SERVERS))
    given = parser.parse_args()
    measure_starts([given.only] if given.only else sorted(SERVERS), given.rounds)
    return 0


if __name__ == "__main__":
    sys.exit(main())
