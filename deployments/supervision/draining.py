# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""How a replica ends without losing a request: what happens to its servers, in which order.

With a successor that serves with the same sockets, nobody needs to notice anything: the replica
accepts no more, answers what it has and ends. Without one, clients and load balancers are told
first and get time to go elsewhere: the replica is not ready but still accepts. Whatever comes in
any stage is answered.
"""

import asyncio
import logging
import socket
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Protocol

_log = logging.getLogger(__name__)

# What a rolling update takes from the first new replica to the last, on a busy machine.
SUCCESSOR_TIMEOUT_S: Final = 30.0
# A handshake takes as long as a packet to the client and back, and a busy kernel may put it off.
# One that is not over when the listening socket closes ends in a reset, after its client has sent.
HANDSHAKES_S: Final = 0.1


class ProtocolServer(Protocol):
    """A listening server of one transport.

    It ends in the order of `begin_drain`, `stop_accepting` or `release_listener`, `wait_drained`
    and `close`; each implies those before it. `turn_newcomers_away` may come before
    `stop_accepting`.
    """

    async def start(
        self, host: str, port: int, *, reuse_port: bool, sock: socket.socket | None = None
    ) -> int:
        """Listen, with ``sock`` if there is one to take over; returns the bound port."""

    def listening_socket(self) -> socket.socket | None:
        """Return the socket that a successor may have; None when there is none."""

    def begin_drain(self) -> None:
        """Ask clients to go elsewhere; what comes all the same is served."""

    def turn_newcomers_away(self) -> None:
        """Drop the first packet of every connection; those that are being made are accepted."""

    def stop_accepting(self) -> None:
        """Accept what the accept queue holds, then close the listening socket."""

    def release_listener(self) -> None:
        """Accept no more and leave the accept queue to the successor."""

    async def wait_drained(self, timeout_s: float) -> object:
        """Wait until the last connection has ended; not True when that takes longer."""

    def close(self) -> None:
        """Close everything at once."""


class Heirs(Protocol):
    """What `deployments.supervision.handover.Bequest` is asked."""

    async def wait_taken(self, timeout_s: float) -> bool:
        """Wait until a successor serves; False when that takes longer."""

    async def end(self) -> frozenset[str] | None:
        """Return the protocols that a successor serves, None without one; take no other."""


@dataclass(frozen=True, slots=True)
class DrainTimes:
    """How long each stage may take.

    Attributes:
        successor_s: Waiting for the successor of a replica that is being replaced.
        delay_s: Accepting while not ready, without a successor.
        exit_s: Waiting for answers once nothing is accepted any more.
    """

    successor_s: float = SUCCESSOR_TIMEOUT_S
    delay_s: float = 0.0
    exit_s: float = 30.0

    @property
    def total_s(self) -> float:
        """The longest that a drain takes, in seconds."""
        return self.successor_s + self.delay_s + HANDSHAKES_S + self.exit_s


async def drain(
    servers: Mapping[str, ProtocolServer],
    heirs: Heirs,
    times: DrainTimes,
    *,
    is_replaced: Callable[[], Awaitable[bool]],
    withdraw: Callable[[], None],
) -> None:
    """Let servers end; they still have to be closed.

    Args:
        servers: The servers by protocol.
        heirs: Knows of the successor.
        times: How long the stages take.
        is_replaced: Says whether a successor is to be expected. Other nodes may have got theirs
            first, and Serve stops old replicas in no particular order.
        withdraw: Called to turn not ready; not called while a successor is ready in this one's
            place.
    """
    if await is_replaced() and not await heirs.wait_taken(times.successor_s):
        _log.warning("no successor has come within %g s", times.successor_s)
    served = await heirs.end()
    if served is None:
        withdraw()
    released = served or frozenset()
    for name, server in servers.items():
        if name in released:
            server.release_listener()
    if served is None and times.delay_s:
        for server in servers.values():
            server.begin_drain()
        await asyncio.sleep(times.delay_s)
    await _end_handshakes([each for name, each in servers.items() if name not in released])
    for server in servers.values():
        server.stop_accepting()
    await asyncio.gather(*(server.wait_drained(times.exit_s) for server in servers.values()))


async def _end_handshakes(servers: Sequence[ProtocolServer]) -> None:
    """Let clients that are about to be connected become so.

    Before clients are asked to go elsewhere: who comes back at once would lose a second here, and
    is refused, or connected to another process, once the sockets are closed.
    """
    for server in servers:
        server.turn_newcomers_away()
    if servers:
        await asyncio.sleep(HANDSHAKES_S)
