# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0

import itertools

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from manta_tools.perf.clients.http_answers import AnswerReader, EventReader


def with_length(body):
    return b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%b" % (len(body), body)


def in_chunks(parts, trailers=b""):
    chunks = b"".join(b"%x;x=y\r\n%b\r\n" % (len(part), part) for part in parts)
    return b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n%b0\r\n%b\r\n" % (
        chunks,
        trailers,
    )


def pieces(data, cuts):
    edges = [0, *sorted(cut % (len(data) + 1) for cut in cuts), len(data)]
    return [data[start:end] for start, end in itertools.pairwise(edges) if end > start]


CUTS = st.lists(st.integers(0, 10_000), max_size=8)


@given(st.lists(st.binary(max_size=50), min_size=1, max_size=4), CUTS)
def test_answers_with_a_length_may_be_cut_anywhere(bodies, cuts):
    reader, found = AnswerReader({}), []
    # A client has one request on a connection at a time.
    for body in bodies:
        ends = [reader.feed(piece) for piece in pieces(with_length(body), cuts)]
        assert ends[-1]
        found.append(reader.body)
        reader.restart()
    assert found == bodies


@given(
    st.lists(st.binary(min_size=1, max_size=50), max_size=6),
    st.sampled_from([b"", b"X-Sum: 1\r\n"]),
    CUTS,
)
def test_chunks_may_be_cut_anywhere(parts, trailers, cuts):
    reader, came = AnswerReader({}), []
    ends = [reader.feed(each, came.append) for each in pieces(in_chunks(parts, trailers), cuts)]
    assert ends[-1]
    assert came == parts
    assert reader.body == b"".join(parts)


# One that ends, and one of which the end has not come.
ACCEPTED = {with_length(b"body"), b"HTTP/1.1 200 OK\r\nContent-"}


@given(st.binary(max_size=200))
@example(with_length(b"body"))
@example(b"HTTP/1.1 200 OK\r\nContent-")
def test_any_bytes_are_an_answer_or_refused(data):
    reader = AnswerReader({})
    try:
        is_whole = reader.feed(data)
    except ValueError:
        assert data not in ACCEPTED
        return
    assert reader.head is not None or not is_whole


def test_a_head_without_an_end_is_refused():
    with pytest.raises(ValueError, match="too long"):
        AnswerReader({}).feed(b"x" * 70_000)


def test_a_chunk_without_a_length_is_refused():
    reader = AnswerReader({})
    with pytest.raises(ValueError, match="has no length"):
        reader.feed(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + b"1" * 5000)


@given(
    st.lists(
        st.text(st.characters(codec="utf-8", exclude_characters="\r\n"), max_size=9), max_size=5
    ),
    st.sampled_from(["\n", "\r\n"]),
    CUTS,
)
def test_events_may_be_cut_anywhere(texts, end, cuts):
    data = "".join(f": comment{end}event: x{end}data: {text}{end}{end}" for text in texts)
    reader = EventReader()
    events = [event for piece in pieces(data.encode(), cuts) for event in reader.feed(piece)]
    assert [event.decode() for event in events] == texts


def test_lines_of_data_are_one_event():
    assert EventReader().feed(b"data: a\ndata:b\n\n") == [b"a\nb"]
