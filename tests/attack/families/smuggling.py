# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Requests of which two readers may see different ends, and requests hidden in others."""

from typing import Final

from tests.attack.scene import Scene
from tests.attack.tally import Tally
from tests.attack.wire import all_answers
from tests.support.abuse import HTTP1_CUT_OFF, throw

_POST: Final = b"POST /v2/models/none/infer HTTP/1.1\r\nHost: x\r\n"
_HIDDEN: Final = b"GET /v2/smuggled HTTP/1.1\r\nHost: x\r\n\r\n"
_CHUNKED: Final = b"Transfer-Encoding: chunked\r\n"
_LENGTH: Final = b"Content-Length: %d\r\n" % len(_HIDDEN)
_END: Final = b"0\r\n\r\n"

# Framings that RFC 9112 calls errors, or that readers are known to take differently; the hidden
# request is where a body is for one of them and where the next request is for another.
_SMUGGLED: Final = {
    **HTTP1_CUT_OFF,
    "CL.TE": _POST + b"Content-Length: 5\r\n" + _CHUNKED + b"\r\n" + _END + _HIDDEN,
    "TE.CL": _POST + _CHUNKED + b"Content-Length: 5\r\n\r\n" + _END + _HIDDEN,
    "TE behind a tab": _POST + _LENGTH + b"Transfer-Encoding:\tchunked\r\n\r\n" + _END + _HIDDEN,
    "TE in capitals": _POST + _LENGTH + b"TRANSFER-ENCODING: CHUNKED\r\n\r\n" + _END + _HIDDEN,
    "TE with a space before the colon": _POST + _LENGTH + b"Transfer-Encoding : chunked\r\n\r\n"
    + _END + _HIDDEN,
    "TE with a vertical tab": _POST + _LENGTH + b"Transfer-Encoding: \x0bchunked\r\n\r\n"
    + _END + _HIDDEN,
    "TE with a NUL": _POST + _LENGTH + b"Transfer-Encoding: chunked\0\r\n\r\n" + _END + _HIDDEN,
    "TE twice": _POST + _LENGTH + _CHUNKED + b"Transfer-Encoding: identity\r\n\r\n"
    + _END + _HIDDEN,
    "TE as a list": _POST + b"Transfer-Encoding: gzip, chunked\r\n\r\n" + _END + _HIDDEN,
    "TE in quotes": _POST + _LENGTH + b'Transfer-Encoding: "chunked"\r\n\r\n' + _END + _HIDDEN,
    "TE by an underscore": _POST + b"Content-Length: 5\r\nTransfer-Encoding: chunke\r\n\r\n"
    + _END + _HIDDEN,
    "TE behind a bare LF": _POST + b"X: y\nTransfer-Encoding: chunked\r\n" + _LENGTH + b"\r\n"
    + _END + _HIDDEN,
    "TE behind a bare CR": _POST + b"X: y\rTransfer-Encoding: chunked\r\n" + _LENGTH + b"\r\n"
    + _END + _HIDDEN,
    "TE in HTTP/1.0": _POST.replace(b"1.1", b"1.0") + _CHUNKED + b"\r\n" + _END + _HIDDEN,
    "two equal lengths": _POST + b"Content-Length: 0\r\n" * 2 + b"\r\n" + _HIDDEN,
    "length with a comma": _POST + b"Content-Length: 0,\r\n\r\n" + _HIDDEN,
    "length with a space in it": _POST + b"Content-Length: 0 0\r\n\r\n" + _HIDDEN,
    "length with an underscore": _POST + b"Content-Length: 0_0\r\n\r\n" + _HIDDEN,
    "length in other digits": _POST + "Content-Length: \u0660\r\n\r\n".encode() + _HIDDEN,
    "length below 0": _POST + b"Content-Length: -1\r\n\r\n" + _HIDDEN,
    "head ended by LF": b"POST /v2/models/none/infer HTTP/1.1\nHost: x\nContent-Length: 0\n\n"
    + _HIDDEN,
    "chunk ended by LF": _POST + _CHUNKED + b"\r\n1\nx\n0\n\n" + _HIDDEN,
    "chunk with two sizes": _POST + _CHUNKED + b"\r\n1 1\r\nx\r\n0\r\n\r\n" + _HIDDEN,
    "chunk of hex with a prefix": _POST + _CHUNKED + b"\r\n0x1\r\nx\r\n0\r\n\r\n" + _HIDDEN,
    "chunk longer than it says": _POST + _CHUNKED + b"\r\n1\r\nxx\r\n0\r\n\r\n" + _HIDDEN,
    "line feed in a header's name": _POST + b"X\nContent-Length: 0\r\n\r\n" + _HIDDEN,
    "request line folded": b"GET /v2\r\n HTTP/1.1\r\nHost: x\r\n\r\n" + _HIDDEN,
    "HTTP/0.9": b"GET /v2\r\n\r\n" + _HIDDEN,
    "HTTP/9.9": b"GET /v2 HTTP/9.9\r\nHost: x\r\n\r\n" + _HIDDEN,
    "white space before the version": b"GET /v2 \x0bHTTP/1.1\r\nHost: x\r\n\r\n" + _HIDDEN,
}  # fmt: skip
# What has one meaning: each is a request of its own, and the second one is no secret.
_PLAIN: Final = {
    "CRLF in the query, escaped": b"GET /v2?x=%0d%0a%0d%0aGET%20/v2/smuggled HTTP/1.1\r\n"
    b"Host: x\r\nConnection: close\r\n\r\n",
    "CRLF in the path, escaped": b"GET /v2/models/%0d%0aX:%20smuggled HTTP/1.1\r\nHost: x\r\n"
    b"Connection: close\r\n\r\n",
    "absolute form of another host": b"GET http://evil.example/v2 HTTP/1.1\r\nHost: x\r\n"
    b"Connection: close\r\n\r\n",
    "two hosts": b"GET /v2 HTTP/1.1\r\nHost: x\r\nHost: y\r\nConnection: close\r\n\r\n",
    "h2c upgrade": b"GET /v2 HTTP/1.1\r\nHost: x\r\nConnection: Upgrade, HTTP2-Settings, close\r\n"
    b"Upgrade: h2c\r\nHTTP2-Settings: AAMAAABkAARAAAAAAAIAAAAA\r\n\r\n",
    "WebSocket upgrade": b"GET /v2 HTTP/1.1\r\nHost: x\r\nConnection: Upgrade, close\r\n"
    b"Upgrade: websocket\r\nSec-WebSocket-Key: x\r\n\r\n",
    "CONNECT": b"CONNECT 169.254.169.254:80 HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n",
}  # fmt: skip


def smuggle(scene: Scene, tally: Tally) -> None:
    """Send each; of the first kind at most one request may be answered."""
    for name, sent in _SMUGGLED.items():
        answers = list(all_answers(throw(scene.server.http, sent)))
        status = answers[0].status if answers else 0
        tally.check_answer(status or 400, answers[0].body if answers else b"", name)
        tally.expect(len(answers) <= 1, f"{name}: {len(answers)} requests were seen in one")
        tally.expect(status != 200, f"{name}: taken for a good request")
    for name, sent in _PLAIN.items():
        received = throw(scene.server.http, sent)
        answers = list(all_answers(received))
        tally.expect(len(answers) == 1, f"{name}: {received[:200]!r}")
        for each in answers:
            tally.check_answer(each.status, each.body, name)
            tally.expect(b"smuggled" not in each.head.lower(), f"{name}: in a header of the answer")
            tally.expect(each.status != 101, f"{name}: switches protocols")
