# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Weights that instances on a node share.

The first instance writes them to a file; each has its tensors lie in that file, mapped so that what
it writes to them stays its own. The mapping keeps a lock of the file, and whoever comes or goes
removes files that nobody has locked.

Triton: pytorch_backend/src/pt/model_state.cc LoadModel, where the instances are one process
"""

import fcntl
import hashlib
import logging
import mmap
import os
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

import numpy as np
import torch

from backends.api.backend import LoadContext

logger = logging.getLogger(__name__)

# As PyTorch aligns its own.
_ALIGNMENT_BYTES = 64
_SUFFIX = ".weights"


@dataclass(frozen=True, slots=True)
class _Place:
    tensor: torch.Tensor
    offset: int
    size_bytes: int


def share_weights(context: LoadContext, path: str, tensors: Mapping[str, torch.Tensor]) -> None:
    """Have a model's tensors lie in memory that the instances of this node share.

    Args:
        context: What is loaded.
        path: The file that the tensors are from.
        tensors: Parameters and buffers by name, which are pointed elsewhere; those on GPUs and
            those that are not contiguous stay.
    """
    if any(tensor.device.type == "cuda" for tensor in tensors.values()):
        logger.warning(
            "weights of model instance '%s' on its GPU are its own: only those on CPUs are shared",
            context.instance_name,
        )
    places, size_bytes = _layout(tensors)
    if not places:
        return
    try:
        pages, is_new = _mapped(path, places, size_bytes)
    except OSError as error:
        logger.warning(
            "weights of model instance '%s' are its own: they cannot be shared, because %s",
            context.instance_name,
            error,
        )
        return
    if not is_new:
        logger.info("Reusing TorchScript model for instance '%s'", context.instance_name)
    for place in places:
        flat = torch.from_numpy(np.frombuffer(pages, np.uint8, place.size_bytes, place.offset))
        place.tensor.data = flat.view(place.tensor.dtype).view(place.tensor.shape)


def _mapped(path: str, places: Sequence[_Place], size_bytes: int) -> tuple[mmap.mmap, bool]:
    """Return the memory that holds these weights, and whether they were written just now."""
    remove_unused_weights()
    file, is_new = _opened(_folder() / f"{_identity(path, places)}{_SUFFIX}", places, size_bytes)
    with file:
        # Its pages are the file's until they are written to. It keeps the lock, as long as a
        # tensor lies in it.
        return mmap.mmap(file.fileno(), size_bytes, mmap.MAP_PRIVATE), is_new


def remove_unused_weights() -> None:
    """Remove the files of instances that have ended."""
    try:
        paths = list(_folder().glob(f"*{_SUFFIX}"))
    except OSError:
        # Nothing is shared here.
        return
    for path in paths:
        try:
            with path.open("rb") as file:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                path.unlink()
        except OSError:
            # Somebody has it, or has removed it.
            continue


def _layout(tensors: Mapping[str, torch.Tensor]) -> tuple[list[_Place], int]:
    """Return where each tensor is to lie, by name, and the size of all."""
    places = []
    end = 0
    for _, tensor in sorted(tensors.items()):
        size_bytes = tensor.numel() * tensor.element_size()
        if size_bytes and tensor.device.type == "cpu" and _is_plain(tensor):
            places.append(_Place(tensor, end, size_bytes))
            end += -(-size_bytes // _ALIGNMENT_BYTES) * _ALIGNMENT_BYTES
    return places, end


def _is_plain(tensor: torch.Tensor) -> bool:
    return tensor.layout == torch.strided and not tensor.is_quantized and tensor.is_contiguous()


def _folder() -> Path:
    """Return a folder that nobody else can write to."""
    folder = Path(tempfile.gettempdir(), f"manta-weights-{os.getuid()}")
    folder.mkdir(mode=0o700, exist_ok=True)
    status = folder.lstat()
    if folder.is_symlink() or status.st_uid != os.getuid() or status.st_mode & 0o022:
        raise PermissionError(
            f"'{folder}' must be a folder that only user {os.getuid()} can write to"
        )
    return folder


def _identity(path: str, places: Sequence[_Place]) -> str:
    """Return what differs when the model's file or its tensors do."""
    status = Path(path).stat()
    facts = (
        str(Path(path).resolve()),
        (status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns),
        [(place.offset, place.size_bytes, str(place.tensor.dtype)) for place in places],
    )
    return hashlib.sha256(repr(facts).encode()).hexdigest()[:32]


def _opened(path: Path, places: Sequence[_Place], size_bytes: int) -> tuple[BinaryIO, bool]:
    """Return the file of these weights, locked, and whether it was written just now."""
    is_new = False
    while True:
        try:
            file = path.open("rb")
        except FileNotFoundError:
            is_new = _create(path, places, size_bytes)
            continue
        fcntl.flock(file, fcntl.LOCK_SH)
        if os.fstat(file.fileno()).st_nlink:
            return file, is_new
        # Removed before it was locked.
        file.close()


def _create(path: Path, places: Sequence[_Place], size_bytes: int) -> bool:
    """Write the file, which has its name once it is whole; return whether it was not there."""
    with tempfile.NamedTemporaryFile(dir=path.parent) as file:
        file.truncate(size_bytes)
        for place in places:
            file.seek(place.offset)
            file.write(place.tensor.detach().reshape(-1).view(torch.uint8).numpy().data)
        file.flush()
        try:
            os.link(file.name, path)
        except FileExistsError:
            return False
    return True
