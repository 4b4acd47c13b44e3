# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Tells what a file of PyTorch holds, from the archive and not from its name."""

import zipfile
from enum import Enum

from backends.api.errors import InternalError


class Format(Enum):
    """What a file holds."""

    SCRIPT = "a TorchScript module"
    EXPORTED = "an exported program"
    PACKAGE = "an AOTInductor package"
    OBJECTS = "pickled tensors or modules"
    SOURCE = "Python source"


def format_of(path: str, model: str) -> Format:
    """Return what a file holds.

    Args:
        path: The file.
        model: Name of the model, for the error.

    Raises:
        InternalError: It is neither an archive of PyTorch nor Python source.
    """
    if path.endswith(".py"):
        return Format.SOURCE
    try:
        with zipfile.ZipFile(path) as archive:
            names = [name.partition("/")[2] for name in archive.namelist()]
    except (OSError, zipfile.BadZipFile) as error:
        raise InternalError(
            f"failed to load model '{model}': {error}; '{path}' is no archive that "
            "torch.jit.save, torch.export.save or AOTInductor writes"
        ) from error
    if any(name.startswith("data/aotinductor/") for name in names):
        return Format.PACKAGE
    if any(name.startswith("models/") and name.endswith(".json") for name in names):
        return Format.EXPORTED
    if "constants.pkl" in names and any(name.startswith("code/") for name in names):
        return Format.SCRIPT
    if "data.pkl" in names:
        return Format.OBJECTS
    raise InternalError(
        f"failed to load model '{model}': '{path}' is an archive, but none that torch.jit.save, "
        "torch.export.save or AOTInductor writes"
    )
