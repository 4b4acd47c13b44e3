# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""What a connection asks of its server, what a server asks of its application, and the limits."""

from dataclasses import dataclass
from typing import Final, Protocol

from deployments.access.contracts import Peer
from deployments.http.server.exchange import HttpExchange
from deployments.http.server.head import HttpHead, KnownHeads
from deployments.settings.connection_limits import ConnectionLimits
from deployments.supervision.memory_budget import MemoryBudget
from deployments.tracing.tracer import Tracer

# What a small request costs beyond its body while it waits for an answer.
REQUEST_OVERHEAD_BYTES: Final = 1024
# Triton's text.
TOO_MANY_CHUNKS: Final = (
    "Chunked request body exceeds maximum of {} non-empty chunks. Send fewer or larger HTTP chunks."
)


@dataclass(frozen=True, slots=True)
class HttpLimits:
    """What a peer may ask of a server.

    Attributes:
        connection_count: Open connections. For a further one the connection that has been idle
            longest is closed; when none is idle the further one is closed at once.
        peer_connection_count: Open connections of one peer's address; 0 for any number.
        body_bytes: Largest body. Triton bounds only the JSON part; 2 GiB is what Triton's own
            Content-Length parser can take.
        head_bytes: Request line and headers; Triton's HTTP library closes at about as much.
        chunk_count: Non-empty chunks of a chunked body; Triton's bound.
        pipeline_depth: Exchanges of a connection after which it is no longer read.
        handshake_timeout_s: For a TLS handshake.
        head_timeout_s: From a request's first byte to the end of its headers.
        body_idle_timeout_s: Without a byte of an unfinished body.
        write_idle_timeout_s: With a full write buffer the peer does not drain.
        keep_alive_timeout_s: Between requests; 0 keeps idle connections until their room is needed.
        unread_bytes: Of a streamed answer, waiting for the peer to read or for the answers before
            it; beyond, the connection is closed. As much as a gRPC connection keeps.
        linger_s: Without a byte from a peer that shall read the last answer before the connection
            is closed.
        linger_total_s: For a peer that goes on sending what is no longer read.
    """

    connection_count: int = 10_000
    peer_connection_count: int = 0
    body_bytes: int = (1 << 31) - 1
    head_bytes: int = 8192
    chunk_count: int = 65536
    pipeline_depth: int = 32
    handshake_timeout_s: float = 10.0
    head_timeout_s: int = 30
    body_idle_timeout_s: int = 60
    write_idle_timeout_s: int = 60
    keep_alive_timeout_s: int = 0
    unread_bytes: int = 1 << 30
    linger_s: int = 2
    linger_total_s: int = 30


def http_limits(given: ConnectionLimits) -> HttpLimits:
    """Return the limits that options say; all others have their defaults."""
    return HttpLimits(
        connection_count=given.count,
        peer_connection_count=given.per_peer,
        head_timeout_s=given.read_s // 2,
        body_idle_timeout_s=given.read_s,
        write_idle_timeout_s=given.write_s,
        keep_alive_timeout_s=given.idle_s,
    )


class HttpApplication(Protocol):
    """What a server serves."""

    def dispatch(self, exchange: HttpExchange) -> None:
        """Answer a complete request, now or later."""

    def refuse(self, exchange: HttpExchange, body_bytes: int) -> str:
        """Return why a body of at least this size is not taken, or nothing to take it."""

    def allocate(self, size_bytes: int, align_at: int) -> memoryview | None:
        """Return memory for a large body, or None for ordinary memory."""


class Admission:
    """That requests with a head may come in, and to what.

    Args:
        application: What answers them.
        revision: Of the policy that says so.
        until_tick: From when on it is to be asked again.
    """

    __slots__ = ("application", "revision", "until_tick")

    def __init__(self, application: HttpApplication, revision: int, until_tick: int) -> None:
        self.application = application
        self.revision = revision
        self.until_tick = until_tick


class Gate(Protocol):
    """Decides at a request's head who asks, and what answers.

    Attributes:
        protocol: The port, as `Peer` has it.
    """

    protocol: str

    @property
    def revision(self) -> int:
        """Of the policy; admissions of an older one are to be asked for again."""

    def admit(self, head: HttpHead, peer: Peer, tick: int) -> Admission:
        """Let a request in whose head is complete; its body may not have come.

        Args:
            head: Request line and headers.
            peer: Who is at the other end of the connection.
            tick: Now, in sweeps of the server, one a second.

        Raises:
            TritonError: The request is refused.
            PendingError: That is being found out.
        """


class ServedConnection(Protocol):
    """What a server does with its connections."""

    was_idle: bool

    @property
    def is_idle(self) -> bool:
        """Whether no request is being received or answered."""

    @property
    def peer_host(self) -> str:
        """The peer's address; empty where it has none."""

    @property
    def active_tick(self) -> int:
        """When the peer last sent something."""

    @property
    def exchange_count(self) -> int:
        """Requests not yet answered."""

    def sweep(self, tick: int) -> None:
        """Close the connection if its peer has been too slow."""

    def close_idle(self) -> bool:
        """Close an idle connection; False when a request is on its way."""

    def close(self) -> None:
        """Close at once."""


class ConnectionHost(Protocol):
    """What a connection asks of its server.

    Attributes:
        application: What answers.
        gate: Decides who may ask; None when anybody may.
        limits: What peers may ask.
        budget: What bodies and unread answers take memory from.
        tracer: While it is on, exchanges note when they began.
        heads: The heads that clients repeat.
        read_buffer: Where connections receive; each has parsed what it got before the next reads.
        tick: Sweeps so far, one a second; what connections measure time in.
        is_draining: Whether connections end with their present requests.
    """

    application: HttpApplication
    gate: Gate | None
    limits: HttpLimits
    budget: MemoryBudget
    tracer: Tracer
    heads: KnownHeads
    read_buffer: memoryview
    tick: int
    is_draining: bool

    def opened(self, connection: ServedConnection) -> bool:
        """Note a connection; False when there are too many."""

    def closed(self, connection: ServedConnection) -> None:
        """Forget a connection."""

    def note_closed(self, reason: str) -> None:
        """Say in the log why a connection is closed before its peer wanted it."""


def over_budget(budget: MemoryBudget, what: str) -> str:
    """Return why ``what``, for example "a request body of 9 bytes", is refused with 503."""
    left_bytes = max(budget.limit_bytes - budget.used_bytes, 0)
    return (
        f"the server has no memory left for {what}: {left_bytes} of {budget.limit_bytes} bytes for "
        f"requests and answers are free; try again later"
    )


def claim_body(
    host: ConnectionHost, application: HttpApplication, exchange: HttpExchange, size: int
) -> tuple[int, str]:
    """Take what a body needs from the budget, on behalf of its exchange.

    Args:
        host: The server.
        application: What answers the request.
        exchange: The request.
        size: Bytes of the body, as far as they are known; may grow from call to call.

    Returns:
        Status and reason with which the request is refused, or 0 and "".
    """
    refusal = application.refuse(exchange, size)
    if refusal:
        return 400, refusal
    most = host.limits.body_bytes
    if size > most:
        return 400, f"request body of {size} bytes exceeds the maximum of {most} bytes"
    if not host.budget.try_take(size - exchange.held_bytes):
        return 503, over_budget(host.budget, f"a request body of {size} bytes")
    exchange.held_bytes = size
    return 0, ""
