# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Where TensorRT's engines are kept on the node, for the next instance of the same model.

Building them takes minutes. ONNX Runtime knows an engine by the graph's shape and not by its
weights, so each state of a model's file has a folder of its own; older ones of the file go.
"""

import hashlib
import logging
import os
import shutil
import tempfile
from pathlib import Path
from typing import Final

logger = logging.getLogger(__name__)

CACHE_VARIABLE: Final = "MANTA_TENSORRT_CACHE"


def engine_folder(model_path: str) -> str:
    """Return the folder for a model's engines, made if need be; empty when there can be none.

    Args:
        model_path: The ONNX file.
    """
    place = os.path.realpath(model_path)
    try:
        status = Path(place).stat()
        folder = _root() / hashlib.sha256(place.encode()).hexdigest()[:32]
        own = folder / f"{status.st_mtime_ns}-{status.st_size}"
        own.mkdir(parents=True, exist_ok=True)
        for other in folder.iterdir():
            if other != own:
                shutil.rmtree(other, ignore_errors=True)
    except OSError as error:
        logger.warning("engines of '%s' are not cached: %s", model_path, error)
        return ""
    return str(own)


def _root() -> Path:
    given = os.environ.get(CACHE_VARIABLE)
    folder = Path(given or f"{tempfile.gettempdir()}/manta-tensorrt-{os.getuid()}")
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    status = folder.lstat()
    if not given and (status.st_uid != os.getuid() or status.st_mode & 0o077):
        raise PermissionError(
            f"'{folder}' must be a folder of this user alone; remove it, or name another one with "
            f"{CACHE_VARIABLE}"
        )
    return folder
