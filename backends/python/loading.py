# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Imports a model's model.py, so that it and its helper modules see what they see in Triton."""

import importlib.util
import itertools
import os
import site
import sys
from pathlib import Path
from typing import Any

from backends.api.backend import LoadContext
from backends.api.errors import InternalError
from backends.python.environment import FAILURE_VARIABLE, PACKAGES_VARIABLE
from backends.python.model_side import pb_utils
from backends.python.model_side.current_model import CURRENT
from backends.python.model_side.failure import describe

MODEL_FILE = "model.py"
MODEL_CLASS = "TritonPythonModel"

# Names models import our pb_utils by; the second is the C++ half of it in Triton.
_MODULE_NAMES = ("triton_python_backend_utils", "c_python_backend_utils")

_serial = itertools.count()


def load_model_class(context: LoadContext) -> Any:
    """Import the model's file and return its class TritonPythonModel.

    The version directory and the model's directory come first on ``sys.path``, so that a model's
    helper modules win over a module of the same name anywhere else.

    Raises:
        InternalError: The file is missing, fails to import or lacks the class, or the process is
            not in the environment the model asks for.
    """
    _enter_environment()
    path = context.model_path(MODEL_FILE)
    if not Path(path).is_file():
        raise InternalError(f"Python model file not found in '{path}'")
    CURRENT.version_dir = context.version_dir
    CURRENT.instance_name = context.instance_name
    for directory in (context.model_dir, context.version_dir):
        if directory in sys.path:
            sys.path.remove(directory)
        sys.path.insert(0, directory)
    for name in _MODULE_NAMES:
        sys.modules[name] = pb_utils
    module = _import_file(path)
    try:
        return getattr(module, MODEL_CLASS)
    except AttributeError:
        raise InternalError(
            f"AttributeError: module '{context.version}.{Path(path).stem}' has no attribute "
            f"'{MODEL_CLASS}'"
        ) from None


def _enter_environment() -> None:
    """Finish what the start of the process began; see `backends.python.environment`."""
    failure = os.environ.get(FAILURE_VARIABLE)
    if failure is not None:
        raise InternalError(failure)
    packages = os.environ.get(PACKAGES_VARIABLE)
    if packages is not None:
        # On the path already; this reads its .pth files.
        site.addsitedir(packages)


def _import_file(path: str) -> Any:
    # Unique, so that two models or two loads of one never share module state.
    name = f"manta_model_{next(_serial)}"
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise InternalError(f"Python model file '{path}' must have a name that ends in .py")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        del sys.modules[name]
        raise InternalError(describe(error)) from error
    return module
