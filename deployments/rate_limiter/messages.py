# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""What claims and their arbiter tell each other, and the socket they do it over.

A packet socket in the kernel's abstract namespace, which keeps packets apart and tells each side at
once when the other's process has died. The first packet of a claim is a `Join`, answered by
`JOINED` or by the text of an error; each later one is the value of a `ClaimEvent`. The arbiter
sends `GRANTED`. Both sides make sure that the other belongs to the same user.
"""

import os
import socket
import struct
from typing import Final

import msgspec

from deployments.rate_limiter.arbiter import ClaimPhase, Resource, ResourceDemand

JOINED: Final = b"joined"
GRANTED: Final = b"granted"
REFUSED: Final = b"refused:"
# Far above any demand; more is refused rather than read.
MAX_PACKET_BYTES: Final = 1 << 16

_CREDENTIALS: Final = struct.Struct("3i")


class Join(msgspec.Struct):
    """The first packet of a claim.

    Attributes:
        name: The instance.
        resources: Device, name and count of each resource it needs.
        priority: Its priority.
        phase: Where it is, which is not idle when it comes back after a loss.
    """

    name: str
    resources: list[tuple[int, str, int]]
    priority: int
    phase: str

    @property
    def demand(self) -> ResourceDemand:
        """What the instance needs."""
        resources = {Resource(device, name): count for device, name, count in self.resources}
        return ResourceDemand(resources, self.priority)


_decoder = msgspec.msgpack.Decoder(Join)


def encode_join(name: str, demand: ResourceDemand, phase: ClaimPhase) -> bytes:
    """Return the first packet of a claim."""
    resources = [(key.device, key.name, count) for key, count in demand.resources.items()]
    return msgspec.msgpack.encode(Join(name, resources, demand.priority, phase.value))


def decode_join(packet: bytes) -> Join:
    """Read the first packet of a claim.

    Raises:
        msgspec.MsgspecError: The packet is not a `Join`.
    """
    return _decoder.decode(packet)


def packet_socket() -> socket.socket:
    """Return a new socket of the kind that is used here."""
    return socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET | socket.SOCK_NONBLOCK)


def peer_process(sock: socket.socket) -> int | None:
    """Return the process at the other end; None when it is another user's."""
    data = sock.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
    pid, uid, _ = _CREDENTIALS.unpack(data)
    return pid if uid == os.getuid() else None
