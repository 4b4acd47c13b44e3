# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Finds the file that implements a backend which is not Manta's own.

That is a shared library ``libtriton_<backend>.so`` beside the model or in the backend's folder of
``--backend-directory``, or a ``model.py`` in that folder.

Triton: core/src/backend_model.cc TritonModel::GetBackendLibraryProperties,
GetBackendRuntimeLibraryName, GetBackendLibrarySearchPaths @73aad7c
"""

import os.path
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from backends.api.errors import InvalidArgumentError

PYTHON_RUNTIME: Final = "model.py"
# The setting of ``--backend-config`` in which every backend is told the directory, as in Triton.
BACKEND_DIRECTORY: Final = "backend-directory"


@dataclass(frozen=True, slots=True)
class Wanted:
    """What a model says of its backend.

    Attributes:
        model: The model's name.
        backend: The backend's name.
        runtime: The config's field ``runtime``; empty when it has none.
        model_dir: Local path of the model's directory.
        version: Version number.
        backend_directory: ``--backend-directory``; empty for none.
    """

    model: str
    backend: str
    runtime: str
    model_dir: str
    version: int
    backend_directory: str = ""

    @property
    def folder(self) -> str:
        """The backend's folder of the backend directory; empty without one."""
        is_name = self.backend not in {"", ".", ".."} and "/" not in self.backend
        if not self.backend_directory or not is_name:
            return ""
        return f"{self.backend_directory}/{self.backend}"

    @property
    def folders(self) -> tuple[str, ...]:
        """Where its libraries are looked for, in this order."""
        beside = (f"{self.model_dir}/{self.version}", self.model_dir)
        return (*beside, self.folder) if self.folder else beside


@dataclass(frozen=True, slots=True)
class LibraryPlace:
    """A library that was found.

    Attributes:
        path: Its path.
        directory: The folder it was looked for in, where its backend may have other files.
    """

    path: str
    directory: str


def default_library(backend: str) -> str:
    """Return the name of a backend's shared library."""
    return f"libtriton_{backend}.so"


def not_found(backend: str) -> str:
    """Return what is said of a backend that nothing implements."""
    return (
        f"unable to find backend library for backend '{backend}', try specifying runtime on the "
        "model configuration."
    )


def find_implementation(wanted: Wanted) -> str:
    """Return the path of a backend's library or model.py; empty when nothing tells where it is.

    Raises:
        InvalidArgumentError: The config's ``runtime`` names a file that is not there, or leads out
            of the folder it is looked for in.
    """
    python = f"{wanted.folder}/{PYTHON_RUNTIME}" if wanted.folder else ""
    if wanted.runtime == PYTHON_RUNTIME:
        return _existing_python(wanted, python)
    library = find_library(wanted)
    if library is not None:
        return library.path
    return python if python and _is_file(python) else ""


def find_library(wanted: Wanted) -> LibraryPlace | None:
    """Return a backend's library; None when there is none and ``runtime`` names none.

    Raises:
        InvalidArgumentError: The config's ``runtime`` names a file that is not there, or leads out
            of the folder it is looked for in.
    """
    name = wanted.runtime or default_library(wanted.backend)
    for folder in wanted.folders:
        path = f"{folder}/{name}"
        if _is_file(path):
            return LibraryPlace(_inside(wanted, folder, path), folder)
    if not wanted.runtime:
        return None
    searched = "".join(f"'{folder}' " for folder in wanted.folders)
    raise InvalidArgumentError(
        f"unable to find backend library '{name}' for model '{wanted.model}', searched: {searched}"
    )


def _is_file(path: str) -> bool:
    """Whether there is a file; a name that no file can have, as a client may give it, is none."""
    try:
        return Path(path).is_file()
    except (OSError, ValueError):
        return False


def _existing_python(wanted: Wanted, path: str) -> str:
    if path and _is_file(path):
        return path
    raise InvalidArgumentError(
        f"unable to find Python backend based backend library '{PYTHON_RUNTIME}' for model "
        f"'{wanted.model}', searched: '{path}'"
    )


def _inside(wanted: Wanted, folder: str, path: str) -> str:
    # By its text alone, as in Triton: a link may lead elsewhere.
    if os.path.normpath(path).startswith(f"{os.path.normpath(folder)}/"):
        return path
    raise InvalidArgumentError(
        f"backend library name '{wanted.runtime}' escapes backend directory '{folder}', for model "
        f"'{wanted.model}', check model config runtime field"
    )
