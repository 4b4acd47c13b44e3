# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Which backend runs a model: built-in ones by name, others through entry points.

A name that is neither is that of a backend library in C.

A backend's module is imported only by the process that needs it: importing all of them takes
seconds and a gigabyte. A package adds a backend with an entry point in the group
``manta.backends`` that names a callable returning a `Backend`.

Models of some backends bring an environment for their processes. The control plane has to know it
before such a process starts, and must not import a framework for that; hence a second table, and a
second group of entry points, ``manta.environments``, of functions that are `EnvironmentOf`.
"""

from collections.abc import Callable
from importlib import import_module
from importlib.metadata import entry_points
from typing import cast

from backends.api.backend import Backend, Environment, EnvironmentOf
from backends.api.errors import InvalidArgumentError
from backends.api.model_config import ModelConfig

ENTRY_POINT_GROUP = "manta.backends"
ENVIRONMENT_GROUP = "manta.environments"

_BUILT_IN: dict[str, str] = {
    "identity": "backends.identity.backend:IdentityBackend",
    "onnxruntime": "backends.onnxruntime.backend:OnnxRuntimeBackend",
    "python": "backends.python.backend:PythonBackend",
}

# Looks for a library of the backend's name when it loads a model: only that knows where.
_ANY_OTHER = "backends.custom.backend:CustomBackend"

_BUILT_IN_ENVIRONMENTS: dict[str, str] = {
    "python": "backends.python.launcher:environment_of",
}

_BACKEND_OF_PLATFORM: dict[str, str] = {
    "onnxruntime_onnx": "onnxruntime",
    "openvino_model": "openvino",
    "pytorch_libtorch": "pytorch",
    "tensorflow_graphdef": "tensorflow",
    "tensorflow_savedmodel": "tensorflow",
    "tensorrt_plan": "tensorrt",
    "torch_aoti": "pytorch",
}


def backend_name(backend: str, platform: str = "") -> str:
    """Return the backend a config asks for, given its ``backend`` and ``platform`` fields."""
    return backend or _BACKEND_OF_PLATFORM.get(platform, platform)


def is_built_in(backend: str, platform: str = "") -> bool:
    """Whether a config asks for a backend that is part of Manta, and no library in C."""
    return backend_name(backend, platform) in _BUILT_IN


def create_backend(name: str) -> Backend:
    """Create a backend by its name or the name of a platform it implements.

    Built-in names cannot be replaced by entry points, and these not by libraries. With a name that
    nobody has, loading a model fails.

    Raises:
        InvalidArgumentError: The package of a built-in backend is not installed.
    """
    name = backend_name("", name)
    factory = _built_in(name) or _installed(ENTRY_POINT_GROUP, name) or _imported(_ANY_OTHER)
    return cast("Callable[[], Backend]", factory)()


def environment_of(config: ModelConfig, model_dir: str) -> Environment | None:
    """Return the environment that a model brings for its processes; None without one.

    Raises:
        InvalidArgumentError: The config is wrong about it.
    """
    name = backend_name(config.backend, config.platform)
    if name in _BUILT_IN_ENVIRONMENTS:
        find: object = _imported(_BUILT_IN_ENVIRONMENTS[name])
    else:
        find = None if name in _BUILT_IN else _installed(ENVIRONMENT_GROUP, name)
    return None if find is None else cast("EnvironmentOf", find)(config, model_dir)


def _built_in(name: str) -> object:
    if name not in _BUILT_IN:
        return None
    try:
        return _imported(_BUILT_IN[name])
    except ModuleNotFoundError as missing:
        raise InvalidArgumentError(
            f"unable to find backend library for backend '{name}', try specifying runtime on the "
            f"model configuration. Its Python package '{missing.name}' is not installed"
        ) from missing


def _imported(target: str) -> object:
    module, _, attribute = target.partition(":")
    found: object = getattr(import_module(module), attribute)
    return found


def _installed(group: str, name: str) -> object:
    for point in entry_points(group=group, name=name):
        found: object = point.load()
        return found
    return None
