# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Copies a model out of a repository, verified."""

import shutil
import tempfile
from collections.abc import Collection
from pathlib import Path

from backends.api.errors import AlreadyExistsError, UnavailableError
from cluster.commands.publish.stored_models import StoredModel
from cluster.repository.filesystem import reason_of
from cluster.repository.manifest import read_manifest, verify_manifest
from cluster.repository.repository import INCOMPLETE_FILE
from cluster.repository.stores.contracts import Store, StoredFile
from cluster.repository.stores.source import parts_of
from deployments.model_files.contracts import FileChangedError


def pull_model(store: Store, model: StoredModel, versions: Collection[int], to: Path) -> Path:
    """Copy versions of a model, and what they share, into a folder; all of it or nothing.

    Returns:
        The model's directory.

    Raises:
        AlreadyExistsError: It is there already.
        InvalidArgumentError: A file is not what a manifest says.
        UnavailableError: It cannot be read or written, or has changed meanwhile.
    """
    target = to / model.name
    if target.exists():
        raise AlreadyExistsError(f"'{target}' is there already; remove it, or name another folder")
    files = {f"{n}/{path}": file for n in versions for path, file in model.version(n).items()}
    files |= model.shared
    try:
        to.mkdir(parents=True, exist_ok=True)
        hidden = Path(tempfile.mkdtemp(prefix=".pull.", dir=to))
        try:
            for path, file in files.items():
                if not path.endswith(INCOMPLETE_FILE):
                    _copy(store, file, hidden / model.name / path)
            for version in versions:
                _verify(hidden / model.name / str(version), model.name, version)
            (hidden / model.name).rename(target)
        finally:
            shutil.rmtree(hidden, ignore_errors=True)
    except FileChangedError as error:
        raise UnavailableError(
            f"a file of model '{model.name}' has changed while it was copied ({error}); try again"
        ) from None
    except OSError as error:
        raise UnavailableError(f"'{target}' cannot be written: {reason_of(error)}") from None
    return target


def _copy(store: Store, file: StoredFile, target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    with target.open("xb") as made:
        made.writelines(parts_of(store, file))


def _verify(directory: Path, model: str, version: int) -> None:
    where = f"version {version} of model '{model}'"
    manifest = read_manifest(directory, where)
    if manifest is not None:
        verify_manifest(directory, manifest, where)
