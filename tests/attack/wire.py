# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Requests as bytes, and connections that do not mind what becomes of them."""

import contextlib
import json
import socket
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

TIMEOUT_S: Final = 60.0
_HEAD_END: Final = b"\r\n\r\n"


@dataclass(frozen=True)
class Answer:
    """An HTTP answer; status 0 is a connection that was closed without one."""

    status: int
    head: bytes = b""
    body: bytes = b""

    @property
    def header_lines(self) -> list[bytes]:
        """The lines of the head, in lower case."""
        return self.head.lower().split(b"\r\n")[1:]


CLOSED: Final = Answer(0)


def request(
    method: str, path: str | bytes, body: bytes = b"", headers: Sequence[bytes] = ()
) -> bytes:
    """Return a request; ``headers`` are complete lines without their ends."""
    target = path.encode() if isinstance(path, str) else path
    lines = [method.encode() + b" " + target + b" HTTP/1.1", b"Host: manta", *headers]
    if body or method not in {"GET", "HEAD"}:
        lines.append(b"Content-Length: %d" % len(body))
    return b"\r\n".join([*lines, b"", b""]) + body


def post_json(path: str, document: Any, headers: Sequence[bytes] = ()) -> bytes:
    """Return a POST of a document as JSON."""
    return request("POST", path, json.dumps(document).encode(), headers)


def infer_document() -> dict[str, Any]:
    """Return a good request of the model ``add_sub``."""
    return {
        "id": "1",
        "inputs": [
            {"name": name, "shape": [1, 16], "datatype": "INT32", "data": list(range(16))}
            for name in ("INPUT0", "INPUT1")
        ],
    }


class Connection:
    """A connection that is opened again when the server has closed it.

    Args:
        address: host:port.
    """

    def __init__(self, address: str) -> None:
        host, _, port = address.rpartition(":")
        self._address = (host, int(port))
        self._socket: socket.socket | None = None
        self._received = bytearray()

    def __enter__(self) -> "Connection":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close."""
        if self._socket is not None:
            self._socket.close()
        self._socket = None
        self._received.clear()

    def ask(self, sent: bytes) -> Answer:
        """Return the answer to a request, or `CLOSED`."""
        answer = self.pipeline([sent])[0]
        if sent.startswith(b"HEAD "):
            # Its answer tells a length and has no body.
            self.close()
        return answer

    def pipeline(self, requests: Sequence[bytes]) -> list[Answer]:
        """Send requests at once; return an answer to each, `CLOSED` where there is none."""
        answers: list[Answer] = []
        with contextlib.suppress(ConnectionError):
            peer = self._opened()
            peer.sendall(b"".join(requests))
            while len(answers) < len(requests):
                found = self._next(peer, is_head=requests[len(answers)].startswith(b"HEAD "))
                if found is None:
                    break
                answers.append(found)
        if len(answers) < len(requests):
            self.close()
        return answers + [CLOSED] * (len(requests) - len(answers))

    def _opened(self) -> socket.socket:
        if self._socket is None:
            self._socket = socket.create_connection(self._address, TIMEOUT_S)
        return self._socket

    def _next(self, peer: socket.socket, *, is_head: bool) -> Answer | None:
        """Read an answer; None when the connection ends before it."""
        while True:
            taken = first_answer(self._received, is_head=is_head)
            if taken is not None:
                answer, size = taken
                del self._received[:size]
                return answer
            more = peer.recv(1 << 18)
            if not more:
                return None
            self._received += more


def last_words(address: str, sent: bytes) -> bytes:
    """Send bytes and end; return what comes back."""
    host, _, port = address.rpartition(":")
    received = bytearray()
    peer = socket.create_connection((host, int(port)), TIMEOUT_S)
    with contextlib.suppress(ConnectionError), peer:
        peer.sendall(sent)
        peer.shutdown(socket.SHUT_WR)
        while more := peer.recv(1 << 18):
            received += more
    return bytes(received)


def first_answer(data: bytes | bytearray, *, is_head: bool = False) -> tuple[Answer, int] | None:
    """Return the answer that bytes begin with, and its size; None while it is not complete."""
    end = data.find(_HEAD_END)
    if end < 0:
        return None
    head = bytes(data[:end])
    status = int(head[9:12])
    size = end + len(_HEAD_END)
    lower = b"" if is_head else head.lower()
    if b"transfer-encoding: chunked" in lower:
        last = data.find(b"0\r\n\r\n", size)
        return None if last < 0 else (Answer(status, head, bytes(data[size:last])), last + 5)
    at = lower.find(b"\r\ncontent-length:")
    length = int(head[at + 17 :].split(b"\r\n", 1)[0]) if at >= 0 else 0
    if status < 200 or is_head:
        length = 0
    if len(data) < size + length:
        return None
    return Answer(status, head, bytes(data[size : size + length])), size + length


def all_answers(data: bytes) -> Iterator[Answer]:
    """Yield the complete answers that bytes consist of."""
    rest = data
    while (taken := first_answer(rest)) is not None:
        yield taken[0]
        rest = rest[taken[1] :]


def batches(requests: Iterable[bytes], size: int) -> Iterator[list[bytes]]:
    """Yield requests in lists of a size."""
    batch: list[bytes] = []
    for each in requests:
        batch.append(each)
        if len(batch) == size:
            yield batch
            batch = []
    if batch:
        yield batch
