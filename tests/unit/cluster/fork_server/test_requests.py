# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""What a client asks for arrives as it was, and what is no request is refused."""

import socket
import threading
from collections.abc import Iterator, Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cluster.fork_server import client
from cluster.fork_server.requests import (
    ANSWER,
    HEADER,
    MOST_BYTES,
    REFUSED,
    Request,
    RequestError,
    body_bytes,
    decoded,
    script_of,
)
from tests.support.examples import examples

TEXTS = st.binary(max_size=30).map(lambda each: each.replace(b"\0", b""))
NAMES = TEXTS.map(lambda each: each.replace(b"=", b"")).filter(bool)
REQUESTS = st.builds(
    Request, TEXTS, st.lists(TEXTS, min_size=1, max_size=8), st.dictionaries(NAMES, TEXTS)
)
PLAIN = Request(b"/", [b"python", b"/default_worker.py"], {b"A": b"=1=", b"B": b""})


def parts(encoded: bytes) -> tuple[bytes, bytes]:
    return encoded[: HEADER.size], encoded[HEADER.size :]


@settings(max_examples=examples(300))
@given(REQUESTS)
def test_a_request_arrives_as_it_was(request: Request) -> None:
    header, body = parts(request.encoded())
    assert body_bytes(header) == len(body)
    assert decoded(header, body) == request


@settings(max_examples=examples(300))
@given(REQUESTS, st.data())
def test_a_request_that_is_cut_short_is_refused(request: Request, data: st.DataObject) -> None:
    header, body = parts(request.encoded())
    end = data.draw(st.integers(0, len(body) - 1))
    with pytest.raises(RequestError):
        decoded(header, body[:end])
    # Also one that says so, unless the end is one of a text and the numbers are right.
    with pytest.raises(RequestError):
        decoded(HEADER.pack(end, *HEADER.unpack(header)[1:]), body[:end])


@settings(max_examples=examples(300))
@given(st.binary(max_size=60), st.integers(0, 5), st.integers(0, 5))
def test_any_other_bytes_are_refused_or_a_request(body: bytes, words: int, pairs: int) -> None:
    try:
        found = decoded(HEADER.pack(len(body), words, pairs), body)
    except RequestError:
        return
    assert len(found.arguments) == words
    assert b"" not in found.environment


@pytest.mark.parametrize(("words", "pairs"), [(1, 2), (3, 2), (2, 1), (2, 3), (0, 4), (4, 0)])
def test_other_numbers_of_texts_are_refused_or_read_by_the_numbers(words: int, pairs: int) -> None:
    _, body = parts(PLAIN.encoded())
    header = HEADER.pack(len(body), words, pairs)
    if words + pairs == 4 and words:
        assert len(decoded(header, body).arguments) == words
    else:
        with pytest.raises(RequestError):
            decoded(header, body)


@pytest.mark.parametrize("header", [b"", b"x", HEADER.pack(1, 1, 1)[:-1], b"GET / HTTP/1.1\r\n"])
def test_what_is_no_header_is_refused(header: bytes) -> None:
    with pytest.raises(RequestError, match=f"a header of {len(header)} bytes"):
        body_bytes(header)


def test_a_request_that_is_too_large_is_refused_before_it_is_read() -> None:
    assert body_bytes(HEADER.pack(MOST_BYTES, 1, 1)) == MOST_BYTES
    with pytest.raises(RequestError, match=f"the most are {MOST_BYTES}"):
        body_bytes(HEADER.pack(MOST_BYTES + 1, 1, 1))


@pytest.mark.parametrize(
    ("words", "script"),
    [
        (["python", "/a/default_worker.py", "--x"], "/a/default_worker.py"),
        (["python", "-u", "/a/agent.py"], "/a/agent.py"),
        (["python", "-m", "module.py"], ""),
        (["python", "-u"], ""),
        (["python"], ""),
        (["python", "-c", "pass"], ""),
        (["python", "/a/\udcff.py"], "/a/\udcff.py"),
    ],
)
def test_only_a_command_line_that_runs_a_file_has_a_script(
    words: Sequence[str], script: str
) -> None:
    assert script_of([each.encode(errors="surrogateescape") for each in words]) == script


@pytest.fixture
def listener(tmp_path) -> Iterator[socket.socket]:
    with socket.socket(socket.AF_UNIX) as made:
        made.bind(str(tmp_path / "s"))
        made.listen()
        yield made


@pytest.mark.parametrize(
    ("answer", "is_there"),
    [(ANSWER.pack(7), True), (ANSWER.pack(REFUSED), False), (b"\1", False), (b"", False)],
)
def test_the_script_that_stands_for_the_compiled_client_writes_a_request(
    listener: socket.socket,
    tmp_path,
    monkeypatch: pytest.MonkeyPatch,
    answer: bytes,
    is_there: bool,
) -> None:
    found: list[Request] = []

    def serve() -> None:
        connection, _ = listener.accept()
        with connection:
            header, descriptors, _, _ = socket.recv_fds(connection, HEADER.size, 3)
            for each in descriptors:
                socket.close(each)
            body = connection.recv(body_bytes(header), socket.MSG_WAITALL)
            found.append(decoded(header, body))
            connection.sendall(answer)

    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("WITH_EQUALS", "a=b=\udcff")
    thread = threading.Thread(target=serve)
    thread.start()
    assert client.is_handed_over(str(tmp_path / "s"), [b"client", b"x.py"]) is is_there
    thread.join()
    (request,) = found
    assert (request.folder, request.arguments) == (bytes(tmp_path), [b"client", b"x.py"])
    assert request.environment[b"WITH_EQUALS"] == b"a=b=\xff"


def test_nobody_at_the_socket_means_that_nothing_was_handed_over(tmp_path) -> None:
    assert not client.is_handed_over(str(tmp_path / "none"), [b"client", b"x.py"])
