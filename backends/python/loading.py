# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Imports a model's model.py, so that it and its helper modules see what they see in Triton."""

import importlib.util
import sys
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType
from typing import Any

from backends.api.backend import LoadContext
from backends.api.errors import InternalError, UnsupportedError
from backends.python.model_side import pb_utils
from backends.python.model_side.current_model import CURRENT
from backends.python.model_side.failure import describe
from backends.python.namesakes import Namesakes

MODEL_FILE = "model.py"
MODEL_CLASS = "TritonPythonModel"
# Triton's Python backend, built by a user against another Python.
_STUB = "triton_python_backend_stub"
_NO_PYTHON_NAME = "Python model file '{}' must have a name that ends in .py"

# Names models import our pb_utils by; the second is the C++ half of it in Triton.
_MODULE_NAMES = ("triton_python_backend_utils", "c_python_backend_utils")
_IN_CHILDREN = str(Path(__file__).parent / "in_children")


def load_model_class(context: LoadContext, library: str = "") -> Any:
    """Import the model's file and return its class TritonPythonModel.

    The version directory and the model's directory come first on ``sys.path``, so that a model's
    helper modules win over a module of the same name anywhere else. For a Python-based backend its
    folder does, and the model's directories are not on the path.

    Args:
        context: The model.
        library: Path of the Python-based backend's file; empty when the model has its own.

    Raises:
        InternalError: The file is missing, fails to import or lacks the class.
        UnsupportedError: The model brings a Python backend of its own.

    Triton: python_backend/src/pb_stub.cc Stub::Initialize, StubSetup
    """
    path = model_file(context, library)
    CURRENT.version_dir = context.version_dir
    CURRENT.instance_name = context.instance_name
    folders = [str(Path(path).parent)] if library else [context.model_dir, context.version_dir]
    for directory in folders:
        if directory in sys.path:
            sys.path.remove(directory)
    Namesakes(folders).install()
    for directory in folders:
        sys.path.insert(0, directory)
    if _IN_CHILDREN not in sys.path:
        sys.path.append(_IN_CHILDREN)
    for name in _MODULE_NAMES:
        sys.modules[name] = pb_utils
    # The name Triton imports it by.
    name = Path(path).stem if library else f"{context.version}.{Path(path).stem}"
    module = _import_file(name, path)
    try:
        return getattr(module, MODEL_CLASS)
    except AttributeError:
        raise InternalError(
            f"AttributeError: module '{name}' has no attribute '{MODEL_CLASS}'"
        ) from None


def model_file(context: LoadContext, library: str = "") -> str:
    """Return the path of the file that has a model's class.

    Args:
        context: The model.
        library: Path of the Python-based backend's file; empty when the model has its own.

    Raises:
        InternalError: The file is missing, or has no name of a Python file.
        UnsupportedError: The model brings a Python backend of its own.
    """
    _refuse_stub(context)
    path = library or context.model_path(MODEL_FILE)
    if not Path(path).is_file():
        raise InternalError(f"Python model file not found in '{path}'")
    if importlib.util.spec_from_file_location("model", path) is None:
        raise InternalError(_NO_PYTHON_NAME.format(path))
    return path


def _refuse_stub(context: LoadContext) -> None:
    path = Path(context.model_dir, _STUB)
    if path.exists():
        running = f"{sys.version_info.major}.{sys.version_info.minor}"
        raise UnsupportedError(
            f"model '{context.config.name}' brings '{path}', a Python backend of Triton built for "
            f"a Python of its own; here models run in Python {running} without one. Remove the "
            f"file, and name packages for Python {running} with parameter EXECUTION_ENV_PATH"
        )


def _import_file(name: str, path: str) -> ModuleType:
    """Run a file as a module, in its folder as the package if the name has one.

    Not by way of ``sys.path``, where a package of the same name elsewhere would win over a folder
    that is none. A later load in one process begins anew.
    """
    package, _, stem = name.rpartition(".")
    top = package or name
    # Looking at each name would give a forked process pages of its own for all of them.
    if top in sys.modules:
        for each in [each for each in sys.modules if each == top or each.startswith(f"{top}.")]:
            del sys.modules[each]
    try:
        parent = _run(_package_spec(package, Path(path).parent)) if package else None
        module = _run(importlib.util.spec_from_file_location(name, path))
    except Exception as error:
        raise InternalError(describe(error)) from error
    if parent is not None:
        setattr(parent, stem, module)
    return module


def _package_spec(name: str, folder: Path) -> ModuleSpec | None:
    init = folder / "__init__.py"
    places = [str(folder)]
    if init.is_file():
        return importlib.util.spec_from_file_location(name, init, submodule_search_locations=places)
    spec = ModuleSpec(name, None, is_package=True)
    spec.submodule_search_locations = places
    return spec


def _run(spec: ModuleSpec | None) -> ModuleType:
    if spec is None:
        raise AssertionError("model_file has looked")
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    if spec.loader is not None:
        try:
            spec.loader.exec_module(module)
        except BaseException:
            del sys.modules[spec.name]
            raise
    return module
