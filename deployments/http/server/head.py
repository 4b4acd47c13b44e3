# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Request heads, and the cache of those that clients repeat byte for byte.

A client that sends the same kind of request over and over sends the same request line and headers
each time. Finding them by their bytes takes a tenth of parsing them. A head is remembered when it
comes a second time, and only if a parser of its own, given nothing but these bytes, finds the end
of the headers exactly at their end: then they mean the same wherever a request may begin.
"""

import re
from typing import Final

import httptools

# Larger heads carry what changes from request to request, such as tokens.
_SIZE_LIMIT_BYTES: Final = 1024
_HEAD_COUNT_LIMIT: Final = 512
_HEAD_END: Final = b"\r\n\r\n"

# The headers of interest and their attributes; grows by the spellings that peers use.
_HEADERS: Final[dict[bytes, str]] = {
    b"content-length": "content_length",
    b"transfer-encoding": "transfer_encoding",
    b"content-encoding": "content_encoding",
    b"accept-encoding": "accept_encoding",
    b"inference-header-content-length": "infer_header_length",
    b"expect": "expect",
    b"endpoint-load-metrics-format": "load_report_form",
    b"x-envoy-expected-rq-timeout-ms": "expected_timeout",
}
_HEADER_SPELLINGS_LIMIT: Final = 1024
_PLAIN_LENGTH_DIGITS: Final = 9

MALFORMED: Final = "the request is not well-formed HTTP/1.1"
FOREIGN: Final = "HTTP Version Not Supported"
_CHUNKED_HEAD: Final = b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n"
_METHOD_BYTES_LIMIT: Final = 32
_UNKNOWN_METHOD_REST: Final = re.compile(rb"/[\x21-\x7e]* HTTP/1\.1")


class HttpHead:
    """Request line and headers; once `finish`ed it does not change and may be shared.

    Attributes:
        url: Request target as sent, path and query.
        method: For example ``b"GET"``.
        is_http10: Whether the version is 1.0.
        is_foreign: Whether it is neither that nor 1.1: 0.9 has no head to tell requests apart by.
        keep_alive: Whether the connection may go on behind the request.
        headers: All headers as sent, in their order.
        body_bytes: Content-Length; 0 when it is missing or does not count.
        load_report_form: Endpoint-Load-Metrics-Format.
        expected_timeout: X-Envoy-Expected-Rq-Timeout-Ms.
        timeout_ms: The same when it is a plain number, else 0.
        json_bytes: Inference-Header-Content-Length when it is a plain number, else -1.
        admission: What the server's gate last said of the head on connections that themselves say
            nothing of their peers; a `deployments.http.server.host.Admission`.
    """

    __slots__ = (
        "accept_encoding",
        "admission",
        "body_bytes",
        "content_encoding",
        "content_length",
        "expect",
        "expected_timeout",
        "headers",
        "infer_header_length",
        "is_foreign",
        "is_http10",
        "json_bytes",
        "keep_alive",
        "load_report_form",
        "method",
        "timeout_ms",
        "transfer_encoding",
        "url",
    )

    def __init__(self) -> None:
        self.url = b""
        self.headers: list[tuple[bytes, bytes]] = []
        self.method = b""
        self.is_http10 = False
        self.is_foreign = False
        self.keep_alive = True
        self.body_bytes = 0
        self.json_bytes = -1
        self.content_length = b""
        self.transfer_encoding = b""
        self.content_encoding = b""
        self.accept_encoding = b""
        self.infer_header_length: bytes | None = None
        self.expect = b""
        self.load_report_form = b""
        self.admission: object = None
        self.expected_timeout = b""
        self.timeout_ms = 0

    def take(self, name: bytes, value: bytes) -> None:
        """Take one header."""
        self.headers.append((name, value))
        field = _HEADERS.get(name)
        if field is None:
            field = _HEADERS.get(name.lower(), "")
            if len(_HEADERS) < _HEADER_SPELLINGS_LIMIT:
                _HEADERS[name] = field
        # Of a header given twice Triton takes the first.
        if field and not getattr(self, field):
            setattr(self, field, value)

    def finish(self, parser: httptools.HttpRequestParser) -> None:
        """Take what the parser knows at the end of the headers."""
        self.method = parser.get_method()
        is_ambiguous = self.content_length and self.transfer_encoding
        self.keep_alive = parser.should_keep_alive() and not is_ambiguous
        version = parser.get_http_version()
        self.is_http10 = version == "1.0"
        self.is_foreign = version != "1.1" and not self.is_http10
        if self.content_length and not self.transfer_encoding:
            # The parser has checked that it is a number and comes alone.
            self.body_bytes = int(self.content_length)
        given = self.infer_header_length
        if given and given.isdigit() and len(given) <= _PLAIN_LENGTH_DIGITS:
            self.json_bytes = int(given)
        given = self.expected_timeout
        if given.isdigit() and len(given) <= _PLAIN_LENGTH_DIGITS:
            self.timeout_ms = int(given)


def new_parser(protocol: object) -> httptools.HttpRequestParser:
    """Return the parser of a connection; ``protocol`` has the callbacks that it calls."""
    parser = httptools.HttpRequestParser(protocol)
    # With both Transfer-Encoding and Content-Length the first counts; `framing_fault` and the end
    # of the connection are the rest of what RFC 9112 section 6.1 asks then.
    parser.set_dangerous_leniencies(lenient_chunked_length=True)
    return parser


def new_chunk_parser(protocol: object) -> httptools.HttpRequestParser:
    """Return a parser that stands in front of a chunked body; ``protocol`` is called for it."""
    parser = new_parser(protocol)
    parser.feed_data(_CHUNKED_HEAD)
    return parser


def framing_fault(head: HttpHead) -> tuple[int, str]:
    """Return status and reason for which a request with Transfer-Encoding is refused, or 0 and "".

    Only ``chunked`` alone tells where a body ends. It counts beside a Content-Length too; then the
    connection ends with the request, since somebody before us may have believed the length.

    RFC 9112 sections 6.1 and 6.3.
    """
    codings = b", ".join(
        value for name, value in head.headers if name.lower() == b"transfer-encoding"
    )
    shown = codings.decode("latin-1")
    if head.is_http10:
        return 400, f"Transfer-Encoding '{shown}' does not exist in HTTP/1.0; send Content-Length"
    if codings.strip().lower() != b"chunked":
        return 501, f"Transfer-Encoding '{shown}' is not supported, expected 'chunked'"
    return 0, ""


def method_fault(data: bytes) -> tuple[int, str]:
    """Return status and reason for bytes whose beginning the parser does not take for a method.

    405 is for a request line that is well-formed but for a method that the parser does not know.
    """
    # Only the first line of what was read: one behind other requests is not found.
    line = data.partition(b"\r\n")[0]
    method, _, rest = line.partition(b" ")
    is_token = method.isalpha() and method.isupper() and len(method) <= _METHOD_BYTES_LIMIT
    if is_token and _UNKNOWN_METHOD_REST.fullmatch(rest):
        try:
            httptools.HttpRequestParser(object()).feed_data(line)
        except httptools.HttpParserInvalidMethodError:
            return 405, "Method Not Allowed"
        except httptools.HttpParserError:
            pass
    return 400, f"{MALFORMED}: it does not begin with a method"


class KnownHeads:
    """The heads that the clients of a server repeat.

    Args:
        max_bytes: The largest head the server takes.

    Attributes:
        limit_bytes: The largest head that is remembered.
    """

    __slots__ = ("_heads", "_seen", "limit_bytes")

    def __init__(self, max_bytes: int) -> None:
        self.limit_bytes = min(max_bytes, _SIZE_LIMIT_BYTES)
        self._heads: dict[bytes, HttpHead] = {}
        self._seen: set[bytes] = set()

    def find(self, data: bytes) -> tuple[HttpHead | None, int]:
        """Return the known head that ``data`` begins with, and where it ends.

        Returns:
            None with 0 when ``data`` does not begin with a whole head of some kind, and None with
            its end when that head is not known.
        """
        end = data.find(_HEAD_END) + 4
        if end < 4:  # noqa: PLR2004 - not found
            return None, 0
        return self._heads.get(data[:end]), end

    def note(self, raw: bytes) -> None:
        """Note a head that was not known; the second time it is remembered."""
        if raw not in self._seen:
            if len(self._seen) >= _HEAD_COUNT_LIMIT:
                self._seen.clear()
            self._seen.add(raw)
            return
        self._seen.discard(raw)
        head = _parsed(raw)
        if head is not None:
            if len(self._heads) >= _HEAD_COUNT_LIMIT:
                self._heads.clear()
            self._heads[raw] = head


class _HeadParser:
    """Gathers one head."""

    __deletable__ = ("parser",)

    def __init__(self) -> None:
        self.head = HttpHead()
        self.parser = httptools.HttpRequestParser(self)
        self.is_complete = False

    def on_url(self, url: bytes) -> None:
        self.head.url += url

    def on_header(self, name: bytes, value: bytes) -> None:
        self.head.take(name, value)

    def on_headers_complete(self) -> None:
        self.head.finish(self.parser)
        self.is_complete = True


def _parsed(raw: bytes) -> HttpHead | None:
    """Return a head that is worth remembering: complete with its last byte, and ordinary."""
    parsing = _HeadParser()
    try:
        for part, is_last in ((raw[:-1], False), (raw[-1:], True)):
            parsing.parser.feed_data(part)
            if parsing.is_complete is not is_last:
                return None
        is_upgrade = parsing.parser.should_upgrade()
    except (httptools.HttpParserError, httptools.HttpParserUpgrade):
        return None
    finally:
        del parsing.parser  # which refers to the parsing in turn
    head = parsing.head
    is_old = head.is_http10 or head.is_foreign
    is_special = is_upgrade or is_old or head.transfer_encoding or head.expect
    return None if is_special or not head.keep_alive else head
