# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""How the kernel notices that the other node is gone, which says nothing when it goes.

A lane with something under way is noticed by what is not acknowledged (``TCP_USER_TIMEOUT``), an
idle one by the kernel's own probes, both within the same time. A peer that is stopped, but whose
kernel still acknowledges, is a matter of `deployments.lane.silence`.
"""

import socket
from typing import Final

# Without a heartbeat a dead node is still noticed: Ray itself needs 30 s and more.
WITHOUT_HEARTBEAT_S: Final = 25.0

_MS: Final = 1000
# Between probes that are not answered. The kernel looks at the time when it sends one; with
# TCP_USER_TIMEOUT it does not count them.
_INTERVAL_S: Final = 1


def keepalive_options(timeout_s: float) -> tuple[tuple[int, int, int], ...]:
    """Return the socket options of a TCP connection: level, option and value.

    Args:
        timeout_s: How long the other node may be silent.
    """
    idle_s = max(1, int(timeout_s / 2))
    return (
        (socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1),
        (socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, idle_s),
        (socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, _INTERVAL_S),
        (socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, int(timeout_s * _MS)),
        (socket.IPPROTO_TCP, socket.TCP_NODELAY, 1),
    )
