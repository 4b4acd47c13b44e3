# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Loads one backend instance from its recipe, on the thread that will execute it."""

import os
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from backends.api.backend import Backend, LoadContext, ModelInstance, Pause
from backends.api.errors import InvalidArgumentError
from backends.api.model_caller import ModelCaller
from backends.api.model_config import ModelConfig
from backends.config.normalisation import normalise_defaults
from backends.config.validation.model import validate_before_auto_complete, validate_tensors
from backends.environments.entry import enter_environment
from backends.lookup import BACKEND_DIRECTORY
from backends.registry import backend_for, backend_name, extra_named, python_library
from deployments.instance.given_environment import given_environment, set_thread_count, take_back
from deployments.instance.spec import DeviceAssignment, InstanceSpec
from deployments.instance.warmup import run_warmup
from deployments.metrics.counters import InstanceStatistics
from deployments.settings.host_policy import apply_host_policy, resolved

_STATE_FOLDER = "initial_state"
_VISIBLE = "CUDA_VISIBLE_DEVICES"
_ORDER = "CUDA_DEVICE_ORDER"


@dataclass(frozen=True, slots=True)
class LoadedInstance:
    """A backend instance, warmed up.

    Attributes:
        instance: The instance.
        config: Its complete config.
        duration_ns: How long the load took, warmup included.
        statistics: What the warmup counted.
        state_files: The bytes of the files that initial states of its sequences come from.
    """

    instance: ModelInstance
    config: ModelConfig
    duration_ns: int
    statistics: InstanceStatistics
    state_files: Mapping[str, bytes]


def load_instance(
    spec: InstanceSpec, caller: ModelCaller | None = None, pause: Pause | None = None
) -> LoadedInstance:
    """Load the instance a spec describes; changes this process's environment.

    Args:
        spec: The recipe.
        caller: What the model calls other models with.
        pause: What it waits for them in.

    Raises:
        TritonError: The model cannot be loaded; the message says why.
    """
    started_ns = time.monotonic_ns()
    numa_node = None if spec.device is None else spec.device.numa_node
    cores = apply_host_policy(resolved(spec.host_policy, numa_node))
    thread_count = min(spec.thread_count, len(cores)) if cores else spec.thread_count
    given = given_environment(spec.runtime_env)
    set_thread_count(thread_count, given)
    if _is_python(spec):
        take_back(given, has_devices=spec.kind == "GPU")
    context = LoadContext(
        config=spec.config,
        model_dir=spec.model_dir,
        version=spec.version,
        instance_name=spec.instance_name,
        kind=spec.kind,
        device_id=_claim_device(spec),
        thread_count=thread_count,
        backend_config=spec.backend_config,
        caller=caller,
        pause=pause,
    )
    enter_environment(spec.requirements)
    backend = backend_for(context)
    with extra_named(backend_name(spec.config.backend, spec.config.platform)):
        if spec.auto_complete:
            context = replace(context, config=_complete(backend, context))
        instance = backend.load(context)
    statistics = InstanceStatistics()
    if not spec.group.passive:
        run_warmup(instance, context.config, spec.model_dir, statistics)
    duration_ns = time.monotonic_ns() - started_ns
    state_files = read_state_files(context.config, spec.model_dir)
    return LoadedInstance(instance, context.config, duration_ns, statistics, state_files)


def _complete(backend: Backend, context: LoadContext) -> ModelConfig:
    config = normalise_defaults(backend.auto_complete(context))
    validate_before_auto_complete(config)
    validate_tensors(config)
    return config


def read_state_files(config: ModelConfig, model_dir: str) -> dict[str, bytes]:
    """Read the files in ``initial_state/`` that the config names.

    Raises:
        InvalidArgumentError: A file's name is a path, or it cannot be read.
    """
    states = () if config.sequence_batching is None else config.sequence_batching.states
    files = {}
    for state in states:
        name = "" if state.initial_state is None else state.initial_state.data_file
        if not name:
            continue
        if Path(name).name != name:
            raise InvalidArgumentError(
                f"model '{config.name}' has initial_state data_file '{name}' for state input "
                f"'{state.input_name}', which must be the name of a file in '{_STATE_FOLDER}'"
            )
        try:
            files[name] = Path(model_dir, _STATE_FOLDER, name).read_bytes()
        except OSError as error:
            raise InvalidArgumentError(
                f"initial_state of state input '{state.input_name}' of model '{config.name}' "
                f"cannot be read from '{_STATE_FOLDER}/{name}': {error.strerror}"
            ) from error
    return files


def _claim_device(spec: InstanceSpec) -> int:
    """Return the index of the instance's GPU among those this process sees.

    An instance that was assigned a device sees that one. To another, Ray shows the GPU it reserved
    a part of, and packs parts onto one GPU. The process therefore chooses its GPU itself, unless
    its model says how much to reserve (``ray_num_gpus``): then Ray's choice holds. What is no
    index, such as the UUID of a MIG device, is left as it is.
    """
    if spec.device is not None:
        return _claim_assigned(spec, spec.device)
    if spec.kind != "GPU":
        return spec.device_id
    is_shared = (
        0 < spec.num_gpus < 1
        and "ray_num_gpus" not in spec.config.parameters
        and os.environ.get(_VISIBLE, "").isdecimal()
    )
    if is_shared or (spec.num_gpus == 0 and f"gpu_{spec.device_id}" in spec.resources):
        os.environ[_VISIBLE] = str(spec.device_id)
    elif spec.num_gpus == 0:
        return spec.device_id
    visible = os.environ.get(_VISIBLE, "")
    return _show_up_to(int(visible)) if visible.isdecimal() and _is_python_based(spec) else 0


def _claim_assigned(spec: InstanceSpec, device: DeviceAssignment) -> int:
    # As nvidia-smi counts; CUDA itself has the fastest first.
    os.environ[_ORDER] = "PCI_BUS_ID"
    if device.is_counted and _is_python_based(spec):
        return _show_up_to(device.index)
    os.environ[_VISIBLE] = device.uuid
    return 0


def _show_up_to(index: int) -> int:
    """Have this process see its GPU under the number that it has on the node; return that.

    As in Triton, where a process sees all: a Python-based backend may take the number for an index,
    or set the variable to it, as vLLM's does, whose engine runs in a process of its own.

    Triton: vllm_backend/src/model.py TritonPythonModel._validate_device_config
    """
    os.environ[_VISIBLE] = ",".join(map(str, range(index + 1)))
    return index


def _is_python(spec: InstanceSpec) -> bool:
    """Whether a model.py runs the model, its own or a Python-based backend's."""
    name = backend_name(spec.config.backend, spec.config.platform)
    return name == "python" or _is_python_based(spec)


def _is_python_based(spec: InstanceSpec) -> bool:
    directory = spec.backend_config.get(BACKEND_DIRECTORY, "")
    return bool(python_library(spec.config, spec.model_dir, spec.version, directory))
