# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Several instances of an ONNX model as threads of one process, and as processes of their own.

Usage: bench_instances.py [--seconds S] [--rounds N] [--count K ...]. What is run is the backend
alone, without Ray and lanes: executions a second of all instances together, each with one thread to
compute with, and the memory of their own (USS) that the processes have which run them. Processes
are forked off one that has imported the backend, as workers are by the fork server. Medians of the
rounds. ADR 28 says what follows from it.
"""

import argparse
import json
import os
import statistics
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final, NamedTuple

import numpy as np
import psutil

from backends import registry
from backends.api.backend import ExecuteBatch, LoadContext, ModelInstance
from backends.api.errors import TritonError
from backends.api.model_config import ModelConfig
from backends.api.request import (
    InferenceRequest,
    InferenceResponse,
    Tensor,
    tensor_from_numpy,
)
from backends.config.pbtxt import parse_pbtxt

ROOT: Final = Path(__file__).resolve().parents[1] / "configs/models"
MODELS: Final = ("simple", "densenet_shaped")
COUNTS: Final = (1, 2, 4, 8)
WARM_UP: Final = 3


class Answered:
    """A request that goes nowhere."""

    is_cancelled = False

    def __init__(self, request: InferenceRequest) -> None:
        self.request = request

    def respond(self, response: InferenceResponse | None, *, final: bool = True) -> None:
        """Take an answer."""

    def fail(self, error: TritonError, *, final: bool = True) -> None:
        """Take an error.

        Raises:
            TritonError: Always.
        """
        raise error

    def reschedule(self) -> None:
        """Do nothing: no model here asks for it."""


class Rate(NamedTuple):
    """What instances did together."""

    executions: float
    memory_mb: float


def inputs_of(config: ModelConfig) -> list[Tensor]:
    """Return one row for each input of a model."""
    dims = [(each.name, each.datatype, (1, *each.dims)) for each in config.input]
    kinds = {"FP32": np.float32, "INT32": np.int32}
    return [
        tensor_from_numpy(name, np.ones(shape, kinds[datatype])) for name, datatype, shape in dims
    ]


def load(name: str) -> tuple[ModelInstance, Answered]:
    """Load one instance of a demo model, and make a request for it."""
    folder = ROOT / name
    config = parse_pbtxt((folder / "config.pbtxt").read_text(), str(folder))
    context = LoadContext(config, str(folder), 1, f"{name}_0")
    backend = registry.backend_for(context)
    config = backend.auto_complete(context)
    context = LoadContext(config, str(folder), 1, f"{name}_0")
    return backend.load(context), Answered(InferenceRequest(name, 1, "", inputs_of(config)))


def count_executions(instance: ModelInstance, request: Answered, seconds: float) -> int:
    """Execute for some seconds; returns how often."""
    batch = ExecuteBatch([request])
    for _ in range(WARM_UP):
        instance.execute(batch)
    count = 0
    end_s = time.perf_counter() + seconds
    while time.perf_counter() < end_s:
        instance.execute(batch)
        count += 1
    return count


def run_threads(name: str, count: int, seconds: float) -> int:
    """Run instances as threads of this process."""
    counts: list[int] = []
    loaded = [load(name) for _ in range(count)]

    def run(at: int) -> None:
        counts.append(count_executions(*loaded[at], seconds))

    threads = [threading.Thread(target=run, args=(at,)) for at in range(count)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    return sum(counts)


def forked(work: Callable[[], int], processes: int) -> Rate:
    """Do work in children at once; returns what they count, and their memory, summed up."""
    children = []
    for _ in range(processes):
        reading, writing = os.pipe()
        pid = os.fork()
        if not pid:
            os.close(reading)
            done = work()
            memory = psutil.Process().memory_full_info()
            os.write(writing, json.dumps([done, memory.uss / 1e6]).encode())
            os._exit(0)
        os.close(writing)
        children.append((pid, reading))
    found = []
    for pid, reading in children:
        with os.fdopen(reading, "rb") as pipe:
            found.append(json.loads(pipe.read()))
        os.waitpid(pid, 0)
    return Rate(sum(each[0] for each in found), sum(each[1] for each in found))


def main() -> int:
    """Measure what the command line says."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=3.0)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--count", type=int, nargs="*", default=list(COUNTS))
    given = parser.parse_args()
    registry.create_backend("onnxruntime")
    print("| model | instances | threads /s | processes /s | threads MB | processes MB |")
    print("|---|---|---|---|---|---|")
    for name in MODELS:
        for count in given.count:
            rounds = []
            for _ in range(given.rounds):
                one = forked(lambda: run_threads(name, count, given.seconds), 1)  # noqa: B023 - run at once
                own = forked(lambda: run_threads(name, 1, given.seconds), count)  # noqa: B023 - likewise
                rounds.append((one.executions, own.executions, one.memory_mb, own.memory_mb))
            medians = [statistics.median(each) for each in zip(*rounds, strict=True)]
            rates = " | ".join(f"{each / given.seconds:.0f}" for each in medians[:2])
            memory = " | ".join(f"{each:.0f}" for each in medians[2:])
            print(f"| {name} | {count} | {rates} | {memory} |", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
