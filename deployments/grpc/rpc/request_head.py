# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""A gRPC request's headers: checked and parsed once per distinct header block.

Texts and codes of refusals are grpcio's, except where its codes would hide the cause: an unknown
``grpc-encoding`` is UNIMPLEMENTED and a foreign content-type HTTP 415, as gRPC's protocol document
asks for.
"""

import base64
import binascii
import re
from typing import Final

from deployments.grpc.rpc.compression import MessageCoding, ResponseCompression
from deployments.grpc.rpc.inflation import DECOMPRESSORS
from deployments.grpc.rpc.status import INTERNAL, RESOURCE_EXHAUSTED, UNIMPLEMENTED, trailers_only
from deployments.http2.errors import MalformedRequestError
from deployments.http2.header_blocks import HeaderList, encode_block, list_bytes

_PSEUDO: Final = frozenset((b":method", b":scheme", b":path", b":authority"))
_REQUIRED: Final = (b":method", b":scheme", b":path")
_CONNECTION_SPECIFIC: Final = frozenset(
    (b"connection", b"keep-alive", b"proxy-connection", b"transfer-encoding", b"upgrade")
)
# Read by the transport; a service has no use for them.
_CONSUMED: Final = frozenset(
    (b"te", b"content-type", b"grpc-timeout", b"grpc-encoding", b"grpc-accept-encoding")
)
_CONTENT_TYPE: Final = b"application/grpc"

# RFC 9113 section 8.2.1: what a name has to be, without the colon of pseudo headers, and what no
# value may have.
_NAME: Final = re.compile(rb"[!#$%&'*+\-.^_`|~0-9a-z]+")
_NOT_IN_VALUES: Final = re.compile(rb"[\x00\r\n]")
_MAX_LENGTH_DIGITS: Final = 18

# Nanoseconds per unit of grpc-timeout.
_TIMEOUT_UNIT_NS: Final = {
    ord("H"): 3_600_000_000_000,
    ord("M"): 60_000_000_000,
    ord("S"): 1_000_000_000,
    ord("m"): 1_000_000,
    ord("u"): 1_000,
    ord("n"): 1,
}
_MAX_TIMEOUT_DIGITS: Final = 8

_NOT_POST: Final = encode_block([(b"allow", b"POST")], status=405)
_NOT_GRPC: Final = encode_block([(b"accept", _CONTENT_TYPE)], status=415)


class RequestHead:
    """The headers of one request; shared by all requests with the same block.

    Attributes:
        path: The ``:path``.
        metadata: Names and values without pseudo headers and without those of the transport;
            values of ``-bin`` names are decoded.
        timeout_ns: The client's deadline from now, or None.
        encoding: What compressed messages are compressed with, or None.
        coding: How to compress the answer's messages, or None.
        body_bytes: What the client says its body has; -1 where it says nothing.
        refusal: The header block that answers the request, or None when it can start.
    """

    __slots__ = ("body_bytes", "coding", "encoding", "metadata", "path", "refusal", "timeout_ns")

    def __init__(self, path: bytes) -> None:
        self.path = path
        self.metadata: tuple[tuple[bytes, bytes], ...] = ()
        self.timeout_ns: int | None = None
        self.encoding: bytes | None = None
        self.coding: MessageCoding | None = None
        self.refusal: bytes | None = None
        self.body_bytes = -1


class _RefusedError(Exception):
    """The request is answered with ``block``."""

    def __init__(self, block: bytes) -> None:
        super().__init__(block)
        self.block = block


class HeadParser:
    """Parses header lists.

    Args:
        max_list_bytes: A list over this size is refused with RESOURCE_EXHAUSTED.
        compression: What responses are compressed with.
    """

    __slots__ = ("_compression", "_max_list_bytes")

    def __init__(self, max_list_bytes: int, compression: ResponseCompression | None = None) -> None:
        self._max_list_bytes = max_list_bytes
        self._compression = compression

    def __call__(self, headers: HeaderList) -> RequestHead:
        """Return the parsed headers, or a head that says how to refuse the request.

        Raises:
            MalformedRequestError: They break the rules of HTTP/2.
        """
        pseudo, regular = _split(headers)
        head = RequestHead(pseudo[b":path"])
        try:
            self._parse(head, pseudo, headers, regular)
        except _RefusedError as refused:
            head.refusal = refused.block
        return head

    def _parse(
        self,
        head: RequestHead,
        pseudo: dict[bytes, bytes],
        headers: HeaderList,
        regular: HeaderList,
    ) -> None:
        size = list_bytes(headers)
        if size > self._max_list_bytes:
            raise _RefusedError(
                trailers_only(
                    RESOURCE_EXHAUSTED,
                    f"received metadata size exceeds limit ({size} vs. {self._max_list_bytes})",
                )
            )
        if pseudo[b":method"] != b"POST":
            raise _RefusedError(_NOT_POST)
        named = dict(regular)
        if not _is_grpc(named.get(b"content-type", b"")):
            raise _RefusedError(_NOT_GRPC)
        timeout = named.get(b"grpc-timeout")
        if timeout is not None:
            head.timeout_ns = _timeout_ns(timeout)
        head.encoding = _encoding(named.get(b"grpc-encoding", b"identity"))
        if self._compression is not None:
            accepted = named.get(b"grpc-accept-encoding", b"")
            head.coding = self._compression.choose(head.path, accepted)
        length = named.get(b"content-length")
        if length is not None:
            head.body_bytes = _body_bytes(length)
        head.metadata = tuple(_metadatum(*item) for item in regular if item[0] not in _CONSUMED)


def _split(headers: HeaderList) -> tuple[dict[bytes, bytes], HeaderList]:
    pseudo: dict[bytes, bytes] = {}
    regular: HeaderList = []
    for name, value in headers:
        if _NOT_IN_VALUES.search(value) is not None:
            raise MalformedRequestError(f"value of header {name!r} has a control character")
        if name[:1] == b":":
            if regular or name in pseudo or name not in _PSEUDO:
                raise MalformedRequestError(f"misplaced pseudo header {name!r}")
            pseudo[name] = value
        elif _NAME.fullmatch(name) is None:
            raise MalformedRequestError(f"header name {name!r} is no token in lower case")
        elif name in _CONNECTION_SPECIFIC:
            raise MalformedRequestError(f"connection-specific header {name!r}")
        else:
            regular.append((bytes(name), bytes(value)))
    for name in _REQUIRED:
        if not pseudo.get(name):
            raise MalformedRequestError(f"pseudo header {name!r} is missing")
    return pseudo, regular


def _body_bytes(text: bytes) -> int:
    if not text.isdigit() or len(text) > _MAX_LENGTH_DIGITS:
        raise MalformedRequestError(f"content-length {text!r} is not a number")
    return int(text)


def _is_grpc(content_type: bytes) -> bool:
    return content_type.startswith(_CONTENT_TYPE) and content_type[len(_CONTENT_TYPE) :][:1] in (
        b"",
        b"+",
        b";",
        b" ",
    )


def _timeout_ns(text: bytes) -> int:
    digits = text[:-1]
    unit_ns = _TIMEOUT_UNIT_NS.get(text[-1]) if text else None
    if unit_ns is None or not digits.isdigit() or len(digits) > _MAX_TIMEOUT_DIGITS:
        raise _RefusedError(trailers_only(INTERNAL, "Error parsing 'grpc-timeout' metadata"))
    return int(digits) * unit_ns


def _encoding(name: bytes) -> bytes | None:
    if name == b"identity":
        return None
    if name not in DECOMPRESSORS:
        shown = name.decode("utf-8", "replace")
        raise _RefusedError(
            trailers_only(
                UNIMPLEMENTED,
                f"Compression algorithm '{shown}' is not supported, expected identity, deflate or"
                " gzip",
            )
        )
    return name


def _metadatum(name: bytes, value: bytes) -> tuple[bytes, bytes]:
    if not name.endswith(b"-bin"):
        return name, value
    try:
        # Padding is optional on the wire; a list of values is for the service to split.
        return name, base64.b64decode(value + b"=" * (-len(value) % 4), validate=True)
    except binascii.Error:
        shown = name.decode("utf-8", "replace")
        raise _RefusedError(
            trailers_only(INTERNAL, f"Error parsing '{shown}' metadata: illegal base64 encoding")
        ) from None
