# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Busy clients that write down what became of each request.

Each sends one request after the other to a model of `tests.faults.models` and checks that the
answer is the answer to this request. HTTP clients have a keep-alive connection each, over plain
sockets, so that an end of the connection in place of an answer is told from an end between two
answers. gRPC clients share channels two by two; each channel has a connection of its own.
"""

import json
import socket
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any, Final, NamedTuple

import grpc
import numpy as np
import psutil
from tritonclient.grpc import service_pb2
from tritonclient.grpc.service_pb2_grpc import GRPCInferenceServiceStub

# What may become of a request.
OK: Final = "ok"
ERROR: Final = "error"  # an error, or the wrong answer
LOST: Final = "lost"  # the connection ended in place of an answer
HUNG: Final = "hung"  # no answer for as long as the client waits
REFUSED: Final = "refused"  # the connection was never made; no request was sent

# A kernel answers so only where it had made the connection, for a process that has not accepted it.
_RESET: Final = "reset before it was accepted"

_WIDTH: Final = 16
_PAUSE_S: Final = 0.05
_CALLS_PER_CHANNEL: Final = 2
_NUMBERS_PER_CLIENT: Final = 1 << 24
_CHANNEL_OPTIONS: Final = (
    ("grpc.use_local_subchannel_pool", 1),
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.min_reconnect_backoff_ms", 2000),
    ("grpc.max_reconnect_backoff_ms", 1000),
)


class Outcome(NamedTuple):
    """What became of a request.

    Attributes:
        protocol: http or grpc.
        kind: One of `OK`, `ERROR`, `LOST`, `HUNG`, `REFUSED`.
        begin_s: When it was sent, by `time.monotonic`; end_s: when that was known.
        port: The client's port; 0 where it is not known.
        is_first: Whether its connection has never carried an answer.
        detail: What an error said, or the connection's end.
    """

    protocol: str
    kind: str
    begin_s: float
    end_s: float
    port: int = 0
    is_first: bool = False
    detail: str = ""


class ConnectionEndedError(Exception):
    """The connection ended in place of an answer."""


class HttpPeer:
    """A keep-alive connection.

    Args:
        address: host:port.
        timeout_s: How long an answer is waited for.

    Raises:
        OSError: The connection was not made.
    """

    def __init__(self, address: str, timeout_s: float) -> None:
        host, port = address.split(":")
        self._socket = socket.create_connection((host, int(port)), timeout=timeout_s)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._received = bytearray()
        self.port: int = self._socket.getsockname()[1]
        self.is_closing = False

    def exchange(self, method: str, path: str, body: bytes = b"") -> tuple[int, bytes]:
        """Send a request; return status and body of the answer.

        Raises:
            ConnectionEndedError: The connection ended first.
            TimeoutError: There was no answer in time.
        """
        head = f"{method} {path} HTTP/1.1\r\nHost: faults\r\nContent-Length: {len(body)}\r\n\r\n"
        try:
            self._socket.sendall(head.encode() + body)
            return self._answer()
        except ConnectionError as error:
            raise ConnectionEndedError(f"{type(error).__name__} in place of an answer") from None

    def has_more(self) -> bool:
        """Whether bytes have come that belong to no answer that was asked for."""
        return bool(self._received)

    def close(self) -> None:
        """Close the connection."""
        self._socket.close()

    def _answer(self) -> tuple[int, bytes]:
        while (end := self._received.find(b"\r\n\r\n")) < 0:
            self._receive()
        status_line, *lines = self._received[:end].decode("latin-1").split("\r\n")
        headers = {
            name.lower(): value.strip()
            for name, _, value in (each.partition(":") for each in lines)
        }
        del self._received[: end + 4]
        if headers.get("connection", "").lower() == "close":
            self.is_closing = True
        if headers.get("transfer-encoding", "").lower() == "chunked":
            body = b"".join(iter(self._chunk, b""))
        else:
            body = self._take(int(headers["content-length"]))
        return int(status_line.split()[1]), body

    def _chunk(self) -> bytes:
        while (end := self._received.find(b"\r\n")) < 0:
            self._receive()
        size = int(self._received[:end], 16)
        return self._take(end + 2 + size + 2)[end + 2 : -2]

    def _take(self, size: int) -> bytes:
        while len(self._received) < size:
            self._receive()
        taken = bytes(self._received[:size])
        del self._received[:size]
        return taken

    def _receive(self) -> None:
        more = self._socket.recv(1 << 18)
        if not more:
            raise ConnectionEndedError(f"EOF after {len(self._received)} bytes of an answer")
        self._received += more


def ask(address: str, method: str, path: str, body: object, timeout_s: float) -> tuple[int, str]:
    """Send a request on a connection of its own.

    Returns:
        Status and body; what keeps it from an answer is told in place of a body, with status 0.
    """
    content = b"" if body is None else json.dumps(body).encode()
    try:
        peer = HttpPeer(address, timeout_s)
        try:
            status, answer = peer.exchange(method, path, content)
        finally:
            peer.close()
    except (OSError, ConnectionEndedError) as error:
        return 0, f"{type(error).__name__} {error}"
    return status, answer.decode(errors="replace")


def failures(outcomes: Iterable[Outcome], *but: str) -> Counter[tuple[str, str, str]]:
    """Count what was not answered well, by protocol, kind and detail; kinds in ``but`` aside."""
    return Counter(
        (each.protocol, each.kind, each.detail) for each in outcomes if each.kind not in (OK, *but)
    )


class BusyClients:
    """Closed-loop load over both protocols.

    Args:
        http: host:port; grpc likewise.
        model: The model that is asked.
        concurrency: Clients of each protocol.
        patience_s: How long a client waits for an answer.

    Attributes:
        answered_at_s: Process of an instance -> when a client last had an answer from it.
        grpc_ports: The client's ports of the gRPC connections made at the start.
    """

    def __init__(
        self, http: str, grpc_address: str, model: str, *, concurrency: int, patience_s: float
    ) -> None:
        self.answered_at_s: dict[int, float] = {}
        self.grpc_ports: set[int] = set()
        self._http_address = http
        self._grpc_address = grpc_address
        self._path = f"/v2/models/{model}/infer"
        self._model = model
        self._patience_s = patience_s
        self._stop = threading.Event()
        self._outcomes: list[list[Outcome]] = []
        self._channels: list[grpc.Channel] = []
        self._threads: list[threading.Thread] = []
        for number in range(concurrency):
            self._add(self._run_http, number)
        for at in range(0, concurrency, _CALLS_PER_CHANNEL):
            channel, port = self._connect()
            for number in range(at, min(at + _CALLS_PER_CHANNEL, concurrency)):
                self._add(self._run_grpc, concurrency + number, channel, port)
        for thread in self._threads:
            thread.start()

    def wait_warm(self, each: int, timeout_s: float) -> None:
        """Wait until each client has had that many answers."""
        self.wait_until(
            lambda: all(
                sum(one.kind == OK for one in mine[: each * 2]) >= each for mine in self._outcomes
            ),
            timeout_s,
            "the clients do not get warm",
        )

    def wait_until(self, condition: Callable[[], bool], timeout_s: float, what: str) -> None:
        """Wait until a condition holds.

        Raises:
            TimeoutError: It did not in time; the message starts with ``what``.
        """
        until_s = time.monotonic() + timeout_s
        while not condition():
            if time.monotonic() > until_s:
                raise TimeoutError(f"{what} within {timeout_s:g} s")
            time.sleep(_PAUSE_S)

    def outcomes(self) -> list[Outcome]:
        """Return what has become of all requests so far."""
        return [outcome for mine in self._outcomes for outcome in list(mine)]

    def stop(self) -> list[Outcome]:
        """Send no further request, wait for what is under way, return what became of all.

        Raises:
            AssertionError: A client waits longer than it should: this module is wrong.
        """
        self._stop.set()
        until_s = time.monotonic() + self._patience_s + 10
        for thread in self._threads:
            thread.join(max(0.0, until_s - time.monotonic()))
        assert not any(thread.is_alive() for thread in self._threads), "a client hangs"
        for channel in self._channels:
            channel.close()
        return self.outcomes()

    def _add(self, run: Callable[..., None], number: int, *args: Any) -> None:
        mine: list[Outcome] = []
        self._outcomes.append(mine)
        first = self._first(number)
        self._threads.append(
            threading.Thread(target=run, args=(mine.append, first, *args), daemon=True)
        )

    # What subclasses ask instead

    def _first(self, number: int) -> int:
        """Return the number that the first request of a client follows."""
        return number * _NUMBERS_PER_CLIENT

    def _http_body(self, number: int) -> str:
        row = ",".join([str(number)] * _WIDTH)
        return (
            f'{{"id":"{number}","inputs":['
            f'{{"name":"INPUT0","datatype":"INT32","shape":[1,{_WIDTH}],"data":[{row}]}},'
            f'{{"name":"INPUT1","datatype":"INT32","shape":[1,{_WIDTH}],"data":[{row}]}}]}}'
        )

    def _grpc_request(self, number: int) -> service_pb2.ModelInferRequest:
        request = service_pb2.ModelInferRequest(model_name=self._model, id=str(number))
        row = np.full(_WIDTH, number, np.int32).tobytes()
        for name in ("INPUT0", "INPUT1"):
            request.inputs.add(name=name, datatype="INT32", shape=[1, _WIDTH])
            request.raw_input_contents.append(row)
        return request

    def _expected(self, number: int) -> list[int]:
        return [2 * number] * _WIDTH

    def _skip(self, number: int) -> int:
        """Return the number that the next request follows when this one has failed."""
        return number

    def _pause(self) -> None:
        self._stop.wait(_PAUSE_S)

    # HTTP

    def _run_http(self, note: Callable[[Outcome], None], number: int) -> None:
        while not self._stop.is_set():
            begin_s = time.monotonic()
            try:
                peer = HttpPeer(self._http_address, self._patience_s)
            except ConnectionResetError:
                ended_s = time.monotonic()
                note(Outcome("http", LOST, begin_s, ended_s, is_first=True, detail=_RESET))
                continue
            except OSError as error:
                detail = f"{type(error).__name__} at connect"
                note(Outcome("http", REFUSED, begin_s, time.monotonic(), detail=detail))
                self._pause()
                continue
            try:
                number = self._ask_over(peer, note, number)
            finally:
                peer.close()

    def _ask_over(self, peer: HttpPeer, note: Callable[[Outcome], None], number: int) -> int:
        is_first = True
        while not (peer.is_closing or self._stop.is_set()):
            number += 1
            begin_s = time.monotonic()
            kind, detail = self._ask_http(peer, number)
            note(Outcome("http", kind, begin_s, time.monotonic(), peer.port, is_first, detail))
            if kind in {LOST, HUNG}:
                return self._skip(number)
            is_first = False
            if kind != OK:
                number = self._skip(number)
            if kind == ERROR:
                self._pause()
        return number

    def _ask_http(self, peer: HttpPeer, number: int) -> tuple[str, str]:
        try:
            status, answer = peer.exchange("POST", self._path, self._http_body(number).encode())
            if status != 200:
                return ERROR, f"{status} {answer[:200].decode(errors='replace')}"
            found = json.loads(answer)
            outputs = {each["name"]: each["data"] for each in found["outputs"]}
            pid = outputs["PID"][0]
            if (found["id"], outputs["OUTPUT0"]) != (str(number), self._expected(number)):
                return ERROR, f"wrong answer to {number}: {answer[:200]!r}"
        except ConnectionEndedError as error:
            return LOST, str(error)
        except TimeoutError:
            return HUNG, f"no answer within {self._patience_s:g} s"
        except (ValueError, LookupError) as error:
            return ERROR, f"malformed answer: {type(error).__name__}: {error}"
        self.answered_at_s[pid] = time.monotonic()
        return OK, ""

    # gRPC

    def _connect(self) -> tuple[grpc.Channel, int]:
        """Open a channel; return it and the client's port of its connection."""
        before = self._grpc_client_ports()
        channel = grpc.insecure_channel(self._grpc_address, _CHANNEL_OPTIONS)
        grpc.channel_ready_future(channel).result(self._patience_s)
        self._channels.append(channel)
        (port,) = self._grpc_client_ports() - before
        self.grpc_ports.add(port)
        return channel, port

    def _grpc_client_ports(self) -> set[int]:
        server_port = int(self._grpc_address.rsplit(":", 1)[1])
        return {
            each.laddr.port
            for each in psutil.Process().net_connections(kind="tcp")
            if each.status == psutil.CONN_ESTABLISHED and each.raddr.port == server_port
        }

    def _run_grpc(
        self, note: Callable[[Outcome], None], number: int, channel: grpc.Channel, port: int
    ) -> None:
        stub = GRPCInferenceServiceStub(channel)
        while not self._stop.is_set():
            number += 1
            begin_s = time.monotonic()
            kind, detail = self._ask_grpc(stub, number)
            is_first = detail == _RESET
            note(Outcome("grpc", kind, begin_s, time.monotonic(), port, is_first, detail))
            if kind == LOST:
                # The channel makes another connection, whose port nobody tells.
                port = 0
            if kind != OK:
                number = self._skip(number)
                self._pause()

    def _ask_grpc(self, stub: GRPCInferenceServiceStub, number: int) -> tuple[str, str]:
        try:
            answer = stub.ModelInfer(self._grpc_request(number), timeout=self._patience_s)
        except grpc.RpcError as error:
            return _kind_of(error.code(), error.details() or "")
        outputs = {
            each.name: np.frombuffer(raw, np.int32)
            for each, raw in zip(answer.outputs, answer.raw_output_contents, strict=True)
        }
        if answer.id != str(number) or outputs["OUTPUT0"].tolist() != self._expected(number):
            return ERROR, f"wrong answer to {number}: id {answer.id}, {outputs['OUTPUT0']}"
        self.answered_at_s[int(outputs["PID"][0])] = time.monotonic()
        return OK, ""


def _kind_of(code: grpc.StatusCode, details: str) -> tuple[str, str]:
    if code is grpc.StatusCode.DEADLINE_EXCEEDED:
        return HUNG, "no answer within the deadline"
    if code is not grpc.StatusCode.UNAVAILABLE:
        return ERROR, f"{code.name} {details}"
    if "failed to connect to all addresses" in details:
        if "reset by peer" in details:
            return LOST, _RESET
        return REFUSED, details.rsplit("last error: ", 1)[-1]
    return LOST, f"UNAVAILABLE {details}"
