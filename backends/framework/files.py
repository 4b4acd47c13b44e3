# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Finds a model's file."""

from pathlib import Path

from backends.api.backend import LoadContext
from backends.api.errors import UnavailableError


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
