# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""A server on a GPU, for gpu_check.py: started with Ray, asked with stock clients.

All checks share one server. Needs what Manta needs, tritonclient, PyTorch and cuda-bindings; ONNX
Runtime for CUDA and torchvision are used where they are.
"""

import base64
import csv
import os
import signal
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any
from unittest import SkipTest

import numpy as np
import onnxruntime
import psutil
import torch
from gpu_check import ADD_MODEL
from gpu_check_devices import read
from gpu_check_models import ADD, DEVICE, RESNET, saved, served, write_model
from gpu_check_torch import Layers
from torch import nn
from tritonclient import grpc, http

ROOT = Path(__file__).resolve().parents[1]
PATIENCE_S = 60.0
TOLERANCE = 1e-5

Array = np.ndarray[Any, Any]
INSTANCES = 2
SLACK_BYTES = 256 << 20


def _clients() -> list[tuple[ModuleType, Any]]:
    server = served()
    return [
        (http, http.InferenceServerClient(server.http)),
        (grpc, grpc.InferenceServerClient(server.grpc)),
    ]


def _control() -> Any:
    return _clients()[1][1]


def _input(module: ModuleType, name: str, array: Array) -> Any:
    made = module.InferInput(name, list(array.shape), "FP32")
    made.set_data_from_numpy(array)
    return made


def _same(what: str, got: Any, expected: Array, tolerance: float = TOLERANCE) -> None:
    worst = float(np.abs(np.asarray(got, np.float64) - expected).max())
    if not worst <= tolerance:
        raise RuntimeError(f"{what} differs by {worst}")


def _rows(count: int) -> tuple[Array, Array]:
    """Return inputs of `Layers` and the CPU's answers."""
    x = np.random.default_rng(count).standard_normal((count, 64)).astype(np.float32)
    with torch.inference_mode():
        return x, Layers().eval()(torch.from_numpy(x))[0].numpy()


def _seconds(run: Callable[[], object]) -> float:
    started = time.monotonic()
    run()
    return round(time.monotonic() - started, 2)


def server_torch() -> dict[str, Any]:
    """Two instances on the GPU answer as the CPU does, also as a step of an ensemble."""
    start_s = _seconds(served)
    control = _control()
    load_s = _seconds(lambda: control.load_model("layers"))
    for each in ("doubled", "chain"):
        control.load_model(each)
    for module, client in _clients():
        for count in (1, 7, 64):
            x, expected = _rows(count)
            answer = client.infer("layers", [_input(module, "x__0", x)])
            _same("layers", answer.as_numpy("y__0"), expected)
            if answer.as_numpy("on_gpu__1").min() != float(DEVICE == "cuda"):
                raise RuntimeError("input and weights are not on the GPU")
            answer = client.infer("chain", [_input(module, "x", x)])
            _same("chain", answer.as_numpy("z"), 2 * expected, 2 * TOLERANCE)
    pids = [each.pid for each in served().processes("ray::layers/1")]
    return {"start_s": start_s, "load_s": load_s, "instances": len(pids), "memory": _held(pids)}


def _held(pids: list[int]) -> dict[str, int] | str:
    """Return the bytes of GPU memory of processes, as Manta reads them."""
    if DEVICE == "cpu":
        return "no GPU"
    found = {
        str(pid): device.processes[pid]
        for gpu in read().gpus
        for device in gpu.devices
        for pid in pids
        if pid in device.processes
    }
    return found or "NVML does not know these processes by their numbers"


def server_placement() -> dict[str, Any]:
    """A model without an instance group goes to the GPU, and so do quarters of one by Ray."""
    found: dict[str, Any] = {}
    x, expected = _rows(3)
    module, client = _clients()[1]
    for model, count in (("automatic", 1), ("quarter", 3)):
        client.load_model(model)
        answer = client.infer(model, [_input(module, "x__0", x)])
        _same(model, answer.as_numpy("y__0"), expected)
        if answer.as_numpy("on_gpu__1").min() != float(DEVICE == "cuda"):
            raise RuntimeError(f"{model} is not on the GPU")
        pids = [each.pid for each in served().processes(f"ray::{model}/1")]
        if len(pids) != count:
            raise RuntimeError(f"{model} has {len(pids)} instances")
        found[model] = _held(pids)
        client.unload_model(model)
        _until("unloaded model", lambda: not served().processes(f"ray::{model}/1"))  # noqa: B023
    return found


def server_python_tensors() -> str:
    """A model.py answers with tensors that are in the GPU's memory, as capsules and as objects."""
    _control().load_model("doubled")
    x = np.random.default_rng(0).standard_normal((4, 1000)).astype(np.float32)
    for module, client in _clients():
        answer = client.infer("doubled", [_input(module, "X", x)])
        _same("Y", answer.as_numpy("Y"), 2 * x, 0)
        _same("BFLOAT", answer.as_numpy("BFLOAT"), 2 * x, 0.05)
        if (answer.as_numpy("MASK") != (x > 0)).any():
            raise RuntimeError("MASK differs")
    return "FP32, BF16 and BOOL"


def server_onnxruntime() -> dict[str, Any]:
    """A model on the CUDA provider answers, and its process is on the GPU."""
    if DEVICE == "cuda" and "CUDAExecutionProvider" not in onnxruntime.get_available_providers():
        raise SkipTest(f"onnxruntime {onnxruntime.__version__} has no CUDA provider")
    write_model(served().repository, "add", ADD, {"model.onnx": base64.b64decode(ADD_MODEL)})
    load_s = _seconds(lambda: _control().load_model("add"))
    x = np.arange(4, dtype=np.float32)
    for module, client in _clients():
        answer = client.infer("add", [_input(module, "x", x)])
        _same("add", answer.as_numpy("y"), 2 * x, 0)
    pids = [each.pid for each in served().processes("ray::add/1")]
    return {"load_s": load_s, "memory": _held(pids)}


def server_cuda_shared_memory() -> dict[str, Any]:
    """Stock clients pass inputs and outputs in their own GPU memory, over both protocols."""
    import tritonclient.utils.cuda_shared_memory as shm  # noqa: PLC0415

    _control().load_model("layers")
    x, expected = _rows(64)
    found: dict[str, Any] = {}
    for module, client in _clients():
        given = shm.create_shared_memory_region("given", x.nbytes, 0)
        taken = shm.create_shared_memory_region("taken", expected.nbytes, 0)
        try:
            shm.set_shared_memory_region(given, [x])
            for name, region, size in (
                ("given", given, x.nbytes),
                ("taken", taken, expected.nbytes),
            ):
                client.register_cuda_shared_memory(name, shm.get_raw_handle(region), 0, size)
            asked = module.InferInput("x__0", list(x.shape), "FP32")
            asked.set_shared_memory("given", x.nbytes)
            wanted = module.InferRequestedOutput("y__0")
            wanted.set_shared_memory("taken", expected.nbytes)
            first_s = _seconds(lambda: client.infer("layers", [asked], outputs=[wanted]))  # noqa: B023
            _same("taken", shm.get_contents_as_numpy(taken, np.float32, expected.shape), expected)
            shm.set_shared_memory_region(given, [-x])
            client.infer("layers", [asked], outputs=[wanted])
            with torch.inference_mode():
                other = Layers().eval()(torch.from_numpy(-x))[0].numpy()
            _same("taken", shm.get_contents_as_numpy(taken, np.float32, expected.shape), other)
            client.unregister_cuda_shared_memory()
            found[module.__name__] = {"first_request_s": first_s}
        finally:
            shm.destroy_shared_memory_region(given)
            shm.destroy_shared_memory_region(taken)
    return found


def server_killed_instance() -> dict[str, Any]:
    """An instance that is killed costs no answer; it comes back, and its memory does."""
    _control().load_model("layers")
    x, expected = _rows(8)
    module, client = _clients()[1]
    asked = [_input(module, "x__0", x)]
    client.infer("layers", asked)
    used_before = _used_bytes()
    victim = served().processes("ray::layers/1")[0]
    os.kill(victim.pid, signal.SIGKILL)
    slowest_s = 0.0
    for _ in range(50):
        began_s = time.monotonic()
        answer = client.infer("layers", asked, client_timeout=PATIENCE_S)
        slowest_s = max(slowest_s, time.monotonic() - began_s)
        _same("layers", answer.as_numpy("y__0"), expected)
    back_s = _until("two instances", lambda: _count_without(victim.pid) == INSTANCES)
    _until("use of memory as before", lambda: abs(_used_bytes() - used_before) < SLACK_BYTES)
    return {"slowest_answer_s": round(slowest_s, 2), "back_after_s": back_s}


def _count_without(pid: int) -> int:
    return sum(each.pid != pid for each in served().processes("ray::layers/1"))


def _used_bytes() -> int:
    if DEVICE == "cpu":
        return 0
    free, total = torch.cuda.mem_get_info()
    return total - free


def _until(what: str, is_so: Callable[[], bool]) -> float:
    began_s = time.monotonic()
    while not is_so():
        if time.monotonic() - began_s > PATIENCE_S:
            raise RuntimeError(f"no {what} after {PATIENCE_S:.0f} s")
        time.sleep(0.1)
    return round(time.monotonic() - began_s, 2)


def server_memory() -> dict[str, Any]:
    """A model that was measured waits for memory that another has, and loads once it is free."""
    control = _control()
    first_s = _seconds(lambda: control.load_model("large"))
    pids = [each.pid for each in served().processes("ray::large/1")]
    held = _held(pids)
    if isinstance(held, str):
        raise SkipTest(held)
    # The controller looks every 10 s.
    time.sleep(12)
    control.unload_model("large", unload_dependents=False)
    _until("unloaded model", lambda: not served().processes("ray::large/1"))
    control.load_model("blocker")
    refused = ""
    try:
        control.load_model("large")
    except grpc.InferenceServerException as error:
        refused = error.message()
    reason = _reason("large")
    if "waiting for GPU memory: needs" not in reason:
        raise RuntimeError(f"the load ended with '{refused}', and the index says '{reason}'")
    control.unload_model("blocker")
    back_s = _until("model that has waited", lambda: control.is_model_ready("large"))
    control.unload_model("large")
    return {"load_s": first_s, "held": held, "refused": refused, "loads_after_s": back_s}


def _reason(model: str) -> str:
    rows = _control().get_model_repository_index().models
    return " ".join(f"{each.state} {each.reason}" for each in rows if each.name == model)


def server_metrics() -> dict[str, str]:
    """The metrics page shows the GPU as Triton's does."""
    with urllib.request.urlopen(f"http://{served().metrics}/metrics") as page:
        lines = page.read().decode().splitlines()
    found = dict(line.rsplit(" ", 1) for line in lines if line.startswith(("nv_gpu", "nv_energy")))
    missing = [
        each
        for each in ("utilization", "memory_total_bytes", "memory_used_bytes", "power_usage")
        if not any(name.startswith(f"nv_gpu_{each}{{gpu_uuid=") for name in found)
    ]
    if missing and DEVICE == "cuda":
        raise RuntimeError(f"{missing} are not on the page: {found}")
    return found


def server_speed() -> dict[str, Any]:
    """ResNet-50 in FP16 behind the server, beside its own bare loop with batches of 32."""
    try:
        from torchvision.models import resnet50  # noqa: PLC0415
    except ImportError as error:
        raise SkipTest(f"torchvision is not there: {error}") from None
    model = resnet50().eval()
    write_model(served().repository, "resnet", RESNET, saved(model, torch.zeros(1, 3, 224, 224)))
    found: dict[str, Any] = {"bare_loop_infer_per_s": _bare_loop(model)}
    _control().load_model("resnet")
    for shared_memory in ("none", "system"):
        for clients in (1, 64):
            found[f"{shared_memory}, {clients} in flight"] = _perf(shared_memory, clients)
    found["metrics"] = server_metrics()
    return found


def _bare_loop(model: nn.Module) -> float:
    model = model.to(DEVICE)
    batch = np.zeros((32, 3, 224, 224), np.float32)
    with torch.inference_mode(), torch.autocast(DEVICE, torch.float16):

        def run() -> None:
            model(torch.from_numpy(batch).to(DEVICE)).float().cpu().numpy()

        for _ in range(5):
            run()
        began_s = time.perf_counter()
        for _ in range(30):
            run()
    return round(30 * 32 / (time.perf_counter() - began_s), 1)


def _perf(shared_memory: str, clients: int) -> dict[str, str]:
    server = served()
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "cluster", "perf", "-m", "resnet", "-u", server.grpc]
        command += ["-i", "grpc", "--shared-memory", shared_memory, "-p", "3000", "-s", "50"]
        command += ["--output-shared-memory-size", "4096", "-r", "5"]
        command += ["--concurrency-range", str(clients), "-f", f"{folder}/found.csv"]
        done = subprocess.run(
            command, cwd=ROOT, capture_output=True, text=True, timeout=60, check=False
        )
        if not Path(folder, "found.csv").exists():
            return {"failed": (done.stdout + done.stderr)[-500:]}
        with Path(folder, "found.csv").open() as file:
            row = next(csv.DictReader(file))
    return {key: row[key] for key in ("Inferences/Second", "p50 latency") if key in row}


def server_ended() -> None:
    """Check that nothing of the server is left on the GPU once it has ended."""
    tree = [psutil.Process(served().pid), *served().tree()]
    code = served().terminate()
    _, alive = psutil.wait_procs(tree, timeout=30)
    if code or alive:
        raise RuntimeError(f"the server ended with {code}, and {alive} live on")
