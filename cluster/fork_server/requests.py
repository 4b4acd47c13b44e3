# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""The request for a process, and its answer, between the client and the fork server.

A request is a header of three 32-bit numbers in this machine's order (bytes that follow, arguments,
variables of the environment) with the three standard descriptors beside it, and then the folder,
the arguments and the environment, each ended by a zero byte. The answer is the pid, 32 bits;
`REFUSED` has the client start a process of its own. `client.c` and `client.py` write it. A forked
process asks its fork server to import more for those that it forks next (`ask_to_import`).
"""

import os
import socket
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

HEADER: Final = struct.Struct("=III")
ANSWER: Final = struct.Struct("=i")
REFUSED: Final = -1
# Linux lets a command line and its environment have no more than a quarter of the stack, 2 MiB.
MOST_BYTES: Final = 8 * 1024 * 1024

# As the command: have the modules that follow imported, so that processes forked from then on have
# them. Answered at once, as it may take seconds.
IMPORT: Final = b"import"

# Of a fork server: all workers that it is asked for are one server's, or any job's on a shared Ray.
OF_ONE_SERVER: Final = "server"
OF_ALL_JOBS: Final = "jobs"

# What the raylet's children inherit: the socket, and the Python that the client stands for.
SOCKET_VARIABLE: Final = "MANTA_FORK_SERVER"
PYTHON_VARIABLE: Final = "MANTA_FORK_SERVER_PYTHON"
# A file beside the socket. The fork server maps it, which the kernel goes on to show of all that it
# forks: `cluster.server.reaper` knows them by it.
MARK: Final = "mark"
_TIMEOUT_S: Final = 10.0
# Of this process; empty where it was started plainly.
_path = ""


class RequestError(ValueError):
    """What came is no request."""


@dataclass(frozen=True)
class Request:
    """A process that the raylet wants.

    Attributes:
        folder: Where it runs.
        arguments: Its command line; the first is the command.
        environment: Its environment.
    """

    folder: bytes
    arguments: Sequence[bytes]
    environment: Mapping[bytes, bytes]

    def encoded(self) -> bytes:
        """Return the header and what follows it."""
        pairs = [name + b"=" + value for name, value in self.environment.items()]
        body = b"".join(each + b"\0" for each in (self.folder, *self.arguments, *pairs))
        return HEADER.pack(len(body), len(self.arguments), len(pairs)) + body


def body_bytes(header: bytes) -> int:
    """Return how many bytes follow a header.

    Raises:
        RequestError: They are too many, or this is no header.
    """
    if len(header) != HEADER.size:
        raise RequestError(f"a header of {len(header)} bytes")
    size: int = HEADER.unpack(header)[0]
    if size > MOST_BYTES:
        raise RequestError(f"a request of {size} bytes; the most are {MOST_BYTES}")
    return size


def decoded(header: bytes, body: bytes) -> Request:
    """Return the request.

    Raises:
        RequestError: It is none.
    """
    size, argument_count, variable_count = HEADER.unpack(header)
    words = body.split(b"\0")
    if len(body) != size or words.pop() or len(words) != 1 + argument_count + variable_count:
        raise RequestError(f"{len(words)} texts for {argument_count} + {variable_count}")
    if argument_count < 1:
        raise RequestError("no command")
    pairs = (each.partition(b"=") for each in words[1 + argument_count :])
    return Request(
        words[0],
        words[1 : 1 + argument_count],
        # What has no name cannot be set; an interpreter passes it over.
        {name: value for name, _, value in pairs if name},
    )


def words_of(arguments: Sequence[bytes]) -> list[str]:
    """Return what a Python command line runs, and its arguments: all behind Python's options."""
    words = [os.fsdecode(each) for each in arguments[1:]]
    return words[1:] if words[:1] == ["-u"] else words


def script_of(arguments: Sequence[bytes]) -> str:
    """Return the Python file that a command line runs; empty where it is run in another way."""
    words = words_of(arguments)
    return words[0] if words and words[0].endswith(".py") else ""


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
