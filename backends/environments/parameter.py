# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Which Python environment a model brings along: its parameter EXECUTION_ENV_PATH.

Asked by the control plane, so that nothing is imported here that only a loading model needs. In
Triton it is a parameter of Python models; here any backend runs in the environment its model names.

Triton: python_backend/src/python_be.cc ModelState::ModelState, EXECUTION_ENV_PATH
"""

from typing import Final

from backends.api.backend import Environment
from backends.api.errors import InvalidArgumentError
from backends.api.model_config import ModelConfig
from backends.environments.launcher import launcher_command

ENVIRONMENT_PARAMETER: Final = "EXECUTION_ENV_PATH"
# Beside the model.py of a Python-based backend, for the models that name no other.
PACKED_ENVIRONMENT: Final = "pb_exec_env_model.py.tar.gz"
_MODEL_DIRECTORY: Final = "$$TRITON_MODEL_DIRECTORY"


def environment_of(config: ModelConfig, model_dir: str) -> Environment | None:
    """Return the environment that EXECUTION_ENV_PATH of a model names; None without one.

    Raises:
        InvalidArgumentError: It is a relative path.
    """
    given = config.parameters.get(ENVIRONMENT_PARAMETER, "")
    path = given.replace(_MODEL_DIRECTORY, model_dir)
    if not path:
        return None
    if not path.startswith("/"):
        raise InvalidArgumentError(
            f"parameter '{ENVIRONMENT_PARAMETER}' of model '{config.name}' must be an absolute path"
            f" or start with {_MODEL_DIRECTORY}, got '{given}'"
        )
    return environment_at(path)


def environment_at(path: str) -> Environment:
    """Return the environment in an archive or a folder, both given as absolute paths."""
    return Environment(ENVIRONMENT_PARAMETER, path, launcher_command(path))
