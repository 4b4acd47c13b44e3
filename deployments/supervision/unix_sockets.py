# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Addresses of the form ``unix:/path`` and ``unix:@name``, the latter without a file."""

import contextlib
import errno
import os
import socket
import stat
from pathlib import Path
from typing import Final

_PREFIX: Final = "unix:"
_ABSTRACT: Final = "@"
# sun_path of <sys/un.h> with its last byte for a zero.
PATH_LIMIT_BYTES: Final = 107
DEFAULT_MODE: Final = 0o660


def is_unix(host: str) -> bool:
    """Whether an address is of a Unix socket."""
    return host.startswith(_PREFIX)


def address_fault(host: str) -> str:
    """Return what is wrong with the address of a Unix socket; empty when nothing is."""
    path = host.removeprefix(_PREFIX)
    if not path.startswith(("/", _ABSTRACT)) or path == _ABSTRACT or "\0" in path:
        return f"'{host}' is no Unix socket, expected unix:/<path> or unix:@<name>"
    if len(os.fsencode(path)) > PATH_LIMIT_BYTES:
        return f"'{host}' is too long, the path may have {PATH_LIMIT_BYTES} bytes"
    return ""


def bind_unix(host: str, mode: int = DEFAULT_MODE) -> socket.socket:
    """Return a bound socket; a file that a killed process has left behind gives way.

    Args:
        host: The address.
        mode: Who may connect, as permissions of the file; nothing of an abstract socket, to which
            everybody on the machine may.

    Raises:
        OSError: The address cannot be bound, or a process listens there.
    """
    path = host.removeprefix(_PREFIX)
    bound = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        if path.startswith(_ABSTRACT):
            bound.bind("\0" + path[1:])
            return bound
        _remove_left(path)
        # The kernel makes the file with the socket's mode: at no moment may others connect.
        os.fchmod(bound.fileno(), mode)
        bound.bind(path)
        Path(path).chmod(mode)
    except OSError as error:
        bound.close()
        raise OSError(error.errno, f"cannot listen on {host}: {error.strerror}") from None
    return bound


def remove_file(listening: socket.socket) -> None:
    """Remove the file of a Unix socket that ends, if it has one and it is still its own."""
    name = listening.getsockname() if listening.family == socket.AF_UNIX else ""
    if isinstance(name, str) and name.startswith("/"):
        with contextlib.suppress(OSError):
            Path(name).unlink()


def _remove_left(path: str) -> None:
    try:
        if not stat.S_ISSOCK(os.lstat(path).st_mode):
            raise FileExistsError(errno.EEXIST, "there is a file that is no socket")
    except FileNotFoundError:
        return
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        try:
            probe.connect(path)
        except ConnectionRefusedError:
            Path(path).unlink()
            return
    raise OSError(errno.EADDRINUSE, "a process listens there")
