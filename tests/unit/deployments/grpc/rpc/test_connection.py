# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
import gc
import gzip
from itertools import pairwise
from urllib.parse import unquote

import hpack
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from deployments.grpc.rpc.call import GrpcCall
from deployments.grpc.rpc.status import percent_encoded, trailers
from deployments.http2 import frames
from deployments.http2.errors import ErrorCode
from deployments.http2.limits import Http2Limits
from deployments.http2.streams import Stream
from tests.support.examples import examples
from tests.support.http2_peer import (
    START,
    Client,
    call,
    data_frame,
    grpc_message,
    headers_frame,
    parse_frames,
    request,
)

S = 1_000_000_000


def _path(name: str) -> list[tuple[bytes, bytes]]:
    return request(path=f"/test.Service/{name}".encode())


def test_a_unary_call_is_answered_in_one_write() -> None:
    client = Client()
    client.send(call(1, b"hello"))
    [write] = client.raw()
    headers, data, end = parse_frames(bytes(write))
    assert client.headers(headers)[b":status"] == b"200"
    assert data.payload == grpc_message(b"hello")
    assert end.flags == frames.END_STREAM | frames.END_HEADERS
    assert client.headers(end) == {b"grpc-status": b"0"}
    assert client.grpc.inflight_count == 0
    assert client.wakes == 0


@pytest.mark.parametrize(
    ("length", "status"), [(9, b"13"), (10, b"0"), (11, b"13")], ids=["shorter", "right", "longer"]
)
def test_a_body_of_another_size_than_its_length_ends_the_call(length: int, status: bytes) -> None:
    client = Client()
    client.send(call(1, b"hello", [*request(), (b"content-length", b"%d" % length)]))
    end = client.received()[-1]
    assert client.headers(end)[b"grpc-status"] == status


def test_all_calls_of_a_read_are_answered_in_one_write() -> None:
    client = Client()
    client.send(b"".join(call(2 * number + 1, b"x") for number in range(50)))
    [write] = client.raw()
    assert len(parse_frames(bytes(write))) == 150


@pytest.mark.parametrize("piece_bytes", [1, 10])
def test_calls_fed_in_pieces_get_the_same_answers(piece_bytes: int) -> None:
    data = START + call(1, b"one") + call(3, b"") + call(5, b"x" * 5000, _path("Bidi"))
    whole, cut = Client(start=False), Client(start=False)
    whole.send(data)
    for at in range(0, len(data), piece_bytes):
        cut.send(data[at : at + piece_bytes])
    assert cut.received() == whole.received()


def test_an_answer_outside_of_a_read_wakes_the_transport() -> None:
    client = Client()
    client.send(call(1, b"", _path("Wait")))
    [rpc] = client.service.calls
    rpc.reply.complete([b"a", bytearray(b"b"), memoryview(b"c")])
    assert client.wakes == 1
    assert client.answer(1)[1] == grpc_message(b"abc")


def test_a_large_answer_is_sent_without_copying_it() -> None:
    client = Client()
    client.send(
        frames.settings({frames.MAX_FRAME_SIZE: 1 << 20, frames.INITIAL_WINDOW_SIZE: 1 << 20})
        + frames.window_update(0, 1 << 24)
    )
    client.received()
    client.send(call(1, b"", _path("Wait")))
    tensor = bytearray(100_000)
    client.service.calls[0].reply.complete([b"header", tensor])
    head, body, tail = client.raw()
    assert isinstance(body, memoryview)
    assert body.obj is tensor
    data = bytes(head) + bytes(body) + bytes(tail)
    assert parse_frames(data)[1].payload == grpc_message(b"header" + bytes(100_000))


@pytest.mark.parametrize("payload", [b"x", bytes(60_000)])
def test_a_smaller_header_table_of_the_peer_is_acknowledged_in_one_block(payload: bytes) -> None:
    client = Client(start=False)
    client.send(START + frames.settings({frames.HEADER_TABLE_SIZE: 0}))
    client.send(call(1, payload) + call(3, b"y"))
    blocks = [frame.payload for frame in client.received() if frame.kind == frames.HEADERS]
    assert [block[:1] == b"\x20" for block in blocks] == [True, False, False, False]
    decoder = hpack.Decoder()
    decoder.max_allowed_table_size = 0
    assert dict(decoder.decode(blocks[0], raw=True))[b":status"] == b"200"
    # Going down again needs no further word: the table is empty.
    client.send(frames.settings({frames.HEADER_TABLE_SIZE: 4096}))
    client.send(frames.settings({frames.HEADER_TABLE_SIZE: 100}) + call(5, b"z"))
    [block, _] = [frame.payload for frame in client.received() if frame.kind == frames.HEADERS]
    assert block[:1] == b"\x88"


def test_an_answer_over_the_window_continues_when_it_opens() -> None:
    client = Client()
    client.send(frames.settings({frames.INITIAL_WINDOW_SIZE: 10}))
    client.received()
    client.send(call(1, b"0123456789"))
    sent = client.received()
    assert [frame.kind for frame in sent] == [frames.HEADERS, frames.DATA]
    assert client.grpc.inflight_count == 1
    client.send(frames.window_update(1, 100))
    data, end = client.received()
    assert sent[1].payload + data.payload == grpc_message(b"0123456789")
    assert client.headers(end) == {b"grpc-status": b"0"}
    assert client.grpc.inflight_count == 0


def test_messages_of_a_stream_are_delivered_and_answered_one_by_one() -> None:
    client = Client()
    client.send(headers_frame(1, _path("Bidi")))
    client.send(data_frame(1, grpc_message(b"a") + grpc_message(b"b") + grpc_message(b"c")[:3]))
    assert client.answer(1) == (
        {
            b":status": b"200",
            b"content-type": b"application/grpc",
            b"grpc-accept-encoding": b"identity,deflate,gzip",
        },
        grpc_message(b"a") + grpc_message(b"b"),
    )
    client.send(data_frame(1, grpc_message(b"c")[3:], end=True))
    assert client.answer(1) == ({b"grpc-status": b"0"}, grpc_message(b"c"))


def test_an_unknown_method_is_unimplemented() -> None:
    client = Client()
    client.send(call(1, b"", _path("Unknown")))
    assert client.status(1) == (12, "")


def test_an_error_before_any_message_is_trailers_only() -> None:
    client = Client()
    client.send(call(1, b"", _path("Wait")))
    client.service.calls[0].reply.finish(5, "no 100% ünicorn\n")
    [frame] = client.received()
    assert frame.flags & frames.END_STREAM
    headers = client.headers(frame)
    assert headers[b":status"] == b"200"
    assert headers[b"grpc-message"] == b"no 100%25 %C3%BCnicorn%0A"


@given(st.text(max_size=100))
def test_details_survive_percent_encoding(details: str) -> None:
    encoded = percent_encoded(details)
    assert all(0x20 <= octet <= 0x7E for octet in encoded)
    assert unquote(encoded.decode()) == details.encode("utf-8", "replace").decode()


def test_details_too_long_for_a_header_are_cut_between_characters() -> None:
    block = trailers(13, "ü" * 10_000)
    details = dict(hpack.Decoder().decode(block, raw=True))[b"grpc-message"]
    assert 5000 < len(details) <= 6000
    assert set(unquote(details.decode())) == {"ü"}


def test_metadata_reaches_the_service() -> None:
    client = Client()
    client.send(call(1, b"", request(triton_grpc_protocol_key=b"secret")))
    assert client.service.calls[0].metadata == ((b"triton-grpc-protocol-key", b"secret"),)


def test_a_compressed_request_is_decompressed() -> None:
    client = Client()
    body = grpc_message(gzip.compress(b"text" * 100), compressed=True)
    client.send(headers_frame(1, request(grpc_encoding=b"gzip")) + data_frame(1, body, end=True))
    assert client.answer(1)[1] == grpc_message(b"text" * 100)


@pytest.mark.parametrize(
    ("body", "status"),
    [
        (b"\x01" + grpc_message(b"x")[1:], 13),
        (grpc_message(b"x" * 2000), 8),
        (grpc_message(b"x")[:-1], 13),
        (b"\0\0", 13),
    ],
)
def test_a_message_that_cannot_be_taken_ends_the_call(body: bytes, status: int) -> None:
    client = Client(Http2Limits(max_receive_message_bytes=1000))
    client.send(headers_frame(1) + data_frame(1, body, end=True))
    assert client.status(1)[0] == status
    [rpc] = client.service.calls
    assert (rpc.messages, rpc.half_closed_count, rpc.cancelled_count) == ([], 0, 1)


def test_a_call_past_its_deadline_is_cancelled_and_answered() -> None:
    client = Client()
    client.send(call(1, b"", [*_path("Wait"), (b"grpc-timeout", b"5S")]))
    assert client.timers == [client.now_ns + 5 * S]
    assert client.deadlines.expire(client.now_ns + 5 * S - 1) == client.now_ns + 5 * S
    assert client.received() == []
    assert client.deadlines.expire(client.now_ns + 5 * S) is None
    assert client.status(1) == (4, "Deadline Exceeded")
    [rpc] = client.service.calls
    assert rpc.cancelled_count == 1
    rpc.reply.complete(b"too late")
    rpc.reply.finish()
    assert client.received() == []


def test_a_deadline_of_nothing_has_passed() -> None:
    client = Client()
    client.send(headers_frame(1, [*_path("Wait"), (b"grpc-timeout", b"0n")], end=True))
    assert client.status(1)[0] == 4


def test_a_call_answered_in_time_does_not_expire() -> None:
    client = Client()
    client.send(call(1, b"x", request(grpc_timeout=b"5S")))
    assert client.status(1)[0] == 0
    assert client.deadlines.expire(client.now_ns + 9 * S) is None
    assert client.service.calls[0].cancelled_count == 0


def test_a_cancel_reaches_the_service_once() -> None:
    client = Client()
    client.send(call(1, b"", _path("Wait")))
    client.send(frames.rst_stream(1, ErrorCode.CANCEL))
    client.grpc.lost()
    [rpc] = client.service.calls
    assert rpc.cancelled_count == 1
    rpc.reply.send(b"x")
    rpc.reply.finish()
    assert client.received() == []


def test_a_lost_connection_cancels_all_calls() -> None:
    client = Client()
    client.send(b"".join(call(n, b"", _path("Wait")) for n in (1, 3, 5)))
    client.grpc.lost()
    assert [rpc.cancelled_count for rpc in client.service.calls] == [1, 1, 1]
    assert client.grpc.inflight_count == 0


def test_a_call_that_is_reset_in_the_read_that_ends_the_connection_is_cancelled() -> None:
    client = Client()
    client.send(call(1, b"x", _path("Wait")))
    # RST_STREAM, and then a HEADERS frame without a stream, which ends the connection.
    wrong = frames.frame(frames.HEADERS, 0, 0)
    client.send(frames.rst_stream(1, ErrorCode.CANCEL) + wrong)
    assert client.h2.lifecycle.terminated is not None
    assert client.service.calls[0].cancelled_count == 1
    assert client.budget.used_bytes == 0


def test_a_status_before_the_request_is_complete_stops_the_upload() -> None:
    client = Client()
    client.send(headers_frame(1, _path("Wait")) + data_frame(1, b"\0\0\0\x10\0part"))
    client.service.calls[0].reply.finish(3, "no")
    _, reset = client.received()
    assert (reset.kind, reset.payload) == (frames.RST_STREAM, bytes(4))
    client.send(data_frame(1, b"more"))
    assert client.received() == []
    assert client.grpc.received.held_bytes == 0


@pytest.mark.parametrize("name", ["Crash", "CrashAtStart"])
def test_a_bug_in_the_service_is_an_internal_error_of_one_call(
    name: str, caplog: pytest.LogCaptureFixture
) -> None:
    client = Client()
    client.send(call(1, b"x", _path(name)))
    assert client.status(1) == (13, "Internal error")
    assert "a bug" in caplog.text
    client.send(call(3, b"x"))
    assert client.status(3)[0] == 0


def test_the_status_follows_queued_messages() -> None:
    client = Client()
    client.send(headers_frame(1, _path("Wait")))
    reply = client.service.calls[0].reply
    reply.send(bytes(60_000))
    reply.send(bytes(60_000))
    reply.finish(13, "broke")
    first = client.received()
    assert not any(frame.flags & frames.END_STREAM for frame in first if frame.kind == 1)
    client.send(data_frame(1, b"", end=True))
    client.send(frames.window_update(0, 1 << 20) + frames.window_update(1, 1 << 20))
    rest = client.received()
    assert client.headers(first[0])
    assert client.headers(rest[-1])[b"grpc-status"] == b"13"
    data = b"".join(f.payload for f in first + rest if f.kind == frames.DATA)
    assert data == 2 * grpc_message(bytes(60_000))


def _send_through_a_buffer(client: Client, data: bytes, cuts: list[int]) -> None:
    """Send as the server reads: into a buffer that the next read overwrites, or into ``room``."""
    shared = bytearray(len(data))
    bounds = sorted({0, len(data), *(cut for cut in cuts if cut < len(data))})
    for start, end in pairwise(bounds):
        rest = memoryview(data)[start:end]
        while rest:
            room = client.grpc.room()
            place = memoryview(shared) if room is None else room
            size = min(len(rest), len(place))
            place[:size] = rest[:size]
            client.grpc.receive(place[:size], client.now_ns)
            shared[:] = b"\xee" * len(shared)
            rest = rest[size:]


@settings(max_examples=examples(60), deadline=None)
@given(
    st.lists(
        st.tuples(
            st.sampled_from(("Echo", "Bidi")),
            st.sampled_from((0, 1, 5000, 65_535, 65_536, 70_000, 400_000)),
            st.sampled_from((900, 16_384, 100_000, 1 << 20)),
        ),
        min_size=1,
        max_size=3,
    ),
    st.lists(st.integers(0, 600_000), max_size=12),
    st.booleans(),
)
def test_reads_into_a_buffer_mean_the_same_as_whole_ones(
    calls: list[tuple[str, int, int]], cuts: list[int], has_memory: bool
) -> None:
    data = START
    for number, (path, size, frame_bytes) in enumerate(calls):
        stream_id = 2 * number + 1
        body = grpc_message(bytes(range(256)) * (size // 256) + b"x" * (size % 256))
        data += headers_frame(stream_id, _path(path))
        for at in range(0, len(body), frame_bytes):
            part = body[at : at + frame_bytes]
            is_last = at + frame_bytes >= len(body)
            data += data_frame(stream_id, part, end=is_last, padding=at % 3 or None)
    whole, cut = Client(start=False), Client(start=False)
    cut.service.has_memory = has_memory
    whole.send(data)
    _send_through_a_buffer(cut, data, cuts)
    for mine, theirs in zip(cut.service.calls, whole.service.calls, strict=True):
        assert mine.messages == theirs.messages
        assert mine.half_closed_count == theirs.half_closed_count == 1
    assert [frame for frame in cut.received() if frame.kind != frames.WINDOW_UPDATE] == [
        frame for frame in whole.received() if frame.kind != frames.WINDOW_UPDATE
    ]


def test_a_large_message_is_received_into_the_services_memory() -> None:
    client = Client()
    body = grpc_message(b"x" * 400_000)
    client.send(headers_frame(1, _path("Echo")) + data_frame(1, body, end=True)[:100_000])
    room = client.grpc.room()
    assert room is not None
    assert client.service.allocated[0][:2] == (b"/test.Service/Echo", 400_000)
    assert len(room) == 400_000 - (100_000 - 9 - 5)
    room[:] = b"x" * len(room)
    client.grpc.receive(room, client.now_ns)
    assert client.service.calls[0].messages == [b"x" * 400_000]
    assert client.grpc.room() is None


def test_a_cancelled_call_has_no_room_for_the_rest_of_its_message() -> None:
    client = Client()
    body = data_frame(1, grpc_message(b"x" * 400_000), end=True)
    client.send(headers_frame(1, _path("Wait")) + body[:200_000])
    assert client.grpc.room() is not None
    client.service.calls[0].reply.finish(13, "enough")
    assert client.grpc.room() is None
    client.send(body[200_000:] + call(3, b"next"))
    assert client.answer(3)[1] == grpc_message(b"next")


def test_an_answered_call_leaves_nothing_to_the_collector() -> None:
    client = Client()
    gc.collect()
    gc.disable()
    try:
        client.send(call(1, b"x") + call(3, b"y" * 20_000) + headers_frame(5, end=True))
        client.received()
        client.service.calls.clear()
        # `isinstance` would ask the objects of other libraries for their class, and some warn.
        assert not [each for each in gc.get_objects() if type(each) in (GrpcCall, Stream)]
    finally:
        gc.enable()


def test_a_reply_knows_the_clients_deadline() -> None:
    client = Client()
    client.send(call(1, b"", [*_path("Wait"), (b"grpc-timeout", b"5S")]))
    client.send(headers_frame(3, _path("Wait")))
    replies = [each.reply for each in client.service.calls]
    assert [each.timeout_ns for each in replies] == [5_000_000_000, 0]


def test_an_error_says_when_trying_again_is_worth_while() -> None:
    client = Client()
    client.send(call(1, b"", _path("Wait")))
    client.service.calls[0].reply.finish(14, "busy", 0.2501)
    [frame] = client.received()
    assert client.headers(frame)[b"grpc-retry-pushback-ms"] == b"251"
