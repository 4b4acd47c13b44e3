# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Memory files that processes of one node share: made by one, mapped by others."""

import fcntl
import mmap
import os
from typing import Final

_NAME: Final = "manta-slab"
_SEALS: Final = fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SEAL


def sealed_memfd(size_bytes: int) -> int:
    """Make a memory file that keeps its size; return its descriptor.

    Raises:
        OSError: There is no memory, or no descriptor, for it.
    """
    fd = os.memfd_create(_NAME, os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    try:
        os.ftruncate(fd, size_bytes)
        fcntl.fcntl(fd, fcntl.F_ADD_SEALS, _SEALS)
    except OSError:
        os.close(fd)
        raise
    return fd


def map_memfd(pid: int, fd: int, size_bytes: int) -> mmap.mmap:
    """Map a peer's memory file read-only, having made sure that it is one and cannot shrink.

    Raises:
        OSError: The process is not here, or is not to be looked into.
        ValueError: It is something else, or smaller.
    """
    path = f"/proc/{pid}/fd/{fd}"
    # Opening anything else could block (a pipe) or act (a device).
    target = os.readlink(path)  # noqa: PTH115 - Path would normalise what the kernel says
    if not target.startswith(f"/memfd:{_NAME}"):
        raise ValueError(f"{path} is {target}, not a slab")
    opened = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    try:
        if os.fstat(opened).st_size < size_bytes or size_bytes <= 0:
            raise ValueError(f"{path} is smaller than the {size_bytes} bytes announced")
        if not fcntl.fcntl(opened, fcntl.F_GET_SEALS) & fcntl.F_SEAL_SHRINK:
            raise ValueError(f"{path} is not sealed against shrinking")
        return mmap.mmap(opened, size_bytes, prot=mmap.PROT_READ)
    finally:
        os.close(opened)
