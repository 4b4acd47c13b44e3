# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Which backend runs a model: built-in ones by name, others through entry points.

A backend's module is imported only by the process that needs it: importing all of them takes
seconds and a gigabyte. A package adds a backend with an entry point in the group
``manta.backends`` that names a callable returning a `Backend`.
"""

from collections.abc import Callable
from importlib import import_module
from importlib.metadata import entry_points
from typing import cast

from backends.api.backend import Backend
from backends.api.errors import InvalidArgumentError

ENTRY_POINT_GROUP = "manta.backends"

_BUILT_IN: dict[str, str] = {
    "identity": "backends.identity.backend:IdentityBackend",
    "onnxruntime": "backends.onnxruntime.backend:OnnxRuntimeBackend",
    "python": "backends.python.backend:PythonBackend",
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


def create_backend(name: str) -> Backend:
    """Create a backend by its name or the name of a platform it implements.

    Built-in names cannot be replaced by entry points.

    Raises:
        InvalidArgumentError: No backend has this name, or its package is not installed.
    """
    name = backend_name("", name)
    factory = _built_in(name) or _installed(name)
    if factory is None:
        raise InvalidArgumentError(
            f"unable to find backend library for backend '{name}', try specifying runtime on the "
            f"model configuration."
        )
    return factory()


def _built_in(name: str) -> Callable[[], Backend] | None:
    target = _BUILT_IN.get(name)
    if target is None:
        return None
    module, _, attribute = target.partition(":")
    try:
        return cast("Callable[[], Backend]", getattr(import_module(module), attribute))
    except ModuleNotFoundError as missing:
        raise InvalidArgumentError(
            f"unable to find backend library for backend '{name}', try specifying runtime on the "
            f"model configuration. Its Python package '{missing.name}' is not installed"
        ) from missing


def _installed(name: str) -> Callable[[], Backend] | None:
    for point in entry_points(group=ENTRY_POINT_GROUP, name=name):
        return cast("Callable[[], Backend]", point.load())
    return None
