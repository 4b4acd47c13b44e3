# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""What the server's options say of the connections to a port."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ConnectionLimits:
    """The bounds; those that a protocol does not have do not matter.

    Attributes:
        count: Open connections of one ingress.
        per_peer: Of one peer's address; 0 for any number.
        stream_count: Calls under way on a gRPC connection.
        idle_s: Without a request, until an HTTP connection is closed; 0 for never.
        read_s: Without a byte of an unfinished HTTP request; its headers have half of them.
        write_s: That a peer may leave answers unread.
    """

    count: int = 10_000
    per_peer: int = 0
    stream_count: int = 1000
    idle_s: int = 0
    read_s: int = 60
    write_s: int = 60
