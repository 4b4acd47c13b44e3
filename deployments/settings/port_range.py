# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""The ports at which a node's processes may listen for other nodes."""

import errno
import random
import re
import socket
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from backends.api.errors import UnavailableError
from backends.api.evolving import evolves

_LAST_PORT: Final = 65535
_FORM: Final = re.compile(r"([0-9]{1,5})-([0-9]{1,5})", re.ASCII)


@dataclass(frozen=True, slots=True)
class PortRange:
    """Ports, both ends included; from 0 to 0 are those that the system chooses.

    Attributes:
        first: The lowest.
        last: The highest.
    """

    first: int = 0
    last: int = 0

    def __str__(self) -> str:
        return f"{self.first}-{self.last}"

    def listen(self, host: str, backlog: int) -> socket.socket:
        """Return a socket that listens at a free port of the range.

        Args:
            host: Address to bind.
            backlog: Connections that may wait to be accepted.

        Raises:
            UnavailableError: All ports are in use.
            OSError: The address cannot be bound for another reason.
        """
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        for port in self._in_some_order():
            try:
                return socket.create_server((host, port), family=family, backlog=backlog)
            except OSError as error:
                if error.errno != errno.EADDRINUSE or not self.last:
                    raise
        raise UnavailableError(
            f"no port is free for lanes: all {self.last - self.first + 1} of "
            f"--lane-port-range={self} at {host} are in use; each instance, each ingress and each "
            f"node's cache of model files needs one, and during a reload old and new instances do"
        )

    def _in_some_order(self) -> Iterator[int]:
        # Processes of a node start together: each looks from somewhere else.
        count = self.last - self.first + 1
        start = random.randrange(count)  # noqa: S311 - nothing to guess
        return (self.first + (start + step) % count for step in range(count))


ANY_PORT: Final = PortRange()


def read_port_range(text: str) -> PortRange:
    """Read ``<first>-<last>``; nothing stands for ports that the system chooses.

    Raises:
        ValueError: It has another form, or is no range of ports.
    """
    if not text:
        return ANY_PORT
    match = _FORM.fullmatch(text)
    if match is None or not 0 < int(match[1]) <= int(match[2]) <= _LAST_PORT:
        raise ValueError(
            f"port range '{text}': expected <first>-<last> with 1 <= first <= last <= {_LAST_PORT}"
        )
    return PortRange(int(match[1]), int(match[2]))


evolves(PortRange)
