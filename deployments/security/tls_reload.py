# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""TLS files that change while a port serves: connections from then on are served with the new ones.

The files are looked at when a connection comes, which costs little beside its handshake. Files that
cannot be used, also those of which only some were written yet, are logged once, and the old ones go
on.
"""

import logging
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any, Generic, TypeVar

from backends.api.errors import InvalidArgumentError
from deployments.security.tls import TlsFiles

logger = logging.getLogger(__name__)

T = TypeVar("T")

# Of each file: when it was written, which it is, and its size; None for one that is not there.
_Stamp = tuple[tuple[int, int, int] | None, ...]


class Reloaded(Generic[T]):
    """What is made of TLS files, and made anew when they have changed.

    May be called on any thread.

    Args:
        files: The files.
        make: Makes it of them.

    Raises:
        InvalidArgumentError: A file cannot be used, at first.
    """

    def __init__(self, files: TlsFiles, make: Callable[[TlsFiles], T]) -> None:
        self._files = files
        self._make = make
        self._lock = threading.Lock()
        # Before they are read: what is written meanwhile is read again.
        self._stamp = _stamp(files)
        self._made = make(files)

    def current(self) -> T:
        """Return what was made of the newest files that can be used."""
        with self._lock:
            self._look()
            return self._made

    def _look(self) -> None:
        stamp = _stamp(self._files)
        if stamp == self._stamp:
            return
        self._stamp = stamp
        try:
            self._made = self._make(self._files)
        except InvalidArgumentError as error:
            logger.error(  # noqa: TRY400 - the message says it all
                "the %s port's changed TLS files are not taken, the old ones go on: %s",
                self._files.protocol,
                error.message,
            )
        else:
            logger.info("the %s port has taken its changed TLS files", self._files.protocol)


def listening_with(
    files: TlsFiles | None, alpn: str, handshake_timeout_s: float
) -> Callable[[], dict[str, Any]] | None:
    """Return what gives a listener its encryption for each connection; None for plaintext.

    Raises:
        InvalidArgumentError: A file cannot be used.
    """
    if files is None:
        return None
    return Reloaded(files, lambda files: files.listen_options(alpn, handshake_timeout_s)).current


def _stamp(files: TlsFiles) -> _Stamp:
    return tuple(map(_stamp_of, (files.certificate, files.key, files.root)))


def _stamp_of(path: str) -> tuple[int, int, int] | None:
    try:
        # Through links: that is how a mounted Secret changes.
        found = Path(path).stat() if path else None
    except OSError:
        return None
    return None if found is None else (found.st_mtime_ns, found.st_ino, found.st_size)
