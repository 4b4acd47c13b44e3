# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Which files of a folder have changed.

By inotify; every 0.2 s all of them where the kernel has none left.
"""

import ctypes
import errno
import logging
import os
import select
import struct
import time
from pathlib import Path
from typing import Final

_log = logging.getLogger(__name__)

_MODIFY: Final = 0x2
_CREATE: Final = 0x100
_OVERFLOW: Final = 0x4000
# Watch, mask, cookie and length of the name, which follows.
_EVENT: Final = struct.Struct("iIII")
_READ_BYTES: Final = 1 << 16
# Changes of one file that come within this time are one.
_PAUSE_S: Final = 0.02
_POLL_S: Final = 0.2


class FileChanges:
    """Changes in a folder, for one thread."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._events = _watch(folder)

    def wait(self, end: int) -> set[str] | None:
        """Wait for changes and return the names of the files; of all where that is not known.

        Args:
            end: A descriptor; None is returned once it can be read.
        """
        if self._events is None:
            ended = select.select([end], [], [], _POLL_S)[0]
            return None if ended else _names(self._folder)
        if end in select.select([end, self._events], [], [])[0]:
            return None
        time.sleep(_PAUSE_S)
        return self._changed(self._events)

    def close(self) -> None:
        """Watch no longer."""
        if self._events is not None:
            os.close(self._events)

    def _changed(self, events: int) -> set[str]:
        read = os.read(events, _READ_BYTES)
        names = set()
        while read:
            _, mask, _, size = _EVENT.unpack_from(read)
            if mask & _OVERFLOW:
                return _names(self._folder)
            names.add(os.fsdecode(read[_EVENT.size : _EVENT.size + size].rstrip(b"\0")))
            read = read[_EVENT.size + size :]
        return names


def _names(folder: Path) -> set[str]:
    return {each.name for each in folder.iterdir()}


def _watch(folder: Path) -> int | None:
    """Return a descriptor of the folder's events; None if there is none."""
    library = ctypes.CDLL(None, use_errno=True)
    events: int = library.inotify_init1(os.O_CLOEXEC)
    if events >= 0:
        if library.inotify_add_watch(events, os.fsencode(folder), _MODIFY | _CREATE) >= 0:
            return events
        os.close(events)
    # A user has 128 of them, and so many watches.
    _log.info("no inotify: %s", errno.errorcode.get(ctypes.get_errno()))
    return None
