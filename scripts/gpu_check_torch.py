# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""The PyTorch backend on a GPU, for gpu_check.py: instances are loaded here, without Ray.

Those that take a device run on the CPU too, so that they are not only run where a GPU is.
"""

import gc
import json
import multiprocessing
import os
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable
from multiprocessing.connection import Connection
from typing import Any

import numpy as np
import torch

# Teaches the connections of multiprocessing to pass handles of tensors.
import torch.multiprocessing
from gpu_check_backends import Arrays, context_of, execute, load
from torch import nn

from backends.api.backend import LoadContext
from backends.api.errors import TritonError
from backends.pytorch.datatypes import TORCH_DTYPE, as_array

TOLERANCE = 1e-5
HALF_TOLERANCE = 1e-2
WAIT_S = 120
MIB = 1 << 20
WEIGHTS_BYTES = 256 * MIB
# Of the weights, what a second process may need for itself.
MAY_COST = 0.2
TIMED_SIZE = 8192
TIMED_RUNS = 10

LAYERS = """
name: "layers" platform: "pytorch_libtorch" max_batch_size: 64
input { name: "x__0" data_type: TYPE_FP32 dims: [ 64 ] }
output { name: "y__0" data_type: TYPE_FP32 dims: [ 10 ] }
output { name: "on_gpu__1" data_type: TYPE_FP32 dims: [ 2 ] }
"""
ECHO = """
name: "echo_{0}" platform: "pytorch_libtorch"
input {{ name: "x__0" data_type: TYPE_{0} dims: [ -1 ] }}
output {{ name: "y__0" data_type: TYPE_{0} dims: [ -1 ] }}
"""
HUNGRY = """
name: "hungry" platform: "pytorch_libtorch"
input { name: "bytes__0" data_type: TYPE_INT64 dims: [ 1 ] }
output { name: "first__0" data_type: TYPE_UINT8 dims: [ 1 ] }
"""
CLEANS = 'parameters { key: "ENABLE_CACHE_CLEANING" value { string_value: "true" } }'
AUTOCAST = 'parameters {{ key: "AUTOCAST" value {{ string_value: "{}" }} }}'


class Layers(nn.Module):
    """Two seeded layers; also tells whether input and weights are on a GPU."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.first = nn.Linear(64, 256)
        self.second = nn.Linear(256, 10)

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        y = self.second(torch.relu(self.first(x))).float()
        places = torch.tensor([[float(x.is_cuda), float(self.first.weight.is_cuda)]])
        return y, places.expand(x.shape[0], 2).clone()


class Echo(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x.clone()


class Hungry(nn.Module):
    """Takes as many bytes of the device as it is told."""

    def forward(self, size: torch.Tensor) -> torch.Tensor:
        taken = torch.empty([int(size.item())], dtype=torch.uint8, device=size.device)
        taken[:1] = 7
        return taken[:1].clone()


def placement(device: str = "cuda") -> dict[str, Any]:
    """An instance answers as one on the CPU does, from its device, and so does another process."""
    with tempfile.TemporaryDirectory() as folder:
        inputs = _inputs()
        expected = _answers(_saved(folder, LAYERS, Layers(), "cpu"), inputs)
        got = _answers(_saved(folder, LAYERS, Layers(), device), inputs)
        worst = _compare(got, expected, TOLERANCE)
        _check_places(got, device)
        child = _other_process(folder, device)
        return {"largest_difference": worst, "in_another_process": _compare(child, expected, 1e-4)}


def kind_model() -> dict[str, Any]:
    """A model that was saved on the GPU stays there under KIND_MODEL; inputs come from the CPU."""
    with tempfile.TemporaryDirectory() as folder:
        inputs = _inputs()
        expected = _answers(_saved(folder, LAYERS, Layers(), "cpu"), inputs)
        context = context_of(folder, LAYERS, kind="MODEL")
        _script(Moving(Layers().cuda()), context)
        got = _answers(context, inputs)
        if any(each["on_gpu__1"].min() == 0.0 for each in got):
            raise RuntimeError("a model that was saved on the GPU does not stay there")
        return {"largest_difference": _compare(got, expected, TOLERANCE)}


class Moving(nn.Module):
    """A model that takes its inputs to the GPU itself."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return self.model(x.cuda())


def datatypes(device: str = "cuda") -> list[str]:
    """Tensors of every datatype come back as they went."""
    with tempfile.TemporaryDirectory() as folder:
        for name, dtype in TORCH_DTYPE.items():
            array = as_array(torch.tensor([0, 1, 1, 0]).to(dtype))
            context = _saved(folder, ECHO.format(name), Echo(), device)
            (answer,) = _answers(context, [{"x__0": array}])
            if answer["y__0"].tobytes() != array.tobytes():
                raise RuntimeError(f"{name}: {array} comes back as {answer['y__0']}")
    return list(TORCH_DTYPE)


def autocast(device: str = "cuda") -> dict[str, Any]:
    """Half precision answers nearly as FP32 does, and is faster where matrices are large."""
    kinds = ["bfloat16"] if device == "cpu" else ["float16", "bfloat16"]
    found: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as folder:
        inputs = _inputs()
        expected = _answers(_saved(folder, LAYERS, Layers(), "cpu"), inputs)
        for kind in kinds:
            text = LAYERS + AUTOCAST.format(kind)
            got = _answers(_saved(folder, text, Layers(), device), inputs)
            worst = _compare(got, expected, HALF_TOLERANCE)
            if not worst:
                raise RuntimeError(f"{kind}: not a bit differs from FP32, so it was not used")
            found[kind] = {"largest_difference": worst}
    if device == "cuda":
        found["seconds_of_a_product"] = _timed_products(kinds)
    return found


def _timed_products(kinds: list[str]) -> dict[str, float]:
    """Time products of 8192 x 8192 matrices; the GPU has to be faster in half precision."""
    matrix = torch.rand(TIMED_SIZE, TIMED_SIZE, device="cuda")
    seconds = {"float32": _timed(lambda: matrix @ matrix)}
    for kind in kinds:
        if kind == "bfloat16" and torch.cuda.get_device_capability()[0] < 8:  # noqa: PLR2004 - Ampere
            continue
        with torch.autocast("cuda", dtype=getattr(torch, kind)):
            seconds[kind] = _timed(lambda: matrix @ matrix)
        if seconds[kind] >= seconds["float32"]:
            raise RuntimeError(f"{kind} is not faster than FP32: {seconds}")
    return seconds


def _timed(run: Callable[[], object]) -> float:
    run()
    torch.cuda.synchronize()
    started = time.perf_counter()
    for _ in range(TIMED_RUNS):
        run()
    torch.cuda.synchronize()
    return (time.perf_counter() - started) / TIMED_RUNS


def cache_cleaning() -> dict[str, int]:
    """With ENABLE_CACHE_CLEANING the memory of an execution is given back."""
    reserved = {}
    size = np.array([WEIGHTS_BYTES])
    with tempfile.TemporaryDirectory() as folder:
        for name, text in (("kept_bytes", HUNGRY), ("cleaned_bytes", HUNGRY + CLEANS)):
            instance = load(_saved(folder, text, Hungry(), "cuda"))
            execute(instance, {"bytes__0": size})
            reserved[name] = torch.cuda.memory_reserved()
            instance.close()
    if reserved["kept_bytes"] - reserved["cleaned_bytes"] < WEIGHTS_BYTES:
        raise RuntimeError(f"the GPU's memory is not given back: {reserved}")
    return reserved


def out_of_memory() -> str:
    """A request that needs more memory than there is gets PyTorch's text; the next is answered."""
    total = torch.cuda.get_device_properties(0).total_memory
    with tempfile.TemporaryDirectory() as folder:
        instance = load(_saved(folder, HUNGRY, Hungry(), "cuda"))
        try:
            execute(instance, {"bytes__0": np.array([2 * total])})
        except TritonError as error:
            message = error.message
        else:
            raise RuntimeError("twice the GPU's memory was to be had")
        if "out of memory" not in message:
            raise RuntimeError(f"the text does not tell what happened: {message}")
        (answer,) = execute(instance, {"bytes__0": np.array([MIB])})
        if answer["first__0"].tolist() != [7] or not instance.is_ready():
            raise RuntimeError("the instance does not go on after it")
        return message


def weights_through_ipc(device: str = "cuda") -> dict[str, Any]:
    """Weights of one process are read by another, through PyTorch's CUDA IPC, at no cost of memory.

    Also finds out what they are worth once their process has crashed.
    """
    spawn = multiprocessing.get_context("spawn")
    to_importer, from_exporter = spawn.Pipe()
    exporter, exporter_side = spawn.Pipe()
    importer, importer_side = spawn.Pipe()
    processes = [
        spawn.Process(target=_export_weights, args=(exporter_side, to_importer, device)),
        spawn.Process(target=_import_weights, args=(importer_side, from_exporter, device)),
    ]
    for process in processes:
        process.start()
    try:
        _told(exporter)
        _told(importer)
        free_before = _free_bytes(device)
        exporter.send("share")
        is_same = _told(importer)
        cost_bytes = free_before - _free_bytes(device)
        exporter.send("crash")
        processes[0].join(WAIT_S)
        importer.send("read again")
        after = _told(importer)
    finally:
        for process in processes:
            process.kill()
            process.join()
    if not is_same:
        raise RuntimeError("the other process reads other weights")
    if cost_bytes > MAY_COST * WEIGHTS_BYTES:
        raise RuntimeError(f"they cost {cost_bytes} bytes once more, of {WEIGHTS_BYTES}")
    return {"cost_bytes": cost_bytes, "after_a_crash_of_their_process": after}


def _free_bytes(device: str) -> int:
    return torch.cuda.mem_get_info()[0] if device == "cuda" else 0


def _told(connection: Connection) -> Any:
    if not connection.poll(WAIT_S):
        raise RuntimeError(f"a process with weights says nothing for {WAIT_S} seconds")
    return connection.recv()


def _export_weights(main: Connection, to_importer: Connection, device: str) -> None:
    weights = torch.ones(WEIGHTS_BYTES // 4, device=device)
    _total(weights)
    main.send("ready")
    main.recv()
    to_importer.send(weights)
    main.recv()
    os._exit(1)


def _import_weights(main: Connection, from_exporter: Connection, device: str) -> None:
    # So that what CUDA itself takes is not counted as theirs.
    _total(torch.ones(1, device=device))
    main.send("ready")
    weights = from_exporter.recv()
    main.send(_total(weights) == WEIGHTS_BYTES // 4)
    main.recv()
    try:
        is_same = _total(weights) == WEIGHTS_BYTES // 4
    except RuntimeError as error:
        main.send(f"cannot be read: {str(error).splitlines()[0]}")
    else:
        main.send("the same" if is_same else "have changed")


def _total(weights: torch.Tensor) -> float:
    # As many ones as FP32 counts exactly.
    return sum(float(row.sum()) for row in weights.split(MIB))


def _script(module: nn.Module, context: LoadContext) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        torch.jit.script(module.eval()).save(context.model_path("model.pt"))


def _saved(folder: str, config: str, module: nn.Module, device: str) -> LoadContext:
    """Write a model; return the context of an instance of it on the device."""
    context = context_of(folder, config, kind="GPU" if device == "cuda" else "CPU")
    _script(module, context)
    return context


def _inputs() -> list[Arrays]:
    """Return requests of 1 to 32 rows, 63 in all."""
    random = np.random.default_rng(0)
    return [
        {"x__0": random.standard_normal((rows, 64)).astype(np.float32)}
        for rows in (1, 2, 4, 8, 16, 32)
    ]


def _answers(context: LoadContext, inputs: list[Arrays]) -> list[Arrays]:
    """Return the answers to requests in one batch, which have to be those to each alone."""
    instance = load(context)
    try:
        together = execute(instance, *inputs)
        alone = [execute(instance, each)[0] for each in inputs]
    finally:
        instance.close()
        gc.collect()
    for first, second in zip(together, alone, strict=True):
        for name, array in first.items():
            if array.dtype == np.float32:
                np.testing.assert_allclose(array, second[name], HALF_TOLERANCE, HALF_TOLERANCE)
    return together


def _compare(got: list[Arrays], expected: list[Arrays], tolerance: float) -> float:
    """Return the largest difference.

    Raises:
        AssertionError: It is larger than is allowed.
    """
    worst = 0.0
    for mine, its in zip(got, expected, strict=True):
        difference = float(np.abs(mine["y__0"] - its["y__0"]).max())
        worst = max(worst, difference)
    if worst > tolerance:
        raise AssertionError(f"answers differ by {worst} from the CPU's, {tolerance} is allowed")
    return worst


def _check_places(answers: list[Arrays], device: str) -> None:
    for each in answers:
        if each["on_gpu__1"].min() != float(device == "cuda"):
            raise RuntimeError(f"input and weights are on a GPU: {each['on_gpu__1'][0].tolist()}")


def _other_process(folder: str, device: str) -> list[Arrays]:
    """Return the answers of an instance in another process, which sees the last GPU only."""
    last = max(torch.cuda.device_count() - 1, 0)
    seen = os.environ.get("CUDA_VISIBLE_DEVICES", "").split(",")
    pinned = seen[last] if last < len(seen) and seen[last] else str(last)
    ran = subprocess.run(
        [sys.executable, __file__, folder, device],
        env={**os.environ, "CUDA_VISIBLE_DEVICES": pinned, "PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        text=True,
        timeout=WAIT_S,
        check=False,
    )
    if ran.returncode:
        raise RuntimeError(f"other process: {ran.stderr.strip()[-500:]}")
    rows = json.loads(ran.stdout.splitlines()[-1])
    return [{"y__0": np.array(each, np.float32)} for each in rows]


def _be_other_process(folder: str, device: str) -> None:
    context = context_of(folder, LAYERS, kind="GPU" if device == "cuda" else "CPU")
    answers = _answers(context, _inputs())
    _check_places(answers, device)
    print(json.dumps([each["y__0"].tolist() for each in answers]))


if __name__ == "__main__":
    _be_other_process(*sys.argv[1:])
