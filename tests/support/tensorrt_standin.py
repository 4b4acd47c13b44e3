# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Stands in for ``tensorrt`` and ``cuda.bindings.runtime``, over numpy and host memory.

It has the calls that the backend makes of their Python APIs.

A plan is JSON: which of `FUNCTIONS` it computes, its tensors and its optimization profiles. What
TensorRT refuses by an answer (None, False, a list of names) is refused so here.
"""

import ctypes
import enum
import json
import sys
import types
from collections.abc import Callable
from typing import Any

import numpy as np

from backends.api.datatypes import numpy_dtype
from backends.tensorrt.engine import DATATYPES

VERSION = "10.9.0.34"


class TensorIOMode(enum.Enum):
    INPUT = 1
    OUTPUT = 2


class TensorLocation(enum.Enum):
    DEVICE = 0
    HOST = 1


class TensorFormat(enum.Enum):
    LINEAR = 0
    CHW32 = 5


class ExecutionContextAllocationStrategy(enum.Enum):
    STATIC = 0
    ON_PROFILE_CHANGE = 1


class Severity(enum.Enum):
    ERROR = 1
    INFO = 3


# Its members are known when it runs only.
_make_enum: Any = enum.Enum
DataType: Any = _make_enum("DataType", [*DATATYPES, "FP8"])


class ILogger:
    Severity = Severity


class IOutputAllocator:
    pass


def _add_sub(feed: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    a, b = feed["INPUT0"], feed["INPUT1"]
    return {"OUTPUT0": a + b, "OUTPUT1": a - b}


def _non_zero(feed: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    return {"Y": feed["X"][feed["X"] != 0]}


def _resize(feed: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    return {"Y": np.resize(feed["X"], tuple(feed["S"])), "MADE": feed["S"]}


FUNCTIONS = {"add_sub": _add_sub, "non_zero": _non_zero, "resize": _resize}


class Gpu:
    """The GPU: its memory is the host's, and what was done on its streams is counted."""

    def __init__(self) -> None:
        self.memory: dict[int, Any] = {}
        self.copies = 0
        self.launches = 0
        self.runs = 0
        self.priorities: list[int] = []
        self.failing: str | None = None
        self.capturing: list[Callable[[], None]] | None = None

    def do(self, work: Callable[[], None]) -> None:
        if self.capturing is not None:
            self.capturing.append(work)
        else:
            self.runs += 1
            work()


def _view(address: int, shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
    size = int(np.prod(shape)) * dtype.itemsize
    memory: Any = (ctypes.c_char * size).from_address(address)
    view: np.ndarray = np.frombuffer(memory, dtype).reshape(shape)
    return view


class Context:
    def __init__(self, engine: "Engine") -> None:
        self._engine = engine
        self._profile = 0
        self._shapes: dict[str, tuple[int, ...]] = {}
        self._addresses: dict[str, int] = {}
        self._allocators: dict[str, Any] = {}

    def set_optimization_profile_async(self, index: int, stream: int) -> bool:
        self._profile = index
        return index < self._engine.num_optimization_profiles

    def set_input_shape(self, name: str, shape: tuple[int, ...]) -> bool:
        known = self._engine.get_tensor_shape(name)
        if len(known) != len(shape):
            return False
        self._shapes[name] = tuple(shape)
        return all(own in {-1, given} for own, given in zip(known, shape, strict=True))

    def set_tensor_address(self, name: str, address: int) -> bool:
        self._addresses[name] = address
        return True

    def set_output_allocator(self, name: str, allocator: Any) -> bool:
        self._allocators[name] = allocator
        return True

    def infer_shapes(self) -> list[str]:
        return [name for name in self._engine.inputs if name not in self._shapes]

    def _zeros(self) -> dict[str, np.ndarray]:
        return {
            name: self._read(name)
            if self._engine.is_shape_inference_io(name)
            else np.zeros(self._shapes[name], self._engine.dtype(name))
            for name in self._engine.inputs
        }

    def _read(self, name: str) -> np.ndarray:
        shape = self._shapes[name]
        return _view(self._addresses[name], shape, self._engine.dtype(name)).copy()

    def get_tensor_shape(self, name: str) -> tuple[int, ...]:
        if self._engine.plan["function"] == "non_zero":
            return (-1,)
        return self._engine.compute(self._zeros())[name].shape

    def execute_async_v3(self, stream: int) -> bool:
        shapes, addresses = dict(self._shapes), dict(self._addresses)

        def work() -> None:
            engine = self._engine
            feed = {
                name: _view(addresses[name], shapes[name], engine.dtype(name))
                for name in engine.inputs
            }
            for name, made in engine.compute(feed).items():
                address = addresses.get(name, 0)
                if name in self._allocators:
                    allocator = self._allocators[name]
                    address = allocator.reallocate_output(name, 0, made.nbytes, 256)
                    allocator.notify_shape(name, made.shape)
                _view(address, made.shape, made.dtype)[...] = made

        self._engine.gpu.do(work)
        return not self._engine.plan.get("fails", False)


class Engine:
    def __init__(self, plan: dict[str, Any], gpu: Gpu) -> None:
        self.plan = plan
        self.gpu = gpu
        self._tensors = {each["name"]: each for each in plan["tensors"]}
        self.inputs = [each["name"] for each in plan["tensors"] if each["is_input"]]
        self.num_io_tensors = len(self._tensors)
        self.num_optimization_profiles = len(plan["profiles"])
        self.strategies: list[Any] = []

    def compute(self, feed: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        made = FUNCTIONS[self.plan["function"]](feed)
        return {name: array.astype(self.dtype(name)) for name, array in made.items()}

    def dtype(self, name: str) -> np.dtype:
        return numpy_dtype(DATATYPES[self._tensors[name]["dtype"]])

    def get_tensor_name(self, index: int) -> str:
        return str(list(self._tensors)[index])

    def get_tensor_mode(self, name: str) -> TensorIOMode:
        return TensorIOMode.INPUT if self._tensors[name]["is_input"] else TensorIOMode.OUTPUT

    def get_tensor_dtype(self, name: str) -> Any:
        return DataType[self._tensors[name]["dtype"]]

    def get_tensor_shape(self, name: str) -> tuple[int, ...]:
        return tuple(self._tensors[name]["shape"])

    def get_tensor_format(self, name: str) -> TensorFormat:
        return TensorFormat[self._tensors[name].get("format", "LINEAR")]

    def is_shape_inference_io(self, name: str) -> bool:
        return bool(self._tensors[name].get("is_shape", False))

    def get_tensor_location(self, name: str) -> TensorLocation:
        return TensorLocation.HOST if self.is_shape_inference_io(name) else TensorLocation.DEVICE

    def get_tensor_profile_shape(self, name: str, index: int) -> list[list[int]]:
        shapes: list[list[int]] = self.plan["profiles"][index][name]
        return shapes

    def get_tensor_profile_values(self, index: int, name: str) -> list[list[int]]:
        shapes: list[list[int]] = self.plan["profiles"][index][name]
        return shapes

    def create_execution_context(self, strategy: Any) -> Context:
        self.strategies.append(strategy)
        return Context(self)


def _runtime(gpu: Gpu) -> type:
    class Runtime:
        engine_host_code_allowed = False

        def __init__(self, logger: Any) -> None:
            self._logger = logger

        def deserialize_cuda_engine(self, content: bytes) -> Engine | None:
            try:
                plan = json.loads(content)
            except ValueError:
                self._logger.log(Severity.INFO, "reading")
                self._logger.log(Severity.ERROR, "Magic tag does not match")
                return None
            if plan["version"] != VERSION and not self.engine_host_code_allowed:
                text = (
                    "The engine plan file is not compatible with this version of TensorRT, "
                    f"expecting library version {VERSION} got {plan['version']}"
                )
                self._logger.log(Severity.ERROR, text)
                return None
            return Engine(plan, gpu)

    return Runtime


def tensorrt_module(gpu: Gpu) -> types.ModuleType:
    """Return what stands in for ``tensorrt``."""
    module = types.ModuleType("tensorrt")
    for each in (
        TensorIOMode,
        TensorLocation,
        TensorFormat,
        ExecutionContextAllocationStrategy,
        ILogger,
        IOutputAllocator,
    ):
        setattr(module, each.__name__, each)
    module.__dict__.update(Runtime=_runtime(gpu), __version__=VERSION)
    return module


def cuda_module(gpu: Gpu) -> types.ModuleType:
    """Return what stands in for ``cuda.bindings.runtime``; every call answers (status, ...)."""

    def malloc(size: int) -> int:
        memory = ctypes.create_string_buffer(size)
        gpu.memory[ctypes.addressof(memory)] = memory
        return ctypes.addressof(memory)

    def copy(to: int, source: int, size: int, kind: Any, stream: Any) -> None:
        gpu.copies += 1
        ctypes.memmove(to, source, size)

    def stream(flags: int, priority: int) -> int:
        gpu.priorities.append(priority)
        return 7

    def begin(stream: Any, mode: int) -> None:
        gpu.capturing = []

    def end(stream: Any) -> list[Callable[[], None]] | None:
        graph, gpu.capturing = gpu.capturing, None
        return graph

    def launch(graph: list[Callable[[], None]], stream: Any) -> None:
        gpu.launches += 1
        for work in graph:
            work()

    def nothing(*_: Any) -> None:
        return None

    calls: dict[str, Callable[..., Any]] = {
        "cudaSetDevice": nothing,
        "cudaDeviceGetAttribute": lambda which, device: {75: 9, 76: 0}[which],
        "cudaDeviceGetStreamPriorityRange": lambda: (0, -5),
        "cudaStreamCreateWithPriority": stream,
        "cudaMalloc": malloc,
        "cudaFree": lambda address: gpu.memory.pop(address) and None,
        "cudaMemcpyAsync": copy,
        "cudaStreamSynchronize": nothing,
        "cudaStreamBeginCapture": begin,
        "cudaStreamEndCapture": end,
        "cudaGraphInstantiate": lambda graph, flags: graph,
        "cudaGraphDestroy": nothing,
        "cudaGraphLaunch": launch,
        "cudaGraphExecDestroy": nothing,
        "cudaStreamDestroy": nothing,
    }
    module: Any = types.ModuleType("cuda.bindings.runtime")
    for name, call in calls.items():
        setattr(module, name, _answering(gpu, name, call))
    module.cudaGetErrorString = lambda status: (0, b"out of memory")
    module.cudaDeviceAttr = types.SimpleNamespace(
        cudaDevAttrComputeCapabilityMajor=75, cudaDevAttrComputeCapabilityMinor=76
    )
    module.cudaStreamCaptureMode = types.SimpleNamespace(cudaStreamCaptureModeThreadLocal=1)
    module.cudaMemcpyKind = types.SimpleNamespace(
        cudaMemcpyHostToDevice=1, cudaMemcpyDeviceToHost=2
    )
    made: types.ModuleType = module
    return made


def _answering(gpu: Gpu, name: str, call: Callable[..., Any]) -> Callable[..., Any]:
    def answer(*arguments: Any) -> tuple[Any, ...]:
        if gpu.failing == name:
            return 2, None
        result = call(*arguments)
        if result is None:
            return (0,)
        return (0, *result) if isinstance(result, tuple) else (0, result)

    return answer


def install(monkeypatch: Any) -> Gpu:
    """Have both modules found by import; return the GPU they use."""
    gpu = Gpu()
    monkeypatch.setitem(sys.modules, "tensorrt", tensorrt_module(gpu))
    monkeypatch.setitem(sys.modules, "cuda.bindings.runtime", cuda_module(gpu))
    for package in ("cuda", "cuda.bindings"):
        monkeypatch.setitem(sys.modules, package, types.ModuleType(package))
    return gpu


def tensor(
    name: str, shape: list[int], dtype: str = "FLOAT", *, is_input: bool = True, **more: Any
) -> dict[str, Any]:
    """Return the description of a tensor in a plan."""
    return {"name": name, "dtype": dtype, "shape": shape, "is_input": is_input, **more}


def plan_of(function: str, tensors: list[dict[str, Any]], *profiles: Any, **more: Any) -> bytes:
    """Return a plan; of each profile, each input's least, best and greatest dimensions."""
    plan = {"function": function, "tensors": tensors, "profiles": profiles, "version": VERSION}
    return json.dumps(plan | more).encode()
