# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""One engine on one GPU, with a context for each of the instance's optimization profiles.

Triton: tensorrt_backend/src/instance_state.cc ModelInstanceState::Run, SetBindingDimensions,
BuildCudaGraphV2
"""

import logging
from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from backends.api.backend import LoadContext
from backends.api.datatypes import numpy_dtype
from backends.api.errors import InternalError, InvalidArgumentError, TritonError
from backends.framework.inputs import Array, Feed
from backends.framework.instance import TensorInstance
from backends.tensorrt.engine import Engine, EngineTensor
from backends.tensorrt.memory import Buffers, Gpu
from backends.tensorrt.profiles import check, choose
from backends.tensorrt.settings import Settings, graph_specs

logger = logging.getLogger(__name__)

# What a graph was captured of: the profile and each input's shape.
_Key = tuple[int, tuple[tuple[str, tuple[int, ...]], ...]]
_MOST_GRAPHS: Final = 64


class TensorRTInstance(TensorInstance):
    """Runs an engine.

    Args:
        context: What is loaded.
        module: The module ``tensorrt``.
        native: The ``ICudaEngine``.
        engine: What it tells.
        gpu: The GPU, with its stream open.
        settings: How it runs.
        profiles: Indices of its optimization profiles.
    """

    def __init__(
        self,
        context: LoadContext,
        module: Any,
        native: Any,
        engine: Engine,
        gpu: Gpu,
        settings: Settings,
        profiles: Sequence[int],
    ) -> None:
        super().__init__(context, engine.signature(batched=context.config.max_batch_size > 0))
        self._module = module
        self._native: Any = native
        self._engine = engine
        self._gpu = gpu
        self._instance = context.instance_name
        self._profiles = {index: engine.profiles[index] for index in profiles}
        self._graphs: dict[_Key, Any] = {}
        self._buffers = Buffers(gpu, self._drop_graphs)
        self._contexts = {index: self._new_context(index, settings.strategy) for index in profiles}
        self._allocators = {each.name: self._new_allocator(each) for each in engine.outputs}
        # Where TensorRT finds values in host memory, and puts some.
        self._on_host: dict[str, Array] = {}
        if settings.uses_graphs:
            self._capture_all(context)

    def run(self, feed: Feed, outputs: list[str]) -> list[Array]:
        """Execute the engine and copy the outputs that are asked for out of the GPU."""
        arrays, total = self._as_engine_wants(feed)
        given = {
            each.name: tuple(arrays[each.name].tolist())
            if each.is_shape
            else arrays[each.name].shape
            for each in self._engine.inputs
            if each.name in arrays
        }
        index = choose(self._profiles, given, self._instance)
        check(self._profiles[index], given, self._instance)
        context = self._contexts[index]
        for name, array in arrays.items():
            self._feed(context, name, array)
        self._require_all(context)
        shapes = {each.name: self._prepare_output(context, each) for each in self._engine.outputs}
        graph = self._graphs.get(_key(index, arrays))
        if graph is not None:
            self._gpu.launch(graph)
        else:
            self._enqueue(context)
        if any(-1 in shape for shape in shapes.values()):
            # Only the execution tells them.
            self._gpu.synchronize()
        made = [self._take(name, shapes[name]) for name in outputs]
        self._gpu.synchronize()
        return [
            self._without_batch(name, array, total)
            for name, array in zip(outputs, made, strict=True)
        ]

    def failure(self, error: Exception, where: str) -> TritonError:
        """Return TensorRT's message as Triton words it."""
        return InternalError(f"failed to run TRT inference: {error} ({where})")

    def close(self) -> None:
        """Free the memory, the contexts and the engine."""
        self._gpu.synchronize()
        self._drop_graphs()
        self._buffers.close()
        self._contexts.clear()
        self._native = None
        self._gpu.close()

    def _as_engine_wants(self, feed: Feed) -> tuple[Feed, int]:
        """Return contiguous arrays, shape tensors with the batch size first, and that size."""
        rows = [
            feed[each.name].shape
            for each in self._engine.inputs
            if not each.is_shape and each.name in feed
        ]
        total = rows[0][0] if self._batches and rows and rows[0] else 0
        known = {each.name: each for each in self._engine.inputs}
        arrays = {}
        for name, array in feed.items():
            if known[name].is_shape and self._batches:
                array = np.concatenate([np.array([total], array.dtype), array.reshape(-1)])  # noqa: PLW2901 - the same input
            arrays[name] = np.ascontiguousarray(array)
        return arrays, total

    def _feed(self, context: Any, name: str, array: Array) -> None:
        tensor = next(each for each in self._engine.inputs if each.name == name)
        if not context.set_input_shape(name, array.shape):
            raise InvalidArgumentError(
                f"trt failed to set binding dimension to {list(array.shape)} for input '{name}' "
                f"for '{self._instance}'"
            )
        if tensor.on_host:
            # TensorRT keeps the address, and a request's memory goes with the request.
            array = array.copy()
            self._on_host[name] = array
            context.set_tensor_address(name, array.ctypes.data)
            return
        address = self._buffers.at_least(name, array.nbytes)
        context.set_tensor_address(name, address)
        self._gpu.copy_in(address, array)

    def _require_all(self, context: Any) -> None:
        missing = context.infer_shapes()
        if missing:
            raise InternalError(
                "failed to specify the dimensions of all input tensors or values of all input "
                f"shape tensors: '{self._instance}' lacks {', '.join(missing)}"
            )

    def _prepare_output(self, context: Any, tensor: EngineTensor) -> tuple[int, ...]:
        """Have an output go to memory of ours; return its shape, with -1 for what is not known."""
        shape = tuple(context.get_tensor_shape(tensor.name))
        dtype = numpy_dtype(tensor.datatype)
        if tensor.on_host:
            array = np.zeros(shape, dtype)
            self._on_host[tensor.name] = array
            context.set_tensor_address(tensor.name, array.ctypes.data)
        elif -1 in shape:
            context.set_output_allocator(tensor.name, self._allocators[tensor.name])
        else:
            size = int(np.prod(shape, dtype=np.int64)) * dtype.itemsize
            context.set_tensor_address(tensor.name, self._buffers.at_least(tensor.name, size))
        return shape

    def _enqueue(self, context: Any) -> None:
        if not context.execute_async_v3(self._gpu.stream):
            raise InternalError(f"failed to run TRT inference: '{self._instance}' was not enqueued")

    def _take(self, name: str, shape: tuple[int, ...]) -> Array:
        """Begin to copy an output to an array of its own."""
        if name in self._on_host:
            return self._on_host[name].copy()
        if -1 in shape:
            shape = self._allocators[name].shape
        tensor = next(each for each in self._engine.outputs if each.name == name)
        array = np.empty(shape, numpy_dtype(tensor.datatype))
        self._gpu.copy_out(array, self._buffers.at_least(name, array.nbytes))
        return array

    def _without_batch(self, name: str, array: Array, total: int) -> Array:
        """Return an output as the config describes it: of a shape tensor, values for each item."""
        tensor = next(each for each in self._engine.outputs if each.name == name)
        if not tensor.is_shape or not self._batches:
            return array
        return np.tile(array.reshape(-1)[1:], (total, 1))

    def _new_context(self, index: int, strategy: str) -> Any:
        module = self._module
        context = self._native.create_execution_context(
            getattr(module.ExecutionContextAllocationStrategy, strategy)
        )
        if context is None:
            raise InternalError(f"unable to create TensorRT context for '{self._instance}'")
        if not context.set_optimization_profile_async(index, self._gpu.stream):
            raise InvalidArgumentError(
                f"Can not set the specified optimization profile {index}[{index}] for "
                f"{self._instance}. Expected optimization profile index range "
                f"0-{len(self._engine.profiles) - 1}"
            )
        self._gpu.synchronize()
        return context

    def _new_allocator(self, tensor: EngineTensor) -> Any:
        """Return what gives TensorRT memory for an output whose shape the execution tells."""
        base, buffers, name = self._module.IOutputAllocator, self._buffers, tensor.name

        def reallocate(_: Any, _name: str, _memory: int, size: int, *_more: Any) -> int:
            return buffers.at_least(name, size)

        def notify(self: Any, _name: str, shape: Sequence[int]) -> None:
            self.shape = tuple(shape)

        members = {
            "reallocate_output": reallocate,
            "reallocate_output_async": reallocate,
            "notify_shape": notify,
            "shape": (),
        }
        # Their base is known only now.
        return type("Growing", (base,), members)()

    def _capture_all(self, context: LoadContext) -> None:
        """Capture a graph of each wanted shape; one that cannot be is executed without."""
        for spec in graph_specs(context.config, self._engine)[:_MOST_GRAPHS]:
            arrays = {
                each.name: np.zeros(spec.shapes[each.name], numpy_dtype(each.datatype))
                for each in self._engine.inputs
                if each.name in spec.shapes and not each.is_shape
            }
            for index in self._profiles:
                try:
                    self._capture(index, arrays)
                except TritonError as error:
                    logger.warning(
                        "no CUDA graph of '%s' for %s: %s",
                        self._instance,
                        spec.shapes,
                        error.message,
                    )

    def _capture(self, index: int, arrays: Feed) -> None:
        given = {name: array.shape for name, array in arrays.items()}
        check(self._profiles[index], given, self._instance)
        context = self._contexts[index]
        for name, array in arrays.items():
            self._feed(context, name, array)
        self._require_all(context)
        for each in self._engine.outputs:
            if each.on_host or -1 in self._prepare_output(context, each):
                raise InternalError(f"output '{each.name}' has no shape before it is executed")
        # TensorRT prepares itself at the first execution, which cannot be captured.
        self._enqueue(context)
        self._gpu.synchronize()
        self._graphs[_key(index, arrays)] = self._gpu.capture(lambda: self._enqueue(context))

    def _drop_graphs(self) -> None:
        for graph in self._graphs.values():
            self._gpu.drop(graph)
        self._graphs.clear()


def _key(index: int, arrays: Feed) -> _Key:
    return index, tuple(sorted((name, array.shape) for name, array in arrays.items()))
