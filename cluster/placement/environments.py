# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Which environment the processes of a model run in.

Three things may ask for one: what `backends.registry.environment_of` finds, mostly Triton's
parameter EXECUTION_ENV_PATH; the parameter ``runtime_env``, a JSON object that Ray gets as it is;
and a ``requirements.txt`` beside model.py, that of the model or of its Python-based backend, which
is looked at when neither parameter is given. The first two hold for models of every backend and
are a ``runtime_env`` of Ray; requirements are met by the process itself when it loads the model.

Triton: python_backend/src/python_be.cc ModelState::ModelState, EXECUTION_ENV_PATH
"""

import json
from pathlib import Path
from typing import Any, Final

from backends.api.errors import InvalidArgumentError
from backends.api.model_config import ModelConfig
from backends.environments.requirement_lines import Requirements, read_requirements
from backends.lookup import PYTHON_RUNTIME
from backends.registry import backend_name, environment_of

RUNTIME_ENV_PARAMETER: Final = "runtime_env"
REQUIREMENTS_FILE: Final = "requirements.txt"
# These choose the interpreter too.
_INTERPRETER_FIELDS: Final = frozenset(
    {"pip", "uv", "conda", "py_executable", "container", "image_uri"}
)


def runtime_env_of(config: ModelConfig, model_dir: str, library: str = "") -> dict[str, Any]:
    """Return the ``runtime_env`` of a model's processes; empty when it asks for none.

    Args:
        config: The model's config.
        model_dir: Local path of the model's directory.
        library: The model.py of its Python-based backend; empty for another backend.

    Raises:
        InvalidArgumentError: A parameter cannot be used.
    """
    found: dict[str, Any] = {}
    if RUNTIME_ENV_PARAMETER in config.parameters:
        found = _read_parameter(config.name, config.parameters[RUNTIME_ENV_PARAMETER])
    environment = environment_of(config, model_dir, library)
    if environment is not None:
        both = sorted(_INTERPRETER_FIELDS & found.keys())
        if both:
            raise InvalidArgumentError(
                f"model '{config.name}' has parameter '{environment.parameter}' and '{both[0]}' in "
                f"parameter '{RUNTIME_ENV_PARAMETER}'; give one of them"
            )
        return found | {"py_executable": environment.command}
    return found


def requirements_of(
    config: ModelConfig, model_dir: str, version: int, library: str = ""
) -> Requirements | None:
    """Return what a model's processes install before they load it; None for nothing.

    Arguments are as of `runtime_env_of`.

    Raises:
        InvalidArgumentError: The file cannot be read, or a parameter cannot be used.
    """
    folder = _python_folder(config, model_dir, version, library)
    if folder is None or RUNTIME_ENV_PARAMETER in config.parameters:
        return None
    requirements = folder / REQUIREMENTS_FILE
    if environment_of(config, model_dir, library) is not None or not requirements.is_file():
        return None
    return read_requirements(config.name, requirements)


def _python_folder(config: ModelConfig, model_dir: str, version: int, library: str) -> Path | None:
    """Return the folder of the model.py that runs a model; None when none does."""
    if library:
        return Path(library).parent
    name = backend_name(config.backend, config.platform)
    is_python = name == "python" or config.runtime == PYTHON_RUNTIME
    return Path(model_dir, str(version)) if is_python else None


def environment_stamp(config: ModelConfig, model_dir: str, library: str = "") -> str:
    """Return what changes when the environment that a model brings, or its backend, does.

    It is the same on every node: a controller that starts elsewhere has to find it unchanged.
    """
    stamps = [_stamp(library)] if library else []
    try:
        environment = environment_of(config, model_dir, library)
    except InvalidArgumentError:
        # Told by the load.
        environment = None
    return " ".join([*stamps, "" if environment is None else _stamp(environment.path)])


def _stamp(path: str) -> str:
    try:
        status = Path(path).stat()
    except (OSError, ValueError):
        # Told by the load, too.
        return "none"
    return f"{status.st_mtime_ns}:{status.st_size}"


def _read_parameter(model_name: str, text: str) -> dict[str, Any]:
    from ray.runtime_env import RuntimeEnv  # noqa: PLC0415 - a second, which few models need

    try:
        value = json.loads(text)
        if not isinstance(value, dict):
            raise TypeError("it is no JSON object")  # noqa: TRY301 - one path for all failures
        RuntimeEnv(**value)
    except (TypeError, ValueError) as error:
        raise InvalidArgumentError(
            f"parameter '{RUNTIME_ENV_PARAMETER}' of model '{model_name}' must be a runtime_env of "
            f'Ray as JSON, for example {{"uv": ["pandas"]}}: {error}'
        ) from None
    return value
