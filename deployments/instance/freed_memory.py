# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Keeps memory that an instance frees, for its next execution.

A model makes the same large arrays in every execution. As it stands, glibc gives memory from 128 KB
on back to the kernel when it is freed, and its pages are cleared anew and faulted in one by one
when the next array is written: for 602 KB that costs more than to copy them three times.
"""

import contextlib
import ctypes
import os
from typing import Final

# glibc's numbers of what can be set.
_TRIM_THRESHOLD: Final = -1
_MMAP_THRESHOLD: Final = -3
# The most that glibc takes; the page faults of what is larger are little beside the rest.
_MAPPED_FROM_BYTES: Final = 32 * 1024 * 1024
# What a thread's arena may keep at its end.
_KEPT_BYTES: Final = 64 * 1024 * 1024
_VARIABLES: Final = ("MALLOC_MMAP_THRESHOLD_", "MALLOC_TRIM_THRESHOLD_")


def keep_freed_memory() -> None:
    """Have this process keep what it frees, unless its environment says what glibc shall do.

    Nothing happens with another C library.
    """
    if any(variable in os.environ for variable in _VARIABLES):
        return
    with contextlib.suppress(AttributeError, OSError):
        libc = ctypes.CDLL(None)
        libc.mallopt(_MMAP_THRESHOLD, _MAPPED_FROM_BYTES)
        libc.mallopt(_TRIM_THRESHOLD, _KEPT_BYTES)
