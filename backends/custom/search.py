# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Where a model's backend library and its batching library are.

Triton: core/src/backend_model.cc GetBackendLibraryProperties, TritonModel::Create @73aad7c
"""

from pathlib import Path

from backends import lookup
from backends.api.backend import LoadContext
from backends.api.errors import InvalidArgumentError, NotFoundError
from backends.lookup import BACKEND_DIRECTORY, LibraryPlace, Wanted

DEFAULT_DIRECTORY = "/opt/tritonserver/backends"
_STRATEGY_PARAMETER = "TRITON_BATCH_STRATEGY_PATH"
_STRATEGY_FILE = "batchstrategy.so"


def backend_directory(context: LoadContext) -> str:
    """Return ``--backend-directory``."""
    return context.backend_config.get(BACKEND_DIRECTORY, DEFAULT_DIRECTORY)


def find_library(context: LoadContext) -> LibraryPlace:
    """Return the library of the model's backend.

    Looked for in the version's, the model's and the backend's directory.

    Raises:
        InvalidArgumentError: There is none, or ``runtime`` names one outside of these.
    """
    wanted = _wanted(context)
    found = lookup.find_library(wanted)
    if found is None:
        raise InvalidArgumentError(lookup.not_found(wanted.backend))
    return found


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
    paths = (Path(each, _STRATEGY_FILE) for each in _wanted(context).folders)
    return next((str(each) for each in paths if each.is_file()), "")


def _wanted(context: LoadContext) -> Wanted:
    config = context.config
    return Wanted(
        config.name,
        config.backend or config.platform,
        config.runtime,
        context.model_dir,
        context.version,
        backend_directory(context),
    )


def _escapes(path: Path, directory: str) -> bool:
    return not path.resolve().is_relative_to(Path(directory).resolve())
