# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
from contextlib import suppress

import hpack
import pytest
from hypothesis import given
from hypothesis import strategies as st

from deployments.http2.errors import ConnectionViolation, ErrorCode
from deployments.http2.header_blocks import BlockDecoder, HeaderList, encode_block
from deployments.http2.limits import Http2Limits
from tests.support.http2_peer import literal_block

Headers = st.lists(st.tuples(st.binary(min_size=1, max_size=20), st.binary(max_size=600)))


class Parsed:
    def __init__(self, headers: HeaderList) -> None:
        self.headers = headers


def _decoder(**limits: int) -> BlockDecoder[Parsed]:
    return BlockDecoder(Http2Limits(**limits), Parsed)


@given(Headers, st.sampled_from([None, 200, 415]))
def test_any_hpack_decoder_reads_our_blocks(headers: HeaderList, status: int | None) -> None:
    decoded = hpack.Decoder(1 << 30).decode(encode_block(headers, status=status), raw=True)
    expected = [] if status is None else [(b":status", b"%d" % status)]
    assert [tuple(header) for header in decoded] == expected + headers


@given(st.lists(st.lists(st.tuples(st.sampled_from([b"a", b"b"]), st.binary(max_size=2)))))
def test_decoding_with_the_cache_equals_decoding_without(requests: list[HeaderList]) -> None:
    encoder = hpack.Encoder()
    cached, plain = _decoder(), hpack.Decoder()
    for headers in requests:
        block = bytes(encoder.encode(headers))
        assert cached.decode(block).headers == [tuple(h) for h in plain.decode(block, raw=True)]


def test_a_repeated_block_is_decoded_once() -> None:
    decoder = _decoder()
    block = literal_block([(b"a", b"1")])
    assert decoder.decode(block) is decoder.decode(block)


def test_a_change_of_the_dynamic_table_empties_the_cache() -> None:
    decoder = _decoder()
    encoder = hpack.Encoder()
    decoder.decode(bytes(encoder.encode([(b"a", b"1")])))
    newest = b"\xbe"
    first = decoder.decode(newest)
    assert first.headers == [(b"a", b"1")]
    assert decoder.decode(newest) is first
    decoder.decode(bytes(encoder.encode([(b"b", b"2")])))
    assert decoder.decode(newest).headers == [(b"b", b"2")]


def test_a_table_size_update_empties_the_cache() -> None:
    decoder = _decoder()
    decoder.decode(bytes(hpack.Encoder().encode([(b"a", b"1")])))
    decoder.decode(b"\xbe")
    with pytest.raises(ConnectionViolation):
        decoder.decode(b"\x20\xbe")


def test_the_cache_is_bounded() -> None:
    decoder = _decoder(max_cached_blocks=8)
    for number in range(100):
        decoder.decode(literal_block([(b"a", b"%d" % number)]))
    assert len(decoder._cache) <= 8
    decoder.decode(literal_block([(b"big", b"x" * 2000)]))
    assert sum(map(len, decoder._cache)) < 1000


def test_an_hpack_bomb_ends_the_connection() -> None:
    decoder = _decoder(max_header_list_bytes=1000)
    decoder.decode(b"\x40\x01a\x7f\x81\x0f" + b"x" * 2048)
    with pytest.raises(ConnectionViolation) as caught:
        decoder.decode(b"\xbe" * 1000)
    assert caught.value.code is ErrorCode.ENHANCE_YOUR_CALM


@given(st.binary(max_size=100))
def test_garbage_is_a_compression_error_or_decodes(block: bytes) -> None:
    with suppress(ConnectionViolation):
        assert isinstance(_decoder().decode(block), Parsed)


def test_errors_and_logs_quote_no_header(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("DEBUG")
    decoder = _decoder()
    decoder.decode(literal_block([(b"key", b"secret")]))
    with pytest.raises(ConnectionViolation) as caught:
        decoder.decode(b"\0\x03key\x7fsecret")
    assert "secret" not in caught.value.message + caplog.text
