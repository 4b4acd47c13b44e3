# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""The gRPC service on grpcio's own server: the reference the other transport is compared with.

Messages pass as bytes; grpcio serialises nothing.
"""

import asyncio
import math
import socket
import ssl
from collections.abc import Callable, Mapping
from typing import Any, Final

import grpc

from deployments.access.contracts import Peer
from deployments.grpc.rpc.service import Metadata, RpcService
from deployments.http2.frames import Buffer
from deployments.security.tls import TlsFiles
from deployments.security.tls_reload import Reloaded
from deployments.supervision.unix_sockets import is_unix

_MESSAGE_LIMIT_BYTES: Final = 2**31 - 1
# How long calls may go on between `begin_drain` and `wait_drained`, which sets the real limit.
_DRAIN_LIMIT_S: Final = 86400.0

_STATUS: Final = {status.value[0]: status for status in grpc.StatusCode}

# Triton's flag --grpc-<key> and gRPC's name for it.
OPTIONS: Final = {
    "keepalive-time": "grpc.keepalive_time_ms",
    "keepalive-timeout": "grpc.keepalive_timeout_ms",
    "keepalive-permit-without-calls": "grpc.keepalive_permit_without_calls",
    "http2-max-pings-without-data": "grpc.http2.max_pings_without_data",
    "http2-min-recv-ping-interval-without-data": ("grpc.http2.min_ping_interval_without_data_ms"),
    "http2-max-ping-strikes": "grpc.http2.max_ping_strikes",
    "max-connection-age": "grpc.max_connection_age_ms",
    "max-connection-age-grace": "grpc.max_connection_age_grace_ms",
}
_NS_PER_S: Final = 1_000_000_000
_LEVELS: Final = {"low": 1, "medium": 2, "high": 3}
_TIMEOUT: Final = "keepalive-timeout"


class GrpcioServer:
    """A gRPC server on one port.

    Args:
        service: The RPCs.
        options: Values by the keys of `OPTIONS`; others are refused.
        tls: Set to serve TLS.
        compression: ``none``, ``low``, ``medium`` or ``high``.
        paths: The methods there are.
        stream_paths: Those whose calls have more than one message.
        compressed_paths: Those whose responses are compressed.
        service_for: Returns the service of a call by its peer; None where all have one.
    """

    def __init__(
        self,
        service: RpcService,
        options: Mapping[str, int] | None = None,
        *,
        tls: TlsFiles | None = None,
        compression: str = "none",
        paths: frozenset[bytes],
        stream_paths: frozenset[bytes] = frozenset(),
        compressed_paths: frozenset[bytes] = frozenset(),
        service_for: Callable[[Peer], RpcService] | None = None,
    ) -> None:
        self._handler = _ServiceHandler(
            service,
            paths,
            stream_paths,
            compressed_paths if compression != "none" else None,
            service_for,
        )
        options = options or {}
        self._options = [(OPTIONS[key], value) for key, value in options.items()]
        if _TIMEOUT in options:
            # By itself the keepalive's timeout closes no connection; that of any PING does.
            self._options.append(("grpc.http2.ping_timeout_ms", options[_TIMEOUT]))
        if compression != "none":
            self._options.append(("grpc.default_compression_level", _LEVELS[compression]))
        self._tls = tls
        self._server: Any = None
        self._stopping: asyncio.Task[None] | None = None
        self._closing: asyncio.Task[None] | None = None
        self._stopped = False

    async def start(
        self,
        host: str,
        port: int,
        *,
        reuse_port: bool = False,
        sock: socket.socket | None = None,
    ) -> int:
        """Listen; port 0 takes a free one.

        Args:
            host: The address to bind.
            port: The port.
            reuse_port: Share the port with other processes (SO_REUSEPORT).
            sock: A listening socket to take over, which grpcio cannot; None.

        Returns:
            The port.

        Raises:
            OSError: The address cannot be bound, or a socket is to be taken over.
            InvalidArgumentError: A TLS file cannot be used.
        """
        if sock is not None:
            raise OSError("grpcio cannot take over a listening socket, expected an address")
        options = [
            ("grpc.max_send_message_length", _MESSAGE_LIMIT_BYTES),
            ("grpc.max_receive_message_length", _MESSAGE_LIMIT_BYTES),
            ("grpc.so_reuseport", int(reuse_port)),
            *self._options,
        ]
        handlers: Any = [self._handler]
        self._server = server = grpc.aio.server(handlers=handlers, options=options)
        address = _address(host, port)
        try:
            bound: int = (
                server.add_secure_port(address, _credentials(self._tls))
                if self._tls
                else server.add_insecure_port(address)
            )
        except RuntimeError as error:
            raise OSError(f"gRPC cannot listen on {address}: {error}") from error
        await server.start()
        return 0 if is_unix(host) else bound

    def listening_socket(self) -> socket.socket | None:
        """Return None: grpcio does not give its socket away."""
        return None

    def begin_drain(self) -> None:
        """Go on: grpcio can ask clients to go elsewhere only while it stops accepting."""

    def turn_newcomers_away(self) -> None:
        """Go on: grpcio does not give its socket away."""

    def stop_accepting(self) -> None:
        """Close the listener and ask the clients to open no further calls here.

        grpcio sends GOAWAY as RFC 9113 section 6.8 says, but drops what its accept queue holds.
        """
        if self._server is not None and self._stopping is None:
            self._stopping = asyncio.get_running_loop().create_task(
                self._server.stop(_DRAIN_LIMIT_S)
            )

    def release_listener(self) -> None:
        """As `stop_accepting`, since no successor can have the socket."""
        self.stop_accepting()

    async def wait_drained(self, timeout_s: float) -> bool:
        """Wait until all calls have ended; after ``timeout_s`` cancel those that have not.

        Returns:
            Whether all had ended.
        """
        self.stop_accepting()
        if self._server is None or self._stopping is None:
            return True
        _, unfinished = await asyncio.wait([self._stopping], timeout=timeout_s)
        await self._server.stop(None)
        self._stopped = True
        for task in (self._stopping, self._closing):
            if task is not None:
                await task
        return not unfinished

    def close(self) -> None:
        """Cancel what is left and stop; `wait_drained` waits until that is done."""
        if self._server is not None and not self._stopped:
            self._closing = asyncio.get_running_loop().create_task(self._server.stop(None))


def _address(host: str, port: int) -> str:
    if is_unix(host):
        # gRPC has a scheme of its own for sockets without a file.
        return host.replace("unix:@", "unix-abstract:")
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def _credentials(tls: TlsFiles) -> Any:
    """Return credentials that follow the files; grpcio asks for them with each connection."""
    files = Reloaded(tls, _certificates)
    return grpc.dynamic_ssl_server_credentials(files.current(), files.current, tls.is_mutual)


def _certificates(tls: TlsFiles) -> Any:
    certificate, key, root = tls.pems()
    return grpc.ssl_server_certificate_configuration([(key, certificate)], root)


class _ServiceHandler:
    """Makes calls of the service's methods out of grpcio's.

    Args:
        service: The RPCs.
        paths: The methods there are.
        stream_paths: Those whose calls have more than one message.
        compressed_paths: Those whose responses are compressed; None when none are at all.
        service_for: Returns the service of a call by its peer; None where all have one.
    """

    def __init__(
        self,
        service: RpcService,
        paths: frozenset[bytes],
        stream_paths: frozenset[bytes],
        compressed_paths: frozenset[bytes] | None,
        service_for: Callable[[Peer], RpcService] | None = None,
    ) -> None:
        self._service_for = service_for
        self._service = service
        self._paths = paths
        self._stream_paths = stream_paths
        self._compressed_paths = compressed_paths

    def service(self, handler_call_details: Any) -> Any:
        """Return the handler of a method, or None when there is no such method."""
        path = handler_call_details.method.encode()
        if path not in self._paths:
            return None
        metadata = [
            (_as_bytes(key), _as_bytes(value))
            for key, value in handler_call_details.invocation_metadata
        ]
        # gRPC's level is one of all methods; Triton's is one of these.
        compressed = self._compressed_paths
        is_plain = compressed is not None and path not in compressed
        # Of a unary method grpcio receives the message before anybody is asked, of a stream not.
        if path in self._stream_paths or self._service_for is not None:

            async def run_stream(requests: Any, context: Any) -> None:
                if is_plain:
                    context.disable_next_message_compression()
                service = self._service
                if self._service_for is not None:
                    service = self._service_for(_peer_of(context))
                await _run_stream(service, path, metadata, requests, context)

            return grpc.stream_stream_rpc_method_handler(run_stream)

        async def run_unary(data: bytes, context: Any) -> bytes:
            if is_plain:
                context.disable_next_message_compression()
            return await _run_unary(self._service, path, metadata, data, context)

        return grpc.unary_unary_rpc_method_handler(run_unary)


class _Reply:
    """Collects what the service says and wakes the coroutine that passes it on to grpcio."""

    __slots__ = ("details", "messages", "retry_s", "status", "timeout_ns", "waiter")

    def __init__(self, left_s: float | None) -> None:
        self.messages: list[bytes] = []
        self.status: int | None = None
        self.details = ""
        self.retry_s = 0.0
        self.timeout_ns = 0 if left_s is None else int(left_s * _NS_PER_S)
        self.waiter: asyncio.Future[None] | None = None

    def send(self, message: bytes | list[Buffer]) -> None:
        self.messages.append(message if isinstance(message, bytes) else b"".join(message))
        self._wake()

    def finish(self, status: int = 0, details: str = "", retry_s: float = 0.0) -> None:
        self.status = status
        self.retry_s = retry_s
        self.details = details
        self._wake()

    def complete(self, message: bytes | list[Buffer]) -> None:
        self.send(message)
        self.finish()

    def hold(self, count_bytes: int) -> None:
        """Messages are grpcio's, which has its own bounds."""

    def let_go(self, count_bytes: int) -> None:
        """As `hold`."""

    async def wait(self) -> None:
        """Wait until the service says something more."""
        self.waiter = asyncio.get_running_loop().create_future()
        await self.waiter

    def _wake(self) -> None:
        if self.waiter is not None and not self.waiter.done():
            self.waiter.set_result(None)


async def _run_unary(
    service: RpcService, path: bytes, metadata: Metadata, data: bytes, context: Any
) -> bytes:
    reply = _Reply(context.time_remaining())
    call = service.start(path, metadata, reply)
    if call is None:
        raise LookupError(path)
    call.message(data)
    call.half_closed()
    try:
        while reply.status is None:
            await reply.wait()
    except asyncio.CancelledError:
        call.cancelled()
        raise
    if reply.status:
        await _abort(context, reply, reply.status)
    return reply.messages[0]


async def _run_stream(
    service: RpcService, path: bytes, metadata: Metadata, requests: Any, context: Any
) -> None:
    reply = _Reply(context.time_remaining())
    call = service.start(path, metadata, reply)
    if call is None:
        if reply.status:
            await context.abort(_STATUS[reply.status], reply.details)
        raise LookupError(path)

    async def read() -> None:
        async for data in requests:
            call.message(data)
        call.half_closed()

    reader = asyncio.get_running_loop().create_task(read())
    reader.add_done_callback(_note_end)
    try:
        while True:
            messages, reply.messages = reply.messages, []
            for message in messages:
                await context.write(message)
            if reply.messages:
                continue
            if reply.status is not None:
                break
            await reply.wait()
    except asyncio.CancelledError:
        call.cancelled()
        raise
    finally:
        reader.cancel()
    if reply.status:
        await _abort(context, reply, reply.status)


def _note_end(reader: asyncio.Task[None]) -> None:
    """Take what ended the reading of a call's messages, which ends with the call."""
    if not reader.cancelled():
        reader.exception()


async def _abort(context: Any, reply: _Reply, status: int) -> None:
    metadata: tuple[tuple[str, str], ...] = ()
    if reply.retry_s:
        metadata = (("grpc-retry-pushback-ms", str(math.ceil(reply.retry_s * 1000))),)
    await context.abort(_STATUS[status], reply.details, metadata)


def _peer_of(context: Any) -> Peer:
    """Return who calls; of the user behind a Unix socket grpcio does not tell."""
    shown = context.auth_context()
    pem = shown.get("x509_pem_cert", [b""])[0]
    certificate = ssl.PEM_cert_to_DER_cert(pem.decode()) if pem else b""
    return Peer("grpc", certificate, is_encrypted="transport_security_type" in shown)


def _as_bytes(text: str | bytes) -> bytes:
    return text.encode() if isinstance(text, str) else text
