# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""What nodes say to each other about the contents of their caches. Pure: bytes in, bytes out.

::

    both    a handshake: each proves that it knows the cluster's secret
    asker   REQUEST  length of the key, offset, length; the key
    asked   ANSWER   what there is, length; as many bytes

as often as the asker likes. Everything has a bound, and nothing is read before the handshake is
done but its own few bytes.
"""

import re
import struct
from enum import IntEnum
from typing import Final, Protocol

# Of one request: twice a part, so that parts may grow without a new protocol.
MAX_BYTES: Final = 8 << 20

REQUEST: Final = struct.Struct(">BQI")
ANSWER: Final = struct.Struct(">BI")
_KEY: Final = re.compile(rb"[0-9a-f]{32,64}")


class There(IntEnum):
    """What a node has of what it is asked for."""

    # The bytes follow.
    ALL = 0
    # It is getting them.
    LATER = 1
    # It neither has them nor gets them.
    NOTHING = 2


class RefusedError(Exception):
    """A peer has sent what nobody sends who speaks this protocol."""


class Proof(Protocol):
    """One end of a handshake, such as those of `deployments.lane.handshake`."""

    @property
    def is_done(self) -> bool:
        """Whether the peer has proved itself."""

    def open(self) -> bytes:
        """Return what is sent before anything is received."""

    def feed(self, data: bytes) -> bytes:
        """Take received bytes and return what is sent; raises if the peer fails."""


def request(key: str, offset_bytes: int, length_bytes: int) -> bytes:
    """Return the request for a part of a content."""
    return REQUEST.pack(len(key), offset_bytes, length_bytes) + key.encode()


def require_request(key: bytes, length_bytes: int) -> str:
    """Return the key of a request that may be answered.

    Raises:
        RefusedError: It asks for too much, or for what is no content.
    """
    if not _KEY.fullmatch(key) or not 0 < length_bytes <= MAX_BYTES:
        raise RefusedError(f"asked for {length_bytes} bytes of {key!r}, at most {MAX_BYTES}")
    return key.decode()


def require_answer(there: int, length_bytes: int, asked_bytes: int) -> There:
    """Return what a peer has.

    Raises:
        RefusedError: It sends something else than was asked for.
    """
    known = {state.value for state in There}
    if there not in known or length_bytes != (asked_bytes if there == There.ALL else 0):
        raise RefusedError(f"answered {there} and {length_bytes} bytes, asked for {asked_bytes}")
    return There(there)
