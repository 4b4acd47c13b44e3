# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Which backend runs a model.

Manta's own are found by name, others of Python packages through entry points, and others yet by
their file beside the model or in ``--backend-directory`` (`backends.lookup`); in this order, so
that a directory of Triton's backends does not replace Manta's.

A backend's module is imported only by the process that needs it: importing all of them takes
seconds and a gigabyte. A package adds a backend with an entry point in the group
``manta.backends`` that names a callable returning a `Backend`.

Models bring an environment for their processes. The control plane has to know it before such a
process starts, and must not import a framework for that; hence a second group of entry points,
``manta.environments``, of functions that are `EnvironmentOf`, for backends with a way of their own.
"""

import contextlib
import difflib
from collections.abc import Callable, Iterator, Sequence
from importlib import import_module
from importlib.metadata import entry_points
from pathlib import Path
from typing import Final, cast

from backends.api.backend import (
    Backend,
    CheckedFiles,
    CheckFiles,
    Environment,
    EnvironmentOf,
    LoadContext,
)
from backends.api.errors import InvalidArgumentError, UnavailableError
from backends.api.model_config import ModelConfig
from backends.config.pbtxt import to_message
from backends.environments.parameter import PACKED_ENVIRONMENT, environment_at
from backends.environments.parameter import environment_of as named_environment
from backends.lookup import (
    BACKEND_DIRECTORY,
    PYTHON_RUNTIME,
    Wanted,
    default_library,
    find_implementation,
    not_found,
)

ENTRY_POINT_GROUP = "manta.backends"
ENVIRONMENT_GROUP = "manta.environments"

_BUILT_IN: dict[str, str] = {
    "fil": "backends.fil.backend:FilBackend",
    "identity": "backends.identity.backend:IdentityBackend",
    "llm": "backends.llm.backend:LlmBackend",
    "onnxruntime": "backends.onnxruntime.backend:OnnxRuntimeBackend",
    "openvino": "backends.openvino.backend:OpenVinoBackend",
    "python": "backends.python.backend:PythonBackend",
    "pytorch": "backends.pytorch.backend:PyTorchBackend",
    "tensorflow": "backends.tensorflow.choice:tensorflow_backend",
    "tensorrt": "backends.tensorrt.backend:TensorRTBackend",
}

# What checks the files of a model without its framework, where a backend has that.
_FILE_CHECKS: dict[str, str] = {
    "identity": "backends.identity.check:check_files",
    "llm": "backends.llm.check:check_files",
    "onnxruntime": "backends.onnxruntime.check:check_files",
    "python": "backends.python.check:check_files",
}
# Files that models of the others are in, unless their config names one; several are one of them.
_MODEL_FILES: dict[str, tuple[str, ...]] = {
    "fil": ("xgboost.model", "xgboost.json", "xgboost.ubj", "model.txt", "checkpoint.tl"),
    "llm": ("model.gguf", "model"),
    "onnxruntime": ("model.onnx",),
    "openvino": ("model.xml",),
    "pytorch": ("model.pt", "model.pt2", "model.py"),
    "tensorflow": ("model.savedmodel", "model.graphdef"),
    "tensorrt": ("model.plan",),
}

# Values of the config's field ``runtime`` that a built-in backend implements itself, beside the
# name of its library in Triton.
_OWN_RUNTIMES: dict[str, frozenset[str]] = {"pytorch": frozenset({PYTHON_RUNTIME})}

_EXTRA_OF_BACKEND: dict[str, str] = {
    "fil": "trees",
    "llm": "llm",
    "onnxruntime": "cpu",
    "openvino": "openvino",
    "pytorch": "pytorch",
    "tensorflow": "tensorflow",
    "tensorrt": "tensorrt",
}

_ADVICE: dict[str, str] = {
    "dali": "Manta has no DALI backend: run the pipeline in a Python model, as a step of an "
    "ensemble",
    "tensorrtllm": "Manta cannot load TensorRT-LLM's library: use its LLM API from a model.py, "
    "with backend 'python'",
    "vllm": "copy vllm_backend/src to 'vllm' in the folder given with --backend-directory",
}

_BACKEND_OF_PLATFORM: dict[str, str] = {
    "onnxruntime_onnx": "onnxruntime",
    "libtorch": "pytorch",
    "openvino_model": "openvino",
    "pytorch_libtorch": "pytorch",
    "tensorflow_graphdef": "tensorflow",
    "tensorflow_savedmodel": "tensorflow",
    "tensorrt_plan": "tensorrt",
    "torch_aoti": "pytorch",
}

_PYTHON_BASED: Final = "backends.python.backend:PythonBackend"
_IN_C: Final = "backends.custom.backend:CustomBackend"


def backend_name(backend: str, platform: str = "") -> str:
    """Return the backend a config asks for, given its ``backend`` and ``platform`` fields."""
    return backend or _BACKEND_OF_PLATFORM.get(platform, platform)


def backend_for(context: LoadContext) -> Backend:
    """Create the backend that runs a model.

    Raises:
        InvalidArgumentError: There is none of this name, or its package is not installed, or the
            config's ``runtime`` names a file that is not there.
    """
    wanted = _wanted_by(context)
    path = _implementation(wanted)
    if not path:
        return create_backend(wanted.backend)
    if _is_python(path):
        return cast("Callable[[str], Backend]", _imported(_PYTHON_BASED))(path)
    return cast("Callable[[], Backend]", _imported(_IN_C))()


def check_files(
    context: LoadContext, *, auto_complete: bool, has_contents: bool = True
) -> CheckedFiles:
    """Check the files of a model without loading it, and without importing a framework.

    Args:
        context: What would be loaded.
        auto_complete: Whether its backend would complete the config first.
        has_contents: Whether files other than texts have their contents; else they are empty.

    Raises:
        TritonError: The load would fail.
    """
    wanted = _wanted_by(context)
    path = _implementation(wanted)
    if path and _is_python(path):
        check = cast("Callable[..., CheckedFiles]", _imported(_FILE_CHECKS["python"]))
        return check(context, auto_complete=auto_complete, library=path)
    is_readable = has_contents or wanted.backend not in _MODEL_FILES
    if not path and wanted.backend in _FILE_CHECKS and is_readable:
        own = cast("CheckFiles", _imported(_FILE_CHECKS[wanted.backend]))
        return own(context, auto_complete=auto_complete)
    config = context.config
    if not path:
        _require_file(context, _MODEL_FILES.get(wanted.backend, ()))
    is_complete = not auto_complete or bool(config.input and config.output)
    return CheckedFiles(config, is_complete, (f"what the model's file holds ({wanted.backend})",))


def is_built_in(backend: str, platform: str = "") -> bool:
    """Whether a config asks for a backend that is part of Manta, and no library in C."""
    return backend_name(backend, platform) in _BUILT_IN


def create_backend(name: str) -> Backend:
    """Create a built-in or installed backend by its name or the name of a platform it implements.

    Built-in names cannot be replaced by entry points.

    Raises:
        InvalidArgumentError: No backend has this name, or its package is not installed.
    """
    name = backend_name("", name)
    with extra_named(name):
        factory = _built_in(name) or _installed(ENTRY_POINT_GROUP, name)
        if factory is None:
            raise _unknown(name)
        return cast("Callable[[], Backend]", factory)()


def python_library(
    config: ModelConfig, model_dir: str, version: int, backend_directory: str
) -> str:
    """Return the path of the model.py of a model's Python-based backend; empty for another one.

    What is wrong about it is told by the load.
    """
    wanted = _wanted(config, model_dir, version, backend_directory)
    if wanted.backend in _BUILT_IN and _is_package(wanted):
        return ""
    try:
        path = find_implementation(wanted)
    except InvalidArgumentError:
        return ""
    # Packages last: to look through all that are installed takes longest.
    return path if _is_python(path) and not _is_package(wanted) else ""


def environment_of(config: ModelConfig, model_dir: str, library: str = "") -> Environment | None:
    """Return the environment that a model or its backend brings for its processes, if any.

    Args:
        config: The model's config.
        model_dir: Local path of the model's directory.
        library: The model.py of its Python-based backend; empty for another backend.

    Raises:
        InvalidArgumentError: The config is wrong about it.
    """
    name = backend_name(config.backend, config.platform)
    find = None if name in _BUILT_IN else _installed(ENVIRONMENT_GROUP, name)
    found = cast("EnvironmentOf", find or named_environment)(config, model_dir)
    if found is None and library:
        packed = Path(library).with_name(PACKED_ENVIRONMENT)
        return environment_at(str(packed)) if packed.is_file() else None
    return found


@contextlib.contextmanager
def extra_named(name: str) -> Iterator[None]:
    """Run what imports a backend's framework; where that is missing, say what to install.

    Raises:
        InvalidArgumentError: A module is not there.
    """
    try:
        yield
    except ModuleNotFoundError as missing:
        extra = _EXTRA_OF_BACKEND.get(name)
        advice = f"; pip install manta-serve[{extra}]" if extra else ""
        raise InvalidArgumentError(
            f"{not_found(name)} Its Python package '{missing.name}' is not installed{advice}"
        ) from missing


def _wanted_by(context: LoadContext) -> Wanted:
    directory = context.backend_config.get(BACKEND_DIRECTORY, "")
    return _wanted(context.config, context.model_dir, context.version, directory)


def _implementation(wanted: Wanted) -> str:
    """Return the library or model.py of a backend; empty for one of a package.

    Raises:
        InvalidArgumentError: There is none of this name, or ``runtime`` names a file that is not
            there.
    """
    if _is_package(wanted):
        return ""
    path = find_implementation(wanted)
    if not path:
        raise _unknown(wanted.backend)
    return path


def _require_file(context: LoadContext, defaults: Sequence[str]) -> None:
    """Refuse a model none of whose files is there; a plan may be named by the GPU's generation.

    Raises:
        UnavailableError: None is there.
        InvalidArgumentError: ``default_model_filename`` points out of the version directory.
    """
    if not defaults:
        return
    paths = [Path(context.model_path(defaults[0]))]
    if not context.config.default_model_filename or context.config.runtime == PYTHON_RUNTIME:
        paths += [Path(context.version_dir, name) for name in defaults]
    by_gpu = to_message(context.config).cc_model_filenames.values()
    paths += [Path(context.version_dir, name) for name in by_gpu]
    if not any(path.exists() for path in paths):
        raise UnavailableError(
            f"unable to find '{paths[0]}' for model instance '{context.instance_name}'"
        )


def _wanted(config: ModelConfig, model_dir: str, version: int, backend_directory: str) -> Wanted:
    name = backend_name(config.backend, config.platform)
    return Wanted(config.name, name, config.runtime, model_dir, version, backend_directory)


def _is_package(wanted: Wanted) -> bool:
    """Whether a Python package of this name implements what the model wants."""
    name = wanted.backend
    if wanted.runtime in {"", default_library(name)}:
        return name in _BUILT_IN or any(entry_points(group=ENTRY_POINT_GROUP, name=name))
    return name in _BUILT_IN and wanted.runtime in _OWN_RUNTIMES.get(name, ())


def _is_python(path: str) -> bool:
    return Path(path).name == PYTHON_RUNTIME


def _unknown(name: str) -> InvalidArgumentError:
    near = difflib.get_close_matches(name, _BUILT_IN, n=1, cutoff=0.75)
    advice = _ADVICE.get(name) or (f"did you mean '{near[0]}'?" if near else "")
    return InvalidArgumentError(not_found(name) + (f" {advice}" if advice else ""))


def _built_in(name: str) -> object:
    return _imported(_BUILT_IN[name]) if name in _BUILT_IN else None


def _imported(target: str) -> object:
    module, _, attribute = target.partition(":")
    found: object = getattr(import_module(module), attribute)
    return found


def _installed(group: str, name: str) -> object:
    for point in entry_points(group=group, name=name):
        found: object = point.load()
        return found
    return None
