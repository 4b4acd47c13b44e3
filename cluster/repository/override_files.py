# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""What a load request brings: files, which get a model directory of their own, and a config.

Triton: core/src/model_repository_manager/model_repository_manager.cc LocalizeRepoAgent @73aad7c
"""

import shutil
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

from backends.api.errors import InvalidArgumentError
from backends.config.pbtxt import from_json, to_pbtxt
from cluster.repository.filesystem import reason_of

FILE_PREFIX = "file:"
MAX_FILES = 10_000
# INT_MAX, Triton's limit for one file; here it bounds all files of a request together.
MAX_FILES_BYTES = 2**31 - 1
# Ray downloads what it names, and installs packages from an index.
_FETCHING: Final = "runtime_env"


def write_override(
    config_json: str | None, files: Mapping[str, bytes], temporary_root: str | None
) -> str:
    """Make a model directory.

    Args:
        config_json: Its config as JSON.
        files: Content by parameter name, ``file:<path in the model's directory>``.
        temporary_root: Where to make it; None for the system's place.

    Returns:
        Path of the directory, which the caller removes when the model is unloaded.

    Raises:
        InvalidArgumentError: There is no config, a path leads out of the directory or cannot be
            written, or the files are too many or too large. Nothing is left behind.
    """
    if config_json is None:
        raise InvalidArgumentError(
            "Load parameter 'config' must be specified for model file override"
        )
    config = from_json(config_json)
    _check_limits(files)
    directory = Path(tempfile.mkdtemp(prefix="manta-model-", dir=temporary_root)).resolve()
    try:
        (directory / "config.pbtxt").write_text(to_pbtxt(config), encoding="utf-8")
        for name, content in files.items():
            _write(directory, name, content)
    except BaseException:
        shutil.rmtree(directory, ignore_errors=True)
        raise
    return str(directory)


def _check_limits(files: Mapping[str, bytes]) -> None:
    if len(files) > MAX_FILES:
        raise InvalidArgumentError(f"{len(files)} files given, at most {MAX_FILES} are allowed")
    left_bytes = MAX_FILES_BYTES
    for name, content in files.items():
        left_bytes -= len(content)
        if left_bytes < 0:
            raise InvalidArgumentError(
                f"'{name}' exceeds the maximum allowed data size limit INT_MAX"
            )


def _write(directory: Path, name: str, content: bytes) -> None:
    relative = name.removeprefix(FILE_PREFIX)
    try:
        path = Path(f"{directory}/{relative}").resolve()
    except (OSError, ValueError) as error:
        raise InvalidArgumentError(
            f"Invalid file parameter '{relative[:200]}': {reason_of(error)}"
        ) from None
    if not path.is_relative_to(directory):
        raise InvalidArgumentError(
            f"Invalid file parameter '{name}' with normalized path '{path}' must stay within "
            "model directory."
        )
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    except (FileExistsError, NotADirectoryError):
        raise InvalidArgumentError(
            f"Invalid file parameter '{name}', directory has been created as a file"
        ) from None
    except OSError as error:
        raise InvalidArgumentError(
            f"Invalid file parameter '{name[:200]}': {reason_of(error)}"
        ) from None


def check_override_places(
    name: str, given: Mapping[str, str], own: Callable[[], Mapping[str, str]]
) -> None:
    """Check the parameters of a config that comes with a load.

    Who may load may choose among what is on the nodes; a config from the network must not have them
    fetch or install something from elsewhere. What the model's own config asks for is its owner's.

    Args:
        name: The model.
        given: Parameters of that config.
        own: Reads those of the config in the repository; empty without one.

    Raises:
        InvalidArgumentError: One makes nodes fetch what the repository's config does not name.
    """
    if _FETCHING in given and given[_FETCHING] != own().get(_FETCHING):
        raise InvalidArgumentError(
            f"parameter '{_FETCHING}' of model '{name}' cannot come with a load: it has nodes "
            "fetch and install what it names; put it into the config of the repository"
        )
