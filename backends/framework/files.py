# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Finds a model's files."""

from pathlib import Path

from backends.api.backend import LoadContext
from backends.api.errors import InvalidArgumentError, UnavailableError
from backends.config.pbtxt import to_message


def existing_path(context: LoadContext, default: str, *, directory_of: str = "") -> str:
    """Return the path of the model's file or directory, named ``default`` unless configured.

    Args:
        context: What is loaded.
        default: Name when the config has no ``default_model_filename``.
        directory_of: A file to look for when the path is a directory; empty takes it as it is.

    Raises:
        UnavailableError: There is no such file.
        InvalidArgumentError: ``default_model_filename`` points out of the version directory.
    """
    path = context.model_path(default)
    if directory_of and Path(path).is_dir():
        path = f"{path}/{directory_of}"
    found = Path(path)
    if not (found.is_file() or (found.is_dir() and not directory_of)):
        raise UnavailableError(
            f"unable to find '{path}' for model instance '{context.instance_name}'"
        )
    return path


def operator_libraries(context: LoadContext) -> list[str]:
    """Return the paths of the libraries of operators that a config names.

    They lie in the version's directory, in the model's, or at an absolute path.

    Raises:
        UnavailableError: One is not there.
        InvalidArgumentError: One leads out of the model's directory.
    """
    paths = []
    for name in to_message(context.config).model_operations.op_library_filename:
        if ".." in name.split("/"):
            raise InvalidArgumentError(
                f"model '{context.config.name}' has op_library_filename '{name}', which must be a "
                "path inside the model's directory"
            )
        places = [Path(folder, name) for folder in (context.version_dir, context.model_dir)]
        found = next((place for place in places if place.is_file()), None)
        if found is None:
            raise UnavailableError(
                f"unable to find '{places[0]}' for model instance '{context.instance_name}': its "
                "op_library_filename may lie in the version's or in the model's directory"
            )
        paths.append(str(found))
    return paths
