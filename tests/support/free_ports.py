# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Ranges of ports for tests."""

import random
import socket
from contextlib import ExitStack

from deployments.settings.port_range import PortRange

# Beyond what the system gives out by itself.
_FIRST, _LAST = 61000, 64000


def free_ports(count: int) -> PortRange:
    """Return neighbouring ports that were free just now.

    They start anywhere, so that two processes that ask at once are not given the same.
    """
    starts = list(range(_FIRST, _LAST, count))
    random.SystemRandom().shuffle(starts)
    for first in starts:
        with ExitStack() as opened:
            try:
                for port in range(first, first + count):
                    opened.enter_context(socket.create_server(("127.0.0.1", port)))
            except OSError:
                continue
            return PortRange(first, first + count - 1)
    raise AssertionError("no free ports")
