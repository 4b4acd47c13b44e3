# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Runs a model's warmup samples on a freshly loaded instance, before anything else reaches it.

A sample goes straight to the backend: no queue, no lane. Its executions count in the statistics.

Triton: core/src/backend_model_instance.cc GenerateWarmupData, WarmUp @73aad7c
"""

import threading
import time
from collections.abc import Callable
from math import prod
from pathlib import Path
from typing import Final

import numpy as np

from backends.api.backend import ExecuteBatch, ModelInstance
from backends.api.datatypes import SIZE_BYTES
from backends.api.errors import InternalError, InvalidArgumentError, TritonError
from backends.api.model_config import ModelConfig, WarmupInput, WarmupSample
from backends.api.request import InferenceRequest, InferenceResponse, Tensor, id_prefix
from deployments.metrics.counters import InstanceStatistics, times_of
from deployments.routing.request_check import RequestChecker

# How long a decoupled model may send nothing for a warmup request before its load has failed.
SILENCE_S: Final = 60.0
_FOLDER = "warmup"
_LENGTH_BYTES = 4  # of an empty BYTES element: its length, nothing else
_NS_PER_MS = 1_000_000


class _WarmupRequest:
    """One request of a sample; keeps what went wrong and when it was over."""

    __slots__ = ("_ended", "_has_moved", "error", "request")

    def __init__(self, request: InferenceRequest) -> None:
        self.request = request
        self.error: TritonError | None = None
        self._ended = threading.Event()
        # Whether a response has come since it was looked at.
        self._has_moved = False

    @property
    def is_cancelled(self) -> bool:
        return False

    def respond(self, response: InferenceResponse | None, *, final: bool = True) -> None:
        del response
        self._has_moved = True
        if final:
            self._ended.set()

    def fail(self, error: TritonError, *, final: bool = True) -> None:
        self.error = self.error or error
        self._has_moved = True
        if final:
            self._ended.set()

    def reschedule(self) -> None:
        # One execution is all the warmup a model gets.
        self._ended.set()

    def wait_ended(self, silence_s: float, *, decoupled: bool) -> None:
        """Return once the last response came; only a decoupled model may still owe it.

        Args:
            silence_s: How long a decoupled model may send nothing before it has failed.
            decoupled: Whether the model is decoupled.
        """
        if not decoupled and not self._ended.is_set():
            self.fail(InternalError("the model sent no response"))
        while not self._ended.wait(silence_s):
            if not self._has_moved:
                self.fail(InternalError(f"the model sent no response for {silence_s:g} s"))
            self._has_moved = False


def run_warmup(
    instance: ModelInstance,
    config: ModelConfig,
    model_dir: str,
    statistics: InstanceStatistics,
    clock_ns: Callable[[], int] = time.monotonic_ns,
    silence_s: float = SILENCE_S,
) -> None:
    """Execute every sample of ``model_warmup`` as often as it asks for.

    Args:
        instance: The loaded instance; called on this thread.
        config: The model's complete config.
        model_dir: The model's directory, which holds ``warmup/`` for data from files.
        statistics: Where the executions are counted.
        clock_ns: Monotonic clock.
        silence_s: How long a decoupled model may send nothing before its sample has failed. Triton
            waits for ever.

    Raises:
        InvalidArgumentError: A sample does not fit the model, its data cannot be read, or a request
            of it failed; samples after it are not run.
    """
    samples = [sample for sample in config.warmup if sample.batch_size > 0]
    prepared = [(sample, _requests(sample, config, model_dir)) for sample in samples]
    for sample, requests in prepared:
        for _ in range(sample.count):
            errors = _execute(instance, requests, config, statistics, clock_ns, silence_s)
            if errors:
                raise InvalidArgumentError(
                    f"failed to run warmup sample '{sample.name}': "
                    + "".join(f"{error.message}; " for error in errors)
                )


def check_warmup(config: ModelConfig, model_dir: str) -> None:
    """Check what can be checked of the samples before the model is loaded.

    Args:
        config: The model's complete config.
        model_dir: The model's directory.

    Raises:
        InvalidArgumentError: A sample does not fit the model, or its data cannot be read.
    """
    for sample in config.warmup:
        if sample.batch_size > 0:
            _requests(sample, config, model_dir)


def _execute(
    instance: ModelInstance,
    requests: list[InferenceRequest],
    config: ModelConfig,
    statistics: InstanceStatistics,
    clock_ns: Callable[[], int],
    silence_s: float,
) -> list[TritonError]:
    works = [_WarmupRequest(request) for request in requests]
    batch = ExecuteBatch(works)
    statistics.record_start()
    start_ns = clock_ns()
    try:
        instance.execute(batch)
    except TritonError as error:
        return [error]
    except Exception as cause:  # a model may raise anything
        return [InternalError(f"{type(cause).__name__}: {cause}")]
    for work in works:
        work.wait_ended(silence_s, decoupled=config.decoupled)
    times = times_of(batch, start_ns, clock_ns())
    count = len(works)
    statistics.record_execution(count, times, time.time_ns() // _NS_PER_MS)
    statistics.record_success(count, count, count * start_ns, times)
    return [work.error for work in works if work.error is not None]


def _requests(sample: WarmupSample, config: ModelConfig, model_dir: str) -> list[InferenceRequest]:
    known = {each.name for each in config.input}
    lead = (1,) if config.max_batch_size > 0 else ()
    by_value = {each.name for each in config.input if each.is_shape_tensor}
    tensors = [
        Tensor(
            each.name,
            each.datatype,
            each.dims if each.name in by_value else (*lead, *each.dims),
            _data(each, model_dir),
        )
        for each in sample.inputs
    ]
    checker = RequestChecker(config)
    requests = []
    for _ in range(sample.batch_size):
        copies = [Tensor(each.name, each.datatype, each.shape, each.data) for each in tensors]
        request = InferenceRequest(
            config.name, inputs=[each for each in copies if each.name in known]
        )
        checker.check(request)
        # Controls and states of sequence models are no inputs of the config; they go as given.
        request.inputs.extend(each for each in copies if each.name not in known)
        requests.append(request)
    return requests


def _data(each: WarmupInput, model_dir: str) -> memoryview:
    if any(dim < 0 for dim in each.dims):
        raise InvalidArgumentError(
            "warmup setting expects all variable-size dimensions are specified for input "
            f"'{each.name}'"
        )
    is_bytes = each.datatype == "BYTES"
    size_bytes = prod(each.dims) * (_LENGTH_BYTES if is_bytes else SIZE_BYTES[each.datatype])
    if each.data_file:
        data = _read(each, model_dir)
        if is_bytes:
            return data
        if len(data) < size_bytes:
            raise InvalidArgumentError(
                f"{id_prefix('')}warmup setting expects {size_bytes} bytes, but the data provided "
                f"from {each.data_file}only has {len(data)} bytes"
            )
        return data[:size_bytes]
    if each.random_data and not is_bytes:
        return _random(each.datatype, size_bytes)
    if each.zero_data or each.random_data:
        return memoryview(bytes(size_bytes))
    raise InvalidArgumentError(
        f"{id_prefix('')}warmup setting expects input '{each.name}' to have input_data_type set"
    )


def _random(datatype: str, size_bytes: int) -> memoryview:
    random = np.random.default_rng(0)
    if datatype == "BOOL":
        return memoryview(random.integers(0, 2, size_bytes, np.uint8).tobytes())
    return memoryview(random.bytes(size_bytes))


def _read(each: WarmupInput, model_dir: str) -> memoryview:
    folder = (Path(model_dir) / _FOLDER).resolve()
    path = (folder / each.data_file).resolve()
    if not path.is_relative_to(folder):
        raise InvalidArgumentError(
            f"warmup input '{each.name}' has input_data_file '{each.data_file}', which must be a "
            f"path inside the model's '{_FOLDER}' directory"
        )
    try:
        return memoryview(path.read_bytes())
    except OSError as error:
        raise InvalidArgumentError(
            f"warmup input '{each.name}': cannot read '{_FOLDER}/{each.data_file}': "
            f"{error.strerror}"
        ) from error
