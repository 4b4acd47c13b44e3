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

BYTES = 4096
IPC_HANDLE_BYTES = 64
CHILD_TIMEOUT_S = 60
# y = x + x, FP32[4].
ADD_MODEL = (
    "CAgSADo1Cg4KAXgKAXgSAXkiA0FkZBIBZ1oPCgF4EgoKCAgBEgQKAggEYg8KAXkSCgoICAESBAoCCARCBAoAEA0="
)

GPU_LINE = re.compile(r"GPU (\d+): (.+) \(UUID: (\S+)\)")
MIG_LINE = re.compile(r"\s+MIG (\S+)\s+Device\s+(\d+): \(UUID: (\S+)\)")


class SkippedError(Exception):
    """A check could not be made; says what is missing."""


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
        raise SkippedError("nvidia-smi is not on the PATH") from None
    if listed.returncode:
        raise SkippedError((listed.stdout + listed.stderr).strip()[:500])
    return parse_list(listed.stdout)


class Driver:
    """The CUDA driver API, as far as it is needed here."""

    def __init__(self):
        try:
            self._cuda = ctypes.CDLL("libcuda.so.1")
        except OSError as error:
            raise SkippedError(f"no CUDA driver: {error}") from None
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
        raise SkippedError("the driver sees no device")
    return {f"device_{index}": round_trip(driver, index) for index in range(count)}


def round_trip(driver, index):
    """Share memory with a child process, which checks it and writes an answer."""
    driver.use(index)
    pointer = driver.allocate()
    try:
        driver.write(pointer, GIVEN)
        handle = driver.handle_of(pointer)
        child = subprocess.run(
            [sys.executable, __file__, "--ipc-child", str(index), handle.hex()],
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


def be_child(index, handle):
    driver = Driver()
    driver.use(index)
    pointer = driver.open(bytes.fromhex(handle))
    if driver.read(pointer) != GIVEN:
        raise RuntimeError("the memory has other contents than were written")
    driver.write(pointer, ANSWER)
    driver.close(pointer)


def check_cuda_python():
    try:
        from cuda.bindings import runtime  # noqa: PLC0415
    except ImportError as error:
        raise SkippedError(f"cuda-python is not there: {error}") from None
    status, count = runtime.cudaGetDeviceCount()
    if int(status) != 0:
        raise RuntimeError(f"cudaGetDeviceCount: {status}")
    return {"device_count": count}


def check_torch():
    try:
        import torch  # noqa: PLC0415
    except ImportError as error:
        raise SkippedError(f"torch is not there: {error}") from None
    if not torch.cuda.is_available():
        raise SkippedError(f"torch {torch.__version__} sees no GPU")
    doubled = (torch.arange(4, device="cuda", dtype=torch.float32) * 2).cpu().tolist()
    if doubled != [0.0, 2.0, 4.0, 6.0]:
        raise RuntimeError(f"twice 0 1 2 3 is {doubled}")
    return {"version": torch.__version__, "device_count": torch.cuda.device_count()}


def check_onnxruntime():
    try:
        import numpy  # noqa: PLC0415
        import onnxruntime  # noqa: PLC0415
    except ImportError as error:
        raise SkippedError(f"onnxruntime or numpy is not there: {error}") from None
    providers = onnxruntime.get_available_providers()
    if "CUDAExecutionProvider" not in providers:
        raise SkippedError(f"onnxruntime {onnxruntime.__version__} has only {providers}")
    session = onnxruntime.InferenceSession(
        base64.b64decode(ADD_MODEL), providers=["CUDAExecutionProvider"]
    )
    if "CUDAExecutionProvider" not in session.get_providers():
        raise RuntimeError("the CUDA provider is built in, and falls back to the CPU here")
    (doubled,) = session.run(None, {"x": numpy.arange(4, dtype=numpy.float32)})
    if doubled.tolist() != [0.0, 2.0, 4.0, 6.0]:
        raise RuntimeError(f"twice 0 1 2 3 is {doubled.tolist()}")
    return {"version": onnxruntime.__version__}


CHECKS = {
    "gpus": list_gpus,
    "driver": check_driver,
    "cuda_ipc": check_ipc,
    "cuda_python": check_cuda_python,
    "torch": check_torch,
    "onnxruntime": check_onnxruntime,
}


def outcome_of(check):
    try:
        return {"outcome": "passed", "found": check()}
    except SkippedError as reason:
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
        "--ipc-child", nargs=2, metavar=("DEVICE", "HANDLE"), help=argparse.SUPPRESS
    )
    options = parser.parse_args(argv)
    if options.ipc_child:
        be_child(int(options.ipc_child[0]), options.ipc_child[1])
        return 0
    checks = {name: outcome_of(check) for name, check in CHECKS.items()}
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
