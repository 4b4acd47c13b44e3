# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
import hpack
import pytest

from deployments.grpc.rpc.request_head import HeadParser, RequestHead
from deployments.http2.errors import MalformedRequestError
from tests.support.http2_peer import request

parse = HeadParser(16 << 10)


def _refusal(head: RequestHead) -> dict[bytes, bytes]:
    assert head.refusal is not None
    return dict(hpack.Decoder().decode(head.refusal, raw=True))


def test_metadata_has_neither_pseudo_headers_nor_those_of_the_transport() -> None:
    head = parse(request(grpc_timeout=b"1S", grpc_encoding=b"gzip", key=b"value"))
    assert head.refusal is None
    assert head.path == b"/test.Service/Echo"
    assert head.metadata == ((b"key", b"value"),)
    assert head.encoding == b"gzip"


@pytest.mark.parametrize(
    ("text", "timeout_ns"),
    [(b"1H", 3_600 * 10**9), (b"2M", 120 * 10**9), (b"3S", 3 * 10**9), (b"4m", 4 * 10**6),
     (b"5u", 5_000), (b"6n", 6), (b"99999999m", 99_999_999 * 10**6), (b"0n", 0)],
)  # fmt: skip
def test_timeouts_have_units(text: bytes, timeout_ns: int) -> None:
    assert parse(request(grpc_timeout=text)).timeout_ns == timeout_ns


@pytest.mark.parametrize("text", [b"", b"S", b"1", b"1x", b"-1S", b"123456789S", b"1.5S"])
def test_a_bad_timeout_is_refused(text: bytes) -> None:
    refusal = _refusal(parse(request(grpc_timeout=text)))
    assert refusal[b"grpc-status"] == b"13"
    assert refusal[b"grpc-message"] == b"Error parsing 'grpc-timeout' metadata"


@pytest.mark.parametrize(
    "content_type", [b"application/grpc", b"application/grpc+proto", b"application/grpc;a=b"]
)
def test_grpc_content_types_are_accepted(content_type: bytes) -> None:
    assert parse(request(content_type=content_type)).refusal is None


@pytest.mark.parametrize("content_type", [None, b"", b"text/plain", b"application/grpc-web"])
def test_other_content_types_are_415(content_type: bytes | None) -> None:
    assert _refusal(parse(request(content_type=content_type)))[b":status"] == b"415"


def test_a_method_other_than_post_is_405() -> None:
    assert _refusal(parse(request(method=b"GET")))[b":status"] == b"405"


def test_te_is_not_required() -> None:
    assert parse(request(te=None)).refusal is None


def test_an_unknown_encoding_is_unimplemented_and_names_the_known_ones() -> None:
    refusal = _refusal(parse(request(grpc_encoding=b"snappy")))
    assert refusal[b"grpc-status"] == b"12"
    assert refusal[b"grpc-accept-encoding"] == b"identity,deflate,gzip"


def test_binary_metadata_is_decoded_with_or_without_padding() -> None:
    head = parse([*request(a_bin=b"AQ=="), (b"b-bin", b"AQ")])
    assert head.metadata == ((b"a-bin", b"\x01"), (b"b-bin", b"\x01"))


def test_broken_binary_metadata_is_refused_with_grpcios_text() -> None:
    refusal = _refusal(parse(request(a_bin=b"?")))
    assert refusal[b"grpc-message"] == b"Error parsing 'a-bin' metadata: illegal base64 encoding"


def test_headers_over_the_limit_are_resource_exhausted() -> None:
    assert _refusal(parse(request(big=b"x" * 20_000)))[b"grpc-status"] == b"8"


@pytest.mark.parametrize(
    "headers",
    [
        [],
        request(path=None),
        request(path=b""),
        request(method=None),
        request(scheme=None),
        [*request(), (b":path", b"/again")],
        [*request(), (b":authority", b"late")],
        [(b":unknown", b"x"), *request()],
        [*request(), (b"Upper", b"x")],
        [*request(), (b"", b"x")],
        [*request(), (b"connection", b"close")],
        [*request(), (b"transfer-encoding", b"chunked")],
    ],
)
def test_headers_against_the_rules_of_http2_are_malformed(headers) -> None:
    with pytest.raises(MalformedRequestError):
        parse(headers)


@pytest.mark.parametrize(
    "header",
    [
        (b"x", b"a\r\nb: 1"),
        (b"x", b"a\nb"),
        (b"x", b"a\0b"),
        (b"x\r\ny", b"1"),
        (b"a:b", b"1"),
        (b"a b", b"1"),
        (b"", b"1"),
        (b"content-length", b"-1"),
        (b"content-length", b"9" * 19),
    ],
)
def test_what_no_header_may_be_is_malformed(header: tuple[bytes, bytes]) -> None:
    with pytest.raises(MalformedRequestError):
        parse([*request(), header])


def test_a_length_of_the_body_is_kept() -> None:
    assert parse(request()).body_bytes == -1
    assert parse([*request(), (b"content-length", b"12")]).body_bytes == 12
