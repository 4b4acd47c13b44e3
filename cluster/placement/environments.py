# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Which environment the processes of a Python model run in, as a ``runtime_env`` of Ray.

Three things may ask for one: the parameter EXECUTION_ENV_PATH, which is Triton's; the parameter
``runtime_env``, a JSON object that Ray gets as it is; and a ``requirements.txt`` beside model.py,
which is looked at when neither parameter is given.

Triton: python_backend/src/python_be.cc ModelState::ModelState, EXECUTION_ENV_PATH
"""

import importlib.util
import json
import re
from pathlib import Path
from typing import Any, Final

from ray.runtime_env import RuntimeEnv

from backends.api.errors import InvalidArgumentError
from backends.api.model_config import ModelConfig
from backends.python.environment import launcher_command
from backends.registry import backend_name

ENVIRONMENT_PARAMETER: Final = "EXECUTION_ENV_PATH"
RUNTIME_ENV_PARAMETER: Final = "runtime_env"
REQUIREMENTS_FILE: Final = "requirements.txt"
MAX_REQUIREMENTS_BYTES: Final = 1 << 20
_MODEL_DIRECTORY: Final = "$$TRITON_MODEL_DIRECTORY"
# These choose the interpreter too.
_INTERPRETER_FIELDS: Final = frozenset(
    {"pip", "uv", "conda", "py_executable", "container", "image_uri"}
)
_COMMENT: Final = re.compile(r"(^|\s)#.*")
_FILE: Final = re.compile(
    r"(?P<option>(?:-[rcfe]|--(?:requirement|constraint|find-links|editable))[ =]\s*|(?=\.))"
    r"(?P<path>\S+)"
)


def runtime_env_of(config: ModelConfig, model_dir: str, version: int) -> dict[str, Any]:
    """Return the ``runtime_env`` of a model's processes; empty when it asks for none.

    Raises:
        InvalidArgumentError: A parameter or the requirements cannot be used.
    """
    if backend_name(config.backend, config.platform) != "python":
        return {}
    found: dict[str, Any] = {}
    if RUNTIME_ENV_PARAMETER in config.parameters:
        found = _read_parameter(config.name, config.parameters[RUNTIME_ENV_PARAMETER])
    environment = environment_path(config, model_dir)
    if environment:
        both = sorted(_INTERPRETER_FIELDS & found.keys())
        if both:
            raise InvalidArgumentError(
                f"model '{config.name}' has parameter '{ENVIRONMENT_PARAMETER}' and '{both[0]}' in "
                f"parameter '{RUNTIME_ENV_PARAMETER}'; give one of them"
            )
        return found | {"py_executable": launcher_command(environment)}
    if RUNTIME_ENV_PARAMETER not in config.parameters:
        requirements = Path(model_dir, str(version), REQUIREMENTS_FILE)
        if requirements.is_file():
            return _install(read_requirements(config.name, requirements))
    return found


def environment_path(config: ModelConfig, model_dir: str) -> str:
    """Return where EXECUTION_ENV_PATH of a model points to; empty without one.

    Raises:
        InvalidArgumentError: It is a relative path.
    """
    given = config.parameters.get(ENVIRONMENT_PARAMETER, "")
    path = given.replace(_MODEL_DIRECTORY, model_dir)
    if path and not path.startswith("/"):
        raise InvalidArgumentError(
            f"parameter '{ENVIRONMENT_PARAMETER}' of model '{config.name}' must be an absolute path"
            f" or start with {_MODEL_DIRECTORY}, got '{given}'"
        )
    return path


def environment_stamp(config: ModelConfig, model_dir: str) -> str:
    """Return what changes when the file or folder EXECUTION_ENV_PATH names does."""
    try:
        status = Path(environment_path(config, model_dir) or "/dev/null").stat()
    except (OSError, ValueError, InvalidArgumentError):
        # Told by the load.
        return "none"
    return f"{status.st_mtime_ns}:{status.st_size}"


def _read_parameter(model_name: str, text: str) -> dict[str, Any]:
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


def read_requirements(model_name: str, path: Path) -> list[str]:
    """Return the lines of a requirements file with its relative paths made absolute.

    Ray copies the lines to a file elsewhere and keeps what they led to by their text alone, so a
    last line names the files they refer to as they are now.

    Raises:
        InvalidArgumentError: It cannot be read, or is too long.
    """
    try:
        content = path.read_bytes()
        text = content.decode()
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidArgumentError(
            f"{REQUIREMENTS_FILE} of model '{model_name}' cannot be read: {error}"
        ) from None
    if len(content) > MAX_REQUIREMENTS_BYTES:
        raise InvalidArgumentError(
            f"{REQUIREMENTS_FILE} of model '{model_name}' is larger than the "
            f"{MAX_REQUIREMENTS_BYTES} bytes allowed"
        )
    lines, referred = [], []
    for line in text.replace("\\\n", " ").splitlines():
        bare = _COMMENT.sub("", line).strip()
        file = _FILE.fullmatch(bare)
        beside = path.parent / file["path"] if file else None
        if file and beside is not None and beside.exists():
            bare = f"{file['option']}{beside.resolve()}"
            referred += _stamps(beside)
        if bare:
            lines.append(bare)
    return [*lines, f"# {' '.join(referred)}"] if referred else lines


def _stamps(path: Path) -> list[str]:
    files = sorted(path.iterdir()) if path.is_dir() else [path]
    return [f"{each.name}:{each.stat().st_mtime_ns}" for each in files]


def _install(packages: list[str]) -> dict[str, Any]:
    if not packages:
        return {}
    # Ray would fetch uv first where it is not installed.
    if importlib.util.find_spec("uv") is not None:
        return {"uv": {"packages": packages, "uv_pip_install_options": []}}
    return {"pip": {"packages": packages, "pip_check": False}}
