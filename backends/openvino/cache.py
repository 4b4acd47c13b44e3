# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""What OpenVINO has compiled, kept on the node for the next instance of the same model.

Each model's file has a folder of its own. OpenVINO knows what it has compiled by the model's
content, its properties and the device, so a file that changes is compiled anew. On CPUs weights
stay in the model's own file and only IR, whose weights lie in one, is cached: others would be
written to the disk once more.
"""

import fcntl
import hashlib
import logging
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from backends.openvino.properties import CPU

logger = logging.getLogger(__name__)

CACHE_VARIABLE = "MANTA_OPENVINO_CACHE"

_KEPT_PER_MODEL = 4
_ORIGIN = "model"


@contextmanager
def cache_properties(model_path: str, device: str) -> Iterator[dict[str, object]]:
    """Lend the properties that have OpenVINO use the cache while it compiles a model.

    Instances of a model that start together wait for each other: the first compiles, the others
    read. A cache that cannot be used is a line in the log and no properties.

    Args:
        model_path: The model's file or directory.
        device: OpenVINO's name of the device.
    """
    found = _wanted(model_path, device)
    root = _root() if found is not None else None
    if found is None or root is None:
        yield {}
        return
    folder = root / hashlib.sha256(os.path.realpath(model_path).encode()).hexdigest()[:32]
    try:
        _remove_orphans(root)
        folder.mkdir(exist_ok=True)
        (folder / _ORIGIN).write_text(os.path.realpath(model_path))
        descriptor = os.open(folder, os.O_RDONLY)
        fcntl.flock(descriptor, fcntl.LOCK_EX)
    except OSError as error:
        logger.warning("OpenVINO compiles '%s' without its cache: %s", model_path, error)
        yield {}
        return
    try:
        yield found | {"CACHE_DIR": str(folder)}
        _remove_old(folder)
    finally:
        os.close(descriptor)


def _wanted(model_path: str, device: str) -> dict[str, object] | None:
    if device != CPU:
        return {}
    weights = Path(model_path).with_suffix(".bin")
    if Path(model_path).suffix == ".xml" and weights.is_file():
        return {"CACHE_MODE": "OPTIMIZE_SIZE", "WEIGHTS_PATH": str(weights)}
    return None


def _root() -> Path | None:
    """Return this user's folder, made if need be; None when there shall or can be none."""
    given = os.environ.get(CACHE_VARIABLE)
    if given == "":
        return None
    folder = Path(given or f"{tempfile.gettempdir()}/manta-openvino-{os.getuid()}")
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        status = folder.lstat()
    except OSError as error:
        logger.warning("OpenVINO compiles without a cache: %s", error)
        return None
    if not given and (
        status.st_uid != os.getuid() or status.st_mode & 0o077 or folder.is_symlink()
    ):
        logger.warning(
            "OpenVINO compiles without a cache: '%s' must be a folder of this user alone; remove "
            "it, or name another one with %s",
            folder,
            CACHE_VARIABLE,
        )
        return None
    return folder


def _remove_orphans(root: Path) -> None:
    """Remove what was compiled of models that are gone."""
    for folder in root.iterdir():
        origin = folder / _ORIGIN
        if origin.is_file() and not Path(origin.read_text()).exists():
            shutil.rmtree(folder, ignore_errors=True)


def _remove_old(folder: Path) -> None:
    blobs = sorted(folder.glob("*.blob"), key=lambda blob: blob.stat().st_mtime_ns)
    for blob in blobs[:-_KEPT_PER_MODEL]:
        blob.unlink(missing_ok=True)
