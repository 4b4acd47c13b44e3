# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""The environment of a model's processes when its archive lies beside the model, in a store.

A process enters its environment before it can ask for files, so what starts it fetches the archive.

Triton: python_backend/src/python_be.cc ModelState::ModelState, EXECUTION_ENV_PATH
"""

import os
from pathlib import Path
from typing import Any, Final

from backends.api.errors import InvalidArgumentError
from backends.api.model_config import ModelConfig
from backends.environments.launcher import launcher_command
from backends.registry import environment_of
from cluster.placement.environments import runtime_env_of
from cluster.repository.agents.contracts import CHECKSUM, MANIFEST
from cluster.repository.stores import fetch
from deployments.model_files.contracts import ModelFiles
from deployments.model_files.loaded import is_of_load

# Others make files, or decide who may run what is in them.
_LOOKING_AGENTS: Final = frozenset({CHECKSUM, MANIFEST})


def stored_runtime_env_of(
    config: ModelConfig,
    model_dir: str,
    library: str,
    files: ModelFiles | None,
    cache: tuple[str, int],
) -> dict[str, Any]:
    """Return what `cluster.placement.environments.runtime_env_of` does, also for models in stores.

    Args:
        config: The model's config.
        model_dir: Local path of the model's directory, or of what stands for it.
        library: The model.py of its Python-based backend; empty for another backend.
        files: What nodes fetch; None when the directory has it.
        cache: Folder of the nodes' caches, and what they may hold, in bytes.

    Raises:
        InvalidArgumentError: A parameter cannot be used.
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
