# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""What a forked process asks of its fork server: to import more, for those that it forks next."""

import os
import socket
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from cluster.fork_server.requests import ANSWER, IMPORT, Request

_TIMEOUT_S: Final = 10.0
# Of this process; empty where it was started plainly.
_path = ""


def note_fork_server(path: str) -> None:
    """Note where the fork server of this process listens."""
    global _path  # noqa: PLW0603 - one for the process, whose environment does without
    _path = path


def ask_to_import(modules: Sequence[str]) -> bool:
    """Have the fork server import modules; tell whether it will try.

    Blocks for a moment. It imports them only where a trial shows that it can be forked afterwards.
    """
    if not _path:
        return False
    request = Request(b"/", [IMPORT, *map(os.fsencode, modules)], {})
    with socket.socket(socket.AF_UNIX) as connection, Path(os.devnull).open("r+b") as nothing:
        connection.settimeout(_TIMEOUT_S)
        try:
            connection.connect(_path)
            encoded = request.encoded()
            sent = socket.send_fds(connection, [encoded], [nothing.fileno()] * 3)
            connection.sendall(encoded[sent:])
            answer = connection.recv(ANSWER.size, socket.MSG_WAITALL)
        except OSError:
            return False
    return answer == ANSWER.pack(0)
