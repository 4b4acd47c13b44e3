# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""What the server's options say of a model's backend, of all instances, and of their GPUs."""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from backends.api.errors import InvalidArgumentError
from backends.api.model_config import ModelConfig
from backends.environments.launcher import launcher_command
from backends.lookup import BACKEND_DIRECTORY
from backends.registry import backend_name, environment_of, python_library
from cluster.instances.device_leases import DeviceRules, GpuMemory
from cluster.options.parsing import ServerOptions
from cluster.options.settings_at_start import cache_settings, lane_settings, resource_limits
from cluster.placement.environments import runtime_env_of
from cluster.placement.planner import PoolRequest
from cluster.repository.agents.contracts import CHECKSUM, MANIFEST
from cluster.repository.stores import fetch
from deployments.model_files.contracts import ModelFiles
from deployments.model_files.loaded import is_of_load

if TYPE_CHECKING:
    # `manta check` has these options, and no Ray.
    from cluster.controller.durable_state import DurableState

# Others make files, or decide who may run what is in them.
_LOOKING_AGENTS: Final = frozenset({CHECKSUM, MANIFEST})


class BackendOptions:
    """``--backend-directory`` and ``--backend-config``."""

    def __init__(self, options: ServerOptions) -> None:
        self._given = options.backend_config
        self._directory = str(Path(options.backend_directory).absolute())

    def python_library(self, config: ModelConfig, model_dir: str, versions: Sequence[int]) -> str:
        """Return the model.py of a model's Python-based backend; empty for another backend."""
        if config.has_ensemble_scheduling or not versions:
            return ""
        return python_library(config, model_dir, versions[0], self._directory)

    def settings(self, config: ModelConfig, library: str) -> dict[str, str]:
        """Return what a model's backend is told: general settings, then those of its name.

        Settings for the Python backend are for those based on it, too.
        """
        names = [
            "",
            *(["python"] if library else []),
            backend_name(config.backend, config.platform),
        ]
        settings = {BACKEND_DIRECTORY: self._directory}
        for each in names:
            settings |= {key: value for name, key, value in self._given if name == each}
        return settings


def instance_options(options: ServerOptions, secret: bytes) -> PoolRequest:
    """Return what holds for the instances of all models, before any version is chosen."""
    host_policies: dict[str, dict[str, str]] = {}
    for policy, key, value in options.host_policy:
        host_policies.setdefault(policy, {})[key] = value
    return PoolRequest(
        generation=0,
        version=0,
        model_dir="",
        cpus_per_instance=options.cpus_per_instance,
        secret=secret,
        load_timeout_s=options.model_load_timeout_secs,
        log_level="INFO" if options.log_info else "WARNING",
        log_format=options.log_format,
        lanes=lane_settings(options),
        host_policies=host_policies,
        cache=cache_settings(options.cache_config),
        resource_limits=resource_limits(options),
        scheduler_holds=options.scheduler_holds,
        model_cache_directory=options.model_cache_directory,
        model_cache_max_bytes=options.model_cache_max_bytes,
    )


def device_rules(options: ServerOptions, state: "DurableState") -> DeviceRules:
    """Return by what rules instances get GPUs; what is measured is kept in the state."""
    return DeviceRules(
        min_compute_capability=options.min_supported_compute_capability,
        load_limits=dict(options.model_load_gpu_limit),
        memory=GpuMemory(state.saved.gpu_memory, state.schedule),
        # There, models leave to make room.
        waits_above_limit=options.model_control_mode == "ondemand",
    )


def stored_runtime_env_of(
    config: ModelConfig,
    model_dir: str,
    library: str,
    files: ModelFiles | None,
    cache: tuple[str, int],
) -> dict[str, Any]:
    """Return what `cluster.placement.environments.runtime_env_of` does, also for models in stores.

    A process enters its environment before it can ask for files, so what starts it fetches the
    archive that lies beside the model.

    Args:
        config: The model's config.
        model_dir: Local path of the model's directory, or of what stands for it.
        library: The model.py of its Python-based backend; empty for another backend.
        files: What nodes fetch; None when the directory has it.
        cache: Folder of the nodes' caches, and what they may hold, in bytes.

    Raises:
        InvalidArgumentError: A parameter cannot be used.

    Triton: python_backend/src/python_be.cc ModelState::ModelState, EXECUTION_ENV_PATH
    """
    found = runtime_env_of(config, model_dir, library)
    if files is None or is_of_load(files.location):
        return found
    environment = environment_of(config, model_dir, library)
    if environment is None:
        return found
    path = Path(os.path.normpath(environment.path))
    if not path.is_relative_to(model_dir):
        return found
    inside = path.relative_to(model_dir).as_posix()
    file = next((file for file in files.files if file.path == inside), None)
    changing = sorted({call.name for call in files.agents} - _LOOKING_AGENTS)
    if file is None or changing:
        why = f"is used before agent '{changing[0]}' has seen it" if changing else "is no archive"
        raise InvalidArgumentError(
            f"parameter '{environment.parameter}' of model '{config.name}' names '{inside}' in "
            f"'{files.location}', which {why}; put an archive on every node and name it by its "
            "path there"
        )
    request = fetch.FetchRequest(files.location, file, *cache)
    command = launcher_command(request.url, (fetch.__name__, request.as_json()))
    return found | {"py_executable": command}
