# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""What processes hold, as /proc tells it; also of processes in other network namespaces."""

import os
from collections import Counter
from collections.abc import Iterator
from typing import Final, NamedTuple

_ESTABLISHED: Final = "01"
_LISTEN: Final = "0A"
_TABLES: Final = ("tcp", "tcp6")


class Connection(NamedTuple):
    """A TCP socket of a process."""

    port: int
    peer_port: int
    is_listening: bool


def connections(pid: int) -> list[Connection]:
    """Return a process's TCP connections and listening sockets.

    Raises:
        OSError: The process has ended.
    """
    own = {link[8:-1] for link in _links(pid) if link.startswith("socket:[")}
    found = []
    for table in _TABLES:
        with open(f"/proc/{pid}/net/{table}") as file:  # noqa: PTH123 - /proc is no path to handle
            rows = [line.split() for line in file.readlines()[1:]]
        for row in rows:
            state = row[3]
            if row[9] in own and state in {_ESTABLISHED, _LISTEN}:
                ports = [int(row[at].rsplit(":", 1)[1], 16) for at in (1, 2)]
                found.append(Connection(ports[0], ports[1], state == _LISTEN))
    return found


def peer_ports(pid: int, address: str) -> frozenset[int]:
    """Return the peers' ports of a process's connections at its port of an address."""
    port = int(address.rsplit(":", 1)[1])
    return frozenset(c.peer_port for c in connections(pid) if c.port == port and not c.is_listening)


def is_listening(pid: int, address: str) -> bool:
    """Whether a process listens at its port of an address."""
    port = int(address.rsplit(":", 1)[1])
    try:
        return any(c.port == port and c.is_listening for c in connections(pid))
    except OSError:
        return False


def held(pid: int) -> Counter[str]:
    """Return kind -> descriptors that a process holds: memfd, socket, other files by their folder.

    Raises:
        OSError: The process has ended.
    """
    return Counter(_kind(link) for link in _links(pid))


def _kind(link: str) -> str:
    if link.startswith("/memfd:"):
        return "memfd"
    if link.startswith("/dev/shm/"):
        return "shm"
    if link.startswith("/"):
        return "file"
    return link.split(":", 1)[0]


def _links(pid: int) -> Iterator[str]:
    for entry in os.scandir(f"/proc/{pid}/fd"):
        try:
            yield os.readlink(entry.path)  # noqa: PTH115 - a link to no path
        except FileNotFoundError:
            continue
