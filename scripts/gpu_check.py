#!/usr/bin/env python3
# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""What a machine's GPUs can do for Manta, as a JSON report; needs Python 3.8 and nothing else.

Checks, each of which says "passed", "failed" or "skipped" and why:

- gpus: GPUs and MIG devices, from nvidia-smi.
- driver: the CUDA driver is there and sees devices.
- cuda_ipc: on each device, memory of one process is read and written by another through an IPC
  handle, as with CUDA shared memory of clients. Done with the driver itself, through ctypes.
- cuda_python, torch: whether the packages are there and see the devices.
- onnxruntime: the CUDA provider runs a tiny model.
- cuda_ipc_torch: torch takes memory that another process allocated, as a client's region is,
  without a copy: at its address, with its contents, and what torch writes arrives.
- inventory, gpu_memory, visible_by_uuid: Manta reads of GPUs what nvidia-smi shows, also of a
  process's memory; a UUID shows a process one device (gpu_check_devices.py).
- torch_*: instances of Manta's PyTorch backend on the GPU (gpu_check_torch.py).
- onnxruntime_providers: the same for ONNX Runtime's providers of GPUs; for one that is not there,
  what an instance says that needs it (gpu_check_backends.py).

- server_*: a server with Ray on the GPU, asked by stock clients (gpu_check_server.py).

The last four kinds need Manta's packages and the files beside this one; only the last needs Ray.

Exit code: 0 when nothing failed, which includes a machine without a GPU; 1 when a check failed;
3 when there is no GPU and --require-gpu was given.
"""

import argparse
import base64
import ctypes
import json
import os
import platform
import re
import subprocess
import sys
from importlib import import_module
from pathlib import Path
from unittest import SkipTest

BYTES = 4096
IPC_HANDLE_BYTES = 64
CHILD_TIMEOUT_S = 60
MANTA_NEEDS = (3, 11)
# y = x + x, FP32[4].
ADD_MODEL = (
    "CAgSADo1Cg4KAXgKAXgSAXkiA0FkZBIBZ1oPCgF4EgoKCAgBEgQKAggEYg8KAXkSCgoICAESBAoCCARCBAoAEA0="
)

GPU_LINE = re.compile(r"GPU (\d+): (.+) \(UUID: (\S+)\)")
MIG_LINE = re.compile(r"\s+MIG (\S+)\s+Device\s+(\d+): \(UUID: (\S+)\)")


def parse_list(text):
    """Return GPUs with their MIG devices from the output of ``nvidia-smi -L``."""
    gpus = []
    for line in text.splitlines():
        gpu, mig = GPU_LINE.match(line), MIG_LINE.match(line)
        if gpu:
            index, name, uuid = gpu.groups()
            gpus.append({"index": int(index), "name": name, "uuid": uuid, "mig": []})
        elif mig and gpus:
            profile, index, uuid = mig.groups()
            gpus[-1]["mig"].append({"index": int(index), "profile": profile, "uuid": uuid})
    return gpus


def list_gpus():
    try:
        listed = subprocess.run(
            ["nvidia-smi", "-L"], capture_output=True, text=True, timeout=60, check=False
        )
    except FileNotFoundError:
        raise SkipTest("nvidia-smi is not on the PATH") from None
    if listed.returncode:
        raise SkipTest((listed.stdout + listed.stderr).strip()[:500])
    return parse_list(listed.stdout)


class Driver:
    """The CUDA driver API, as far as it is needed here."""

    def __init__(self):
        try:
            self._cuda = ctypes.CDLL("libcuda.so.1")
        except OSError as error:
            raise SkipTest(f"no CUDA driver: {error}") from None
        self.call("cuInit", ctypes.c_uint(0))

    def call(self, name, *arguments):
        status = getattr(self._cuda, name)(*arguments)
        if status:
            text = ctypes.c_char_p()
            self._cuda.cuGetErrorString(status, ctypes.byref(text))
            reason = text.value.decode() if text.value else "unknown"
            raise RuntimeError(f"{name}: error {status}: {reason}")

    def version(self):
        number = ctypes.c_int()
        self.call("cuDriverGetVersion", ctypes.byref(number))
        return f"{number.value // 1000}.{number.value % 1000 // 10}"

    def device_count(self):
        number = ctypes.c_int()
        self.call("cuDeviceGetCount", ctypes.byref(number))
        return number.value

    def use(self, index):
        """Make a device's primary context current."""
        device, context = ctypes.c_int(), ctypes.c_void_p()
        self.call("cuDeviceGet", ctypes.byref(device), index)
        self.call("cuDevicePrimaryCtxRetain", ctypes.byref(context), device)
        self.call("cuCtxSetCurrent", context)

    def allocate(self):
        pointer = ctypes.c_uint64()
        self.call("cuMemAlloc_v2", ctypes.byref(pointer), ctypes.c_size_t(BYTES))
        return pointer

    def free(self, pointer):
        self.call("cuMemFree_v2", pointer)

    def write(self, pointer, data):
        self.call("cuMemcpyHtoD_v2", pointer, ctypes.c_char_p(data), ctypes.c_size_t(len(data)))

    def read(self, pointer):
        data = ctypes.create_string_buffer(BYTES)
        self.call("cuMemcpyDtoH_v2", data, pointer, ctypes.c_size_t(BYTES))
        return data.raw

    def handle_of(self, pointer):
        handle = IpcHandle()
        self.call("cuIpcGetMemHandle", ctypes.byref(handle), pointer)
        return bytes(handle)

    def open(self, handle):
        pointer = ctypes.c_uint64()
        # Passed by value; 1 enables peer access lazily.
        self.call(
            "cuIpcOpenMemHandle_v2", ctypes.byref(pointer), IpcHandle.from_buffer_copy(handle), 1
        )
        return pointer

    def close(self, pointer):
        self.call("cuIpcCloseMemHandle", pointer)


class IpcHandle(ctypes.Structure):
    """CUipcMemHandle."""

    _fields_ = [("reserved", ctypes.c_ubyte * IPC_HANDLE_BYTES)]


GIVEN = bytes(range(256)) * (BYTES // 256)
ANSWER = GIVEN[::-1]


def check_driver():
    driver = Driver()
    return {"cuda_version": driver.version(), "device_count": driver.device_count()}


def check_ipc():
    driver = Driver()
    count = driver.device_count()
    if not count:
        raise SkipTest("the driver sees no device")
    return {f"device_{index}": round_trip(driver, index, "driver") for index in range(count)}


def check_ipc_torch():
    torch = torch_with_gpu()
    driver = Driver()
    return {
        f"device_{index}": round_trip(driver, index, "torch")
        for index in range(torch.cuda.device_count())
    }


def round_trip(driver, index, reader):
    """Share memory with a child process, which checks it and writes an answer."""
    driver.use(index)
    pointer = driver.allocate()
    try:
        driver.write(pointer, GIVEN)
        handle = driver.handle_of(pointer)
        child = subprocess.run(
            [sys.executable, __file__, "--ipc-child", str(index), handle.hex(), reader],
            capture_output=True,
            text=True,
            timeout=CHILD_TIMEOUT_S,
            check=False,
        )
        if child.returncode:
            raise RuntimeError(f"device {index}: other process: {child.stderr.strip()[-500:]}")
        if driver.read(pointer) != ANSWER:
            raise RuntimeError(f"device {index}: what the other process wrote does not arrive")
    finally:
        driver.free(pointer)
    return f"{BYTES} bytes read and written by another process"


def be_child(index, handle, reader):
    driver = Driver()
    driver.use(index)
    pointer = driver.open(bytes.fromhex(handle))
    READERS[reader](driver, index, pointer)
    driver.close(pointer)


def answer_by_driver(driver, index, pointer):
    if driver.read(pointer) != GIVEN:
        raise RuntimeError("the memory has other contents than were written")
    driver.write(pointer, ANSWER)


def answer_by_torch(driver, index, pointer):
    import torch  # noqa: PLC0415

    tensor = torch.as_tensor(Region(pointer.value), device=f"cuda:{index}")
    if tensor.data_ptr() != pointer.value:
        raise RuntimeError(f"torch copies: {tensor.data_ptr():#x} is not {pointer.value:#x}")
    if bytes(tensor.tolist()) != GIVEN:
        raise RuntimeError("torch reads other contents than were written")
    tensor.copy_(torch.tensor(list(ANSWER), dtype=torch.uint8))
    torch.cuda.synchronize(index)


READERS = {"driver": answer_by_driver, "torch": answer_by_torch}


class Region:
    """Memory of a GPU, in the words that torch and others take it in."""

    def __init__(self, address):
        self.__cuda_array_interface__ = {
            "shape": (BYTES,),
            "typestr": "|u1",
            "data": (address, False),
            "version": 3,
        }


def check_cuda_python():
    try:
        from cuda.bindings import runtime  # noqa: PLC0415
    except ImportError as error:
        raise SkipTest(f"cuda-python is not there: {error}") from None
    status, count = runtime.cudaGetDeviceCount()
    if int(status) != 0:
        raise RuntimeError(f"cudaGetDeviceCount: {status}")
    return {"device_count": count}


def torch_with_gpu():
    try:
        import torch  # noqa: PLC0415
    except ImportError as error:
        raise SkipTest(f"torch is not there: {error}") from None
    if not torch.cuda.is_available():
        raise SkipTest(f"torch {torch.__version__} sees no GPU")
    return torch


def check_torch():
    torch = torch_with_gpu()
    doubled = (torch.arange(4, device="cuda", dtype=torch.float32) * 2).cpu().tolist()
    if doubled != [0.0, 2.0, 4.0, 6.0]:
        raise RuntimeError(f"twice 0 1 2 3 is {doubled}")
    return {"version": torch.__version__, "device_count": torch.cuda.device_count()}


def check_onnxruntime():
    try:
        import numpy  # noqa: PLC0415
        import onnxruntime  # noqa: PLC0415
    except ImportError as error:
        raise SkipTest(f"onnxruntime or numpy is not there: {error}") from None
    providers = onnxruntime.get_available_providers()
    if "CUDAExecutionProvider" not in providers:
        raise SkipTest(f"onnxruntime {onnxruntime.__version__} has only {providers}")
    session = onnxruntime.InferenceSession(
        base64.b64decode(ADD_MODEL), providers=["CUDAExecutionProvider"]
    )
    if "CUDAExecutionProvider" not in session.get_providers():
        raise RuntimeError("the CUDA provider is built in, and falls back to the CPU here")
    (doubled,) = session.run(None, {"x": numpy.arange(4, dtype=numpy.float32)})
    if doubled.tolist() != [0.0, 2.0, 4.0, 6.0]:
        raise RuntimeError(f"twice 0 1 2 3 is {doubled.tolist()}")
    return {"version": onnxruntime.__version__}


def beside(module, name, require=None):
    """Return a check of a file beside this one, made if what is required is there."""

    def check():
        if require is not None:
            require()
        return getattr(module_beside(module), name)()

    return check


def module_beside(name):
    """Import a file beside this one, which needs Manta's packages."""
    if sys.version_info < MANTA_NEEDS:
        raise SkipTest(
            f"Manta needs Python {MANTA_NEEDS[0]}.{MANTA_NEEDS[1]}, "
            f"this is {platform.python_version()}"
        )
    here = Path(__file__).resolve().parent
    for folder in (str(here), str(here.parent)):
        if folder not in sys.path:
            sys.path.append(folder)
    try:
        return import_module(name)
    except ImportError as error:
        raise SkipTest(f"Manta's backends cannot be imported: {error}") from None


def of_torch_backend(name):
    return beside("gpu_check_torch", name, torch_with_gpu)


# The last ends the server that they share.
OF_SERVER = (
    "server_torch",
    "server_placement",
    "server_python_tensors",
    "server_onnxruntime",
    "server_cuda_shared_memory",
    "server_killed_instance",
    "server_memory",
    "server_metrics",
    "server_speed",
    "server_ended",
)

CHECKS = {
    "gpus": list_gpus,
    "driver": check_driver,
    "cuda_ipc": check_ipc,
    "inventory": beside("gpu_check_devices", "inventory"),
    "gpu_memory": beside("gpu_check_devices", "gpu_memory"),
    "visible_by_uuid": beside("gpu_check_devices", "visible_by_uuid"),
    "cuda_python": check_cuda_python,
    "torch": check_torch,
    "onnxruntime": check_onnxruntime,
    "cuda_ipc_torch": check_ipc_torch,
    "torch_placement": of_torch_backend("placement"),
    "torch_kind_model": of_torch_backend("kind_model"),
    "torch_datatypes": of_torch_backend("datatypes"),
    "torch_autocast": of_torch_backend("autocast"),
    "torch_cache_cleaning": of_torch_backend("cache_cleaning"),
    "torch_out_of_memory": of_torch_backend("out_of_memory"),
    "torch_weights_through_ipc": of_torch_backend("weights_through_ipc"),
    "onnxruntime_providers": beside("gpu_check_backends", "onnxruntime_providers"),
    **{name: beside("gpu_check_server", name, torch_with_gpu) for name in OF_SERVER},
}


def outcome_of(check):
    try:
        return {"outcome": "passed", "found": check()}
    except SkipTest as reason:
        return {"outcome": "skipped", "reason": str(reason)}
    except Exception as error:  # one broken package must not hide what the others show
        return {"outcome": "failed", "reason": f"{type(error).__name__}: {error}"}


def exit_code(report, *, require_gpu):
    """Return the exit code of a report."""
    outcomes = [check["outcome"] for check in report["checks"].values()]
    if "failed" in outcomes:
        return 1
    return 3 if require_gpu and not report["gpu_count"] else 0


def gpu_count(checks):
    """Return how many GPUs nvidia-smi or the driver sees."""
    listed = checks["gpus"].get("found") or []
    seen = checks["driver"].get("found") or {}
    return max(len(listed), seen.get("device_count", 0))


def main(argv=None):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--require-gpu", action="store_true", help="exit with 3 without a GPU")
    parser.add_argument(
        "--ipc-child", nargs=3, metavar=("DEVICE", "HANDLE", "READER"), help=argparse.SUPPRESS
    )
    parser.add_argument("--only", nargs="+", metavar="PREFIX", help="checks named so; default all")
    options = parser.parse_args(argv)
    if options.ipc_child:
        device, handle, reader = options.ipc_child
        be_child(int(device), handle, reader)
        return 0
    wanted = ("gpus", "driver", *(options.only or ("",)))
    checks = {}
    for name, check in CHECKS.items():
        if name.startswith(wanted):
            checks[name] = outcome_of(check)
            print(name, json.dumps(checks[name]), file=sys.stderr, flush=True)
    report = {
        "python": platform.python_version(),
        "machine": platform.platform(),
        "visible_devices": os.environ.get("CUDA_VISIBLE_DEVICES"),
        "gpu_count": gpu_count(checks),
        "checks": checks,
    }
    print(json.dumps(report, indent=2))
    if not report["gpu_count"]:
        print("no GPU: nothing of CUDA was checked", file=sys.stderr)
    return exit_code(report, require_gpu=options.require_gpu)


if __name__ == "__main__":
    sys.exit(main())
