# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Where a model's backend library and its batching library are.

Triton: core/src/backend_model.cc GetBackendLibraryProperties, TritonModel::Create @73aad7c
"""

from dataclasses import dataclass
from pathlib import Path

from backends.api.backend import LoadContext
from backends.api.errors import InvalidArgumentError, NotFoundError

DEFAULT_DIRECTORY = "/opt/tritonserver/backends"
_DIRECTORY_SETTING = "backend-directory"
_STRATEGY_PARAMETER = "TRITON_BATCH_STRATEGY_PATH"
_STRATEGY_FILE = "batchstrategy.so"


@dataclass(frozen=True, slots=True)
class LibraryPlace:
    """A library that was found.

    Attributes:
        path: Its path.
        directory: The folder it was looked for in, where its backend may have other files.
    """

    path: str
    directory: str


def backend_directory(context: LoadContext) -> str:
    """Return ``--backend-directory``."""
    return context.backend_config.get(_DIRECTORY_SETTING, DEFAULT_DIRECTORY)


def library_name(backend: str) -> str:
    """Return the file name of a backend's library."""
    return f"libtriton_{backend}.so"


def find_library(context: LoadContext) -> LibraryPlace:
    """Return the library of the model's backend.

    Looked for in the version's, the model's and the backend's directory.

    Raises:
        InvalidArgumentError: There is none, or ``runtime`` names one outside of these.
    """
    config = context.config
    backend = config.backend or config.platform
    name = config.runtime or library_name(backend)
    places = _places(context, backend)
    found = next((each for each in places if Path(each, name).is_file()), None)
    if found is None and not config.runtime:
        raise InvalidArgumentError(
            f"unable to find backend library for backend '{backend}', try specifying runtime on "
            "the model configuration."
        )
    if found is None:
        raise InvalidArgumentError(
            f"unable to find backend library '{name}' for model '{config.name}', searched: "
            f"{_listed(places)}"
        )
    if _escapes(Path(found, name), found):
        raise InvalidArgumentError(
            f"backend library name '{name}' escapes backend directory '{found}', for model "
            f"'{config.name}', check model config runtime field"
        )
    return LibraryPlace(str(Path(found, name)), found)


def find_strategy(context: LoadContext) -> str:
    """Return the path of the model's batching library; empty when it has none.

    Raises:
        InvalidArgumentError: It lies outside of the model's directory, or the model has sequences.
        NotFoundError: It is not there.
    """
    config = context.config
    named = config.parameters.get(_STRATEGY_PARAMETER)
    if config.has_sequence_batching:
        if named is None:
            return ""
        raise InvalidArgumentError(
            f"{_STRATEGY_PARAMETER} cannot be specified with sequence batcher, using default "
            "batching strategy"
        )
    if named is not None:
        if _escapes(Path(named), context.model_dir):
            raise InvalidArgumentError(
                "Batching library path escapes model repository. Parameter "
                f"{_STRATEGY_PARAMETER} of model '{config.name}' is '{named}', which is not in "
                f"'{context.model_dir}'"
            )
        if not Path(named).is_file():
            raise NotFoundError(f"Batching library path not found: {named}")
        return named
    places = _places(context, config.backend or config.platform)
    paths = (Path(each, _STRATEGY_FILE) for each in places)
    return next((str(each) for each in paths if each.is_file()), "")


def _places(context: LoadContext, backend: str) -> tuple[str, ...]:
    return (
        context.version_dir,
        context.model_dir,
        str(Path(backend_directory(context), backend)),
    )


def _listed(places: tuple[str, ...]) -> str:
    return "".join(f"'{each}' " for each in places)


def _escapes(path: Path, directory: str) -> bool:
    return not path.resolve().is_relative_to(Path(directory).resolve())
