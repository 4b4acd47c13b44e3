# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""HTTP/2 requests with headers that RFC 9113 section 8 forbids, and floods of good ones."""

from typing import Final

import hpack

from deployments.http2 import frames
from tests.attack.grpc_wire import ended_calls
from tests.attack.scene import Scene
from tests.attack.tally import ALLOWED_CODES, Tally
from tests.support import abuse
from tests.support.grpc_messages import INFER_PATH, add_sub_request, framed

Headers = tuple[tuple[bytes, bytes], ...]
_GOOD: Final[Headers] = abuse.GRPC_HEADERS
_BY_NAME: Final = dict(_GOOD)
_PATH: Final = INFER_PATH.encode()


def _with(**changes: bytes | None) -> Headers:
    changed = _BY_NAME | {b":" + key.encode(): value for key, value in changes.items()}
    return tuple((name, value) for name, value in changed.items() if value is not None)


# Malformed: none may reach a model.
_MALFORMED: Final[dict[str, Headers]] = {
    "no :path": _with(path=None),
    "no :method": _with(method=None),
    "empty :path": _with(path=b""),
    ":path twice": (*_GOOD, (b":path", b"/other")),
    ":method twice": ((b":method", b"GET"), *_GOOD),
    "pseudo-header behind others": (*_GOOD, (b":authority", b"x")),
    "unknown pseudo-header": ((b":evil", b"1"), *_GOOD),
    ":status of a request": ((b":status", b"200"), *_GOOD),
    "name in capitals": (*_GOOD, (b"X-Upper", b"1")),
    "connection": (*_GOOD, (b"connection", b"close")),
    "transfer-encoding": (*_GOOD, (b"transfer-encoding", b"chunked")),
    "upgrade": (*_GOOD, (b"upgrade", b"h2c")),
    "CRLF in a value": (*_GOOD, (b"x", b"a\r\nx-injected: 1")),
    "LF in a value": (*_GOOD, (b"x", b"a\nb")),
    "NUL in a value": (*_GOOD, (b"x", b"a\0b")),
    "CRLF in a name": (*_GOOD, (b"x\r\ny", b"1")),
    "empty name": (*_GOOD, (b"", b"1")),
    "colon in a name": (*_GOOD, (b"a:b", b"1")),
    "length that is wrong": (*_GOOD, (b"content-length", b"1")),
}
# Well-formed, and no call of ours.
_FOREIGN: Final[dict[str, Headers]] = {
    "path with a request line in it": _with(path=_PATH + b" HTTP/1.1\r\nx: y"),
    "path of another service": _with(path=b"/evil.Service/Do"),
    "path that climbs": _with(path=b"/x/../inference.GRPCInferenceService/ModelInfer"),
    "path with a query": _with(path=_PATH + b"?x=1"),
    "absolute path": _with(path=b"http://x" + _PATH),
    "GET": _with(method=b"GET"),
    "CONNECT": _with(method=b"CONNECT"),
}


def abuse_pseudo_headers(scene: Scene, tally: Tally) -> None:
    """Send each as a call of its own, then the floods."""
    message = framed(add_sub_request().SerializeToString())
    for name, headers in (_MALFORMED | _FOREIGN).items():
        encoder = hpack.Encoder()
        block = bytes(encoder.encode([(*each, True) for each in headers], huffman=False))
        sent = abuse.head(1, block) + abuse.data(1, message, frames.END_STREAM)
        mark = frames.frame(frames.PING, 0, 0, b"attacked")
        acknowledged = frames.frame(frames.PING, frames.ACK, 0, b"attacked")
        received = abuse.throw(
            scene.server.grpc,
            abuse.START + sent + mark,
            until=lambda got, end=acknowledged: end in got and bool(ended_calls(got)),  # type: ignore[misc]
        )
        calls = ended_calls(received)
        code = calls[1].code if 1 in calls else -1
        tally.note("reset" if code < 0 else f"code {code}")
        tally.expect(code != 0, f"{name}: the call has reached a model")
        tally.expect(code < 0 or code in ALLOWED_CODES, f"{name}: code {code}")
    for name, (sent, expected) in abuse.HTTP2_CUT_OFF.items():
        received = abuse.throw(scene.server.grpc, abuse.START + sent)
        goaway = abuse.goaway_code(received)
        tally.note("GOAWAY")
        tally.expect(goaway == expected, f"{name}: GOAWAY {goaway}, expected {expected}")
