# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0

"""A connection of HTTP/2 as a server sees it, frame by frame, without a network."""

import asyncio
import struct

import pytest
from hpack import Decoder, Encoder
from hypothesis import given
from hypothesis import strategies as st

from manta_tools.perf.clients import http2_frames as h2
from manta_tools.perf.clients.http2_connection import UNAVAILABLE, Call, Http2Connection


class Wire:
    """A transport that keeps what is written."""

    def __init__(self):
        self.written = bytearray()
        self.is_closed = False

    def write(self, data):
        self.written += data

    def is_closing(self):
        return self.is_closed

    def close(self):
        self.is_closed = True


class Peer:
    def __init__(self):
        self.wire = Wire()
        self.refused = []
        self.connection = Http2Connection(
            lambda: 5, h2.HeaderReader(), lambda: None, self.refused.append
        )
        self.connection.connection_made(self.wire)
        assert self.wire.written.startswith(h2.PREFACE)
        self.frames()
        self.messages, self.ends = [], []

    def frames(self):
        """What was written since the last call."""
        data = bytes(self.wire.written).removeprefix(h2.PREFACE)
        self.wire.written.clear()
        found = []
        while data:
            high, low, kind, flags, stream_id = struct.unpack_from(">BHBBI", data)
            end = 9 + (high << 16 | low)
            found.append((kind, flags, stream_id, data[9:end]))
            data = data[end:]
        return found

    def gives(self, *frames):
        self.connection.data_received(b"".join(frames))

    def call(self, body=b"\x00\x00\x00\x00\x01a", *, is_last=True):
        call = Call(lambda _, raw: self.messages.append(raw), lambda *end: self.ends.append(end))
        self.connection.begin(call, h2.header_block([(":path", "/x")]), body, is_last=is_last)
        return call


def block(*fields):
    encoder = Encoder()
    encoder.header_table_size = 0
    return encoder.encode(fields)


OPENING = h2.frame(h2.SETTINGS, 0, 0)
HEADERS = h2.frame(h2.HEADERS, h2.END_HEADERS, 1, block((":status", "200")))
TRAILERS = h2.frame(h2.HEADERS, h2.END_HEADERS | h2.END_STREAM, 1, block(("grpc-status", "0")))


@pytest.fixture
async def peer():
    return Peer()


@given(st.lists(st.tuples(st.text("abc-", min_size=1), st.text(max_size=400)), max_size=5))
def test_header_blocks_are_those_that_hpack_reads(fields):
    decoded = Decoder(max_header_list_size=1 << 20).decode(h2.header_block(fields), raw=True)
    assert [(name.decode(), value.decode()) for name, value in decoded] == fields


async def test_a_call_is_headers_data_and_a_message_and_a_status_come_back(peer):
    peer.call()
    (kind, _, stream_id, _), data = peer.frames()
    assert (kind, stream_id) == (h2.HEADERS, 1)
    assert data == (h2.DATA, h2.END_STREAM, 1, b"\x00\x00\x00\x00\x01a")
    peer.gives(OPENING, HEADERS, h2.frame(h2.DATA, 0, 1, h2.message(b"answer")), TRAILERS)
    assert peer.messages == [b"answer"]
    assert peer.ends == [(0, "")]


@given(st.lists(st.binary(max_size=40), max_size=5), st.data())
def test_messages_may_be_cut_anywhere(messages, data):
    async def run():
        peer = Peer()
        peer.call()
        body = b"".join(map(h2.message, messages))
        cut = data.draw(st.integers(0, len(body)))
        parts = (h2.frame(h2.DATA, 0, 1, body[:cut]), h2.frame(h2.DATA, 0, 1, body[cut:]))
        stream = OPENING + HEADERS + b"".join(parts) + TRAILERS
        size = data.draw(st.integers(1, len(stream)))
        for start in range(0, len(stream), size):
            peer.connection.data_received(stream[start : start + size])
        assert peer.messages == messages
        assert peer.ends == [(0, "")]

    asyncio.run(run())


async def test_a_refusal_without_a_message_is_its_status(peer):
    peer.call()
    fields = ((":status", "200"), ("grpc-status", "5"), ("grpc-message", "no%20model"))
    peer.gives(h2.frame(h2.HEADERS, h2.END_HEADERS | h2.END_STREAM, 1, block(*fields)))
    assert peer.ends == [(5, "no model")]


def refusal(stream_id):
    return h2.frame(h2.RST_STREAM, 0, stream_id, struct.pack(">I", h2.REFUSED_STREAM))


async def test_a_call_that_the_server_has_no_room_for_is_told_to_be_sent_again(peer):
    peer.gives(OPENING)
    first, second = peer.call(), peer.call()
    second.request = (b"", b"")
    peer.gives(refusal(second.id))
    assert peer.refused == [second]
    assert not peer.ends
    # Until the other call has ended the connection takes none.
    assert not peer.connection.has_room
    peer.gives(HEADERS, TRAILERS)
    assert peer.ends == [(0, "")]
    assert first.id == 1
    assert peer.connection.has_room


async def test_a_stream_that_the_server_has_no_room_for_is_an_error(peer):
    call = peer.call(is_last=False)
    peer.gives(refusal(call.id))
    assert not peer.refused
    assert peer.ends == [(UNAVAILABLE, "the server reset the call with code 7")]


async def test_a_call_that_is_refused_again_and_again_is_an_error(peer):
    peer.gives(OPENING)
    call = peer.call()
    while not peer.ends:
        call.request = (b"", b"")
        peer.gives(refusal(call.id))
        if peer.refused:
            peer.refused.clear()
            peer.connection.begin(call, b"", b"", is_last=True)
    assert call.refusals == 100


async def test_an_answer_that_is_not_grpc_is_named(peer):
    peer.call()
    peer.gives(h2.frame(h2.HEADERS, h2.END_HEADERS, 1, block((":status", "404"))))
    assert peer.ends == [(2, "the server answered HTTP 404")]


async def test_headers_may_go_on_in_another_frame(peer):
    peer.call()
    whole = block(("grpc-status", "0"))
    peer.gives(
        h2.frame(h2.HEADERS, h2.END_STREAM, 1, whole[:3]),
        h2.frame(h2.CONTINUATION, h2.END_HEADERS, 1, whole[3:]),
    )
    assert peer.ends == [(0, "")]


async def test_padding_is_no_data(peer):
    peer.call()
    padded = b"\x03" + h2.message(b"x") + b"\x00" * 3
    peer.gives(HEADERS, h2.frame(h2.DATA, h2.PADDED, 1, padded), TRAILERS)
    assert peer.messages == [b"x"]


async def test_pings_and_settings_are_acknowledged(peer):
    peer.gives(OPENING, h2.frame(h2.PING, 0, 0, b"12345678"))
    assert peer.frames() == [
        (h2.SETTINGS, h2.ACK, 0, b""),
        (h2.PING, h2.ACK, 0, b"12345678"),
    ]
    assert peer.connection.ready.done()


async def test_what_is_larger_than_the_window_waits_for_it(peer):
    body = bytes(100_000)
    call = peer.call(body)
    sent = [frame for frame in peer.frames() if frame[0] == h2.DATA]
    assert sum(len(payload) for *_, payload in sent) == h2.DEFAULT_WINDOW
    assert max(len(payload) for *_, payload in sent) <= h2.DEFAULT_FRAME_BYTES
    peer.gives(h2.window_update(0, 100_000))
    assert peer.frames() == []
    peer.gives(h2.window_update(call.id, 100_000))
    rest = peer.frames()
    assert sum(len(payload) for *_, payload in rest) == 100_000 - h2.DEFAULT_WINDOW
    assert [flags for _, flags, _, _ in rest] == [0, 0, h2.END_STREAM]


async def test_a_window_that_settings_change_counts_for_calls_under_way(peer):
    peer.call(bytes(70_000))
    peer.frames()
    settings = struct.pack(">HI", h2.INITIAL_WINDOW_SIZE, 100_000)
    peer.gives(h2.window_update(0, 100_000), h2.frame(h2.SETTINGS, 0, 0, settings))
    sent = [frame for frame in peer.frames() if frame[0] == h2.DATA]
    assert sum(len(payload) for *_, payload in sent) == 70_000 - h2.DEFAULT_WINDOW


async def test_calls_have_room_up_to_the_server_s_limit(peer):
    peer.gives(h2.frame(h2.SETTINGS, 0, 0, struct.pack(">HI", h2.MAX_CONCURRENT_STREAMS, 2)))
    peer.call()
    assert peer.connection.has_room
    peer.call()
    assert not peer.connection.has_room
    peer.gives(HEADERS, TRAILERS)
    assert peer.connection.has_room


async def test_a_call_that_is_reset_has_failed(peer):
    peer.call()
    peer.gives(h2.frame(h2.RST_STREAM, 0, 1, struct.pack(">I", 7)))
    assert peer.ends == [(UNAVAILABLE, "the server reset the call with code 7")]


async def test_a_server_that_leaves_answers_what_it_has_taken(peer):
    peer.call()
    peer.call()
    peer.gives(h2.frame(h2.GOAWAY, 0, 0, struct.pack(">II", 1, 0)))
    assert peer.ends == [(UNAVAILABLE, "the server asked to leave")]
    assert not peer.connection.has_room
    peer.gives(HEADERS, TRAILERS)
    assert peer.ends[1] == (0, "")
    assert peer.wire.is_closed


async def test_a_lost_connection_ends_all_calls(peer):
    peer.call()
    peer.connection.connection_lost(None)
    assert peer.ends == [(UNAVAILABLE, "the connection was closed: by the server")]
    with pytest.raises(ConnectionError):
        await peer.connection.ready


async def test_a_call_that_ends_without_a_status_has_failed(peer):
    peer.call()
    peer.gives(HEADERS, h2.frame(h2.DATA, h2.END_STREAM, 1, h2.message(b"x")))
    assert peer.ends == [(UNAVAILABLE, "the call ended without a status")]


async def test_an_answer_that_is_compressed_unasked_is_refused(peer):
    peer.call()
    peer.gives(HEADERS, h2.frame(h2.DATA, 0, 1, h2.message(b"x", is_compressed=True)))
    assert peer.ends[0][0] == 12


@given(st.binary(max_size=60))
def test_any_bytes_are_frames_or_the_end_of_the_connection(data):
    async def run():
        peer = Peer()
        peer.call()
        peer.connection.data_received(data)
        peer.connection.connection_lost(None)
        assert len(peer.ends) == 1
        if peer.connection.ready.done():
            peer.connection.ready.exception()

    asyncio.run(run())
