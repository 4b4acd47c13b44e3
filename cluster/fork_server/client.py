# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""What the raylet starts where there is no C compiler: hands a process over to the fork server.

Run by itself with ``-I -S``, so it imports little and nothing of ours. See `client.c`.
"""

import os
import socket
import struct
import sys

_HEADER = struct.Struct("=III")
_ANSWER = struct.Struct("=i")
_TIMEOUT_S = 60.0
_WORKER = "/default_worker.py"
_SOCKET = "MANTA_FORK_SERVER"
_PYTHON = "MANTA_FORK_SERVER_PYTHON"


def is_handed_over(path: str, arguments: list[bytes]) -> bool:
    """Ask for the process; tell whether it is there."""
    with socket.socket(socket.AF_UNIX) as connection:
        connection.settimeout(_TIMEOUT_S)
        try:
            connection.connect(path)
            pairs = [name + b"=" + value for name, value in os.environb.items()]
            body = b"".join(each + b"\0" for each in (_folder(), *arguments, *pairs))
            header = _HEADER.pack(len(body), len(arguments), len(pairs))
            socket.send_fds(connection, [header], [0, 1, 2])
            connection.sendall(body)
            answer = connection.recv(_ANSWER.size, socket.MSG_WAITALL)
        except OSError:
            return False
    return len(answer) == _ANSWER.size and _ANSWER.unpack(answer)[0] > 0


def _folder() -> bytes:
    return os.getcwdb()  # noqa: PTH109 - pathlib takes as long to import as all of this


def main() -> None:
    """Hand a worker over, and run anything else."""
    arguments = [os.fsencode(each) for each in sys.argv]
    path, python = os.environ.get(_SOCKET), os.environ[_PYTHON]
    is_worker = sys.argv[1:] and sys.argv[1].endswith(_WORKER)
    if path and is_worker and is_handed_over(path, arguments):
        return
    # Nor does a forked process have them: what it starts is not the raylet's.
    for each in (_SOCKET, _PYTHON):
        os.environ.pop(each, None)
    os.execv(python, [python, *sys.argv[1:]])  # noqa: S606 - what the raylet wants to run


if __name__ == "__main__":
    main()
