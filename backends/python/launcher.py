# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Which Python environment a model brings along: its parameter EXECUTION_ENV_PATH.

Asked by the control plane, so that nothing is imported here that only a loading model needs.

Triton: python_backend/src/python_be.cc ModelState::ModelState, EXECUTION_ENV_PATH
"""

from typing import Final

from backends.api.backend import Environment
from backends.api.errors import InvalidArgumentError
from backends.api.model_config import ModelConfig
from backends.python.environment import launcher_command

ENVIRONMENT_PARAMETER: Final = "EXECUTION_ENV_PATH"
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
    return Environment(ENVIRONMENT_PARAMETER, path, launcher_command(path))
