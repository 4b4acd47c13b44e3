# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""An instance's claim on the resources of its node.

The claim knows where it is (idle, asking, holding) and tells the arbiter of each step. It outlives
the arbiter: when the socket closes it goes on as it is, an execution too, and tells the next
arbiter where it is.
"""

import contextlib
import logging
import select
import socket
import threading
import time
from collections.abc import Callable, Iterator
from typing import Final

from backends.api.errors import InvalidArgumentError, UnavailableError
from deployments.rate_limiter.arbiter import ClaimEvent, ClaimPhase, ResourceDemand
from deployments.rate_limiter.messages import (
    GRANTED,
    JOINED,
    MAX_PACKET_BYTES,
    REFUSED,
    encode_join,
    packet_socket,
    peer_process,
)
from deployments.reactor.reactor import Reactor

_log = logging.getLogger(__name__)

_JOIN_TIMEOUT_S: Final = 30.0
_FIRST_RETRY_S: Final = 0.01
_LONGEST_RETRY_S: Final = 1.0


class ResourceClaim:
    """Implements `deployments.scheduling.limited_scheduler.Grant`.

    Made on the thread that executes.

    Args:
        name: The instance.
        demand: What it needs to execute.
        path: Abstract name of the arbiter's socket.
        reactor: Whoever turns it reads the arbiter's packets.
    """

    def __init__(self, name: str, demand: ResourceDemand, path: str, reactor: Reactor) -> None:
        self._name = name
        self._demand = demand
        self._path = path
        self._thread_ident = threading.get_ident()
        self._reactor = reactor
        self._wake: Callable[[], None] | None = None
        self._retry_s = _FIRST_RETRY_S
        self._is_closed = False
        self._resumed = threading.Event()
        # Guarded by the lock; the phase is read without it on the thread that changes it.
        self._lock = threading.Lock()
        self._phase = ClaimPhase.IDLE
        self._sock: socket.socket | None = None

    @property
    def is_held(self) -> bool:
        """Whether the instance may execute now."""
        return self._phase is ClaimPhase.HOLDING

    def join(self, timeout_s: float = _JOIN_TIMEOUT_S) -> None:
        """Tell the arbiter of the instance, and wait for its answer.

        Raises:
            InvalidArgumentError: There is too little of a resource for the instance to execute.
            UnavailableError: There is no arbiter.
        """
        deadline_s = time.monotonic() + timeout_s
        while True:
            sock = self._connect()
            if sock is not None:
                break
            if time.monotonic() > deadline_s:
                raise UnavailableError(
                    f"the rate limiter of this node has not answered instance {self._name} within "
                    f"{timeout_s:.0f} s"
                )
            time.sleep(_FIRST_RETRY_S)
        self._sock = sock
        try:
            sock.settimeout(timeout_s)
            packet = sock.recv(MAX_PACKET_BYTES)
            sock.setblocking(False)
        except OSError:
            # Lost again, which `serve` will find out.
            return
        if packet.startswith(REFUSED):
            self.close()
            raise InvalidArgumentError(packet.removeprefix(REFUSED).decode())

    def serve(self, wake: Callable[[], None]) -> None:
        """Follow what the arbiter says from now on.

        Args:
            wake: Called on the thread that turns the reactor, once the resources are granted.
        """
        self._wake = wake
        if self._sock is not None:
            self._watch(self._sock)

    def close(self) -> None:
        """Leave; whatever is held is free. On the thread that turns the reactor, or before."""
        with self._lock:
            self._is_closed = True
            sock, self._sock = self._sock, None
        if sock is not None:
            if self._wake is not None:
                self._reactor.forget(sock.fileno())
            sock.close()
        self._resumed.set()

    # The executor's side

    def ask(self) -> None:
        """Ask for the resources, unless that was done."""
        with self._lock:
            if self._phase is ClaimPhase.IDLE:
                self._step(ClaimEvent.ASK, ClaimPhase.ASKING)

    def done(self, *, ask_again: bool) -> None:
        """Give the resources back after an execution and perhaps get in line again."""
        with self._lock:
            if ask_again:
                self._step(ClaimEvent.DONE_AND_ASK, ClaimPhase.ASKING)
            else:
                self._step(ClaimEvent.DONE, ClaimPhase.IDLE)

    def decline(self) -> None:
        """Give the resources back without an execution."""
        with self._lock:
            self._step(ClaimEvent.DECLINE, ClaimPhase.IDLE)

    @contextlib.contextmanager
    def paused(self) -> Iterator[None]:
        """Give the resources back while the execution waits for something.

        Does nothing on other threads than the executing one, and outside of executions.
        """
        if threading.get_ident() != self._thread_ident or self._phase is not ClaimPhase.HOLDING:
            yield
            return
        with self._lock:
            self._step(ClaimEvent.PAUSE, ClaimPhase.PAUSED)
        try:
            yield
        finally:
            self._resumed.clear()
            with self._lock:
                self._step(ClaimEvent.RESUME, ClaimPhase.RESUMING)
            if not self._is_closed:
                self._resumed.wait()

    def _step(self, event: ClaimEvent, phase: ClaimPhase) -> None:
        self._phase = phase
        if self._sock is not None:
            # A lost arbiter's successor is told the phase.
            with contextlib.suppress(OSError):
                self._sock.send(event.value.encode())

    # The side of the thread that turns the reactor

    def _connect(self) -> socket.socket | None:
        """Connect and say where the claim is; None when there is no arbiter."""
        sock = packet_socket()
        try:
            sock.connect(self._path)
            if peer_process(sock) is None:
                raise ConnectionRefusedError("the socket belongs to another user")
            sock.send(encode_join(self._name, self._demand, self._phase))
        except OSError as error:
            _log.debug("no rate limiter: %s", error)
            sock.close()
            return None
        return sock

    def _reconnect(self) -> None:
        with self._lock:
            if self._is_closed:
                return
            # Under the lock, so that no step is taken between the phase's being told and the
            # socket's being there to tell the step.
            sock = self._sock = self._connect()
        if sock is not None:
            self._watch(sock)
        else:
            self._retry_later()

    def _retry_later(self) -> None:
        delay_s, self._retry_s = self._retry_s, min(2 * self._retry_s, _LONGEST_RETRY_S)
        self._reactor.call_later(delay_s, self._reconnect)

    def _watch(self, sock: socket.socket) -> None:
        self._reactor.watch(sock.fileno(), select.EPOLLIN, lambda _mask: self._readable(sock))

    def _readable(self, sock: socket.socket) -> None:
        try:
            packet = sock.recv(MAX_PACKET_BYTES)
        except BlockingIOError:
            return
        except OSError:
            packet = b""
        if packet == GRANTED:
            self._granted()
        elif packet == JOINED:
            self._retry_s = _FIRST_RETRY_S
        else:
            self._lost(sock, packet)

    def _granted(self) -> None:
        with self._lock:
            is_resumed = self._phase is ClaimPhase.RESUMING
            self._phase = ClaimPhase.HOLDING
        if is_resumed:
            self._resumed.set()
        elif self._wake is not None:
            self._wake()

    def _lost(self, sock: socket.socket, packet: bytes) -> None:
        reason = packet.decode(errors="replace") or "it has ended"
        _log.warning("instance %s has lost its node's rate limiter: %s", self._name, reason)
        self._reactor.forget(sock.fileno())
        with self._lock:
            self._sock = None
        sock.close()
        self._retry_later()
