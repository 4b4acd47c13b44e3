# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Reading from a store without holding in memory what comes."""

import errno
from pathlib import Path

import pytest

from backends.api.errors import UnavailableError
from cluster.repository.stores.credentials import Credentials
from cluster.repository.stores.errors import StatusError, TruncatedError
from cluster.repository.stores.fsspec_store import FsspecStore, Page
from cluster.repository.stores.location import parse_location
from cluster.repository.stores.retry import RetryPolicy
from deployments.model_files.contracts import FileChangedError, Write

CONTENT = bytes(range(200))


class Client:
    """A bucket of one file, whose connection breaks after some bytes, or that refuses."""

    def __init__(self, *breaks: int | Exception) -> None:
        self.breaks = list(breaks)
        self.asked: list[tuple[int, int]] = []

    def stream(
        self, key: str, offset_bytes: int, length_bytes: int, stamp: str, write: Write
    ) -> None:
        self.asked.append((offset_bytes, length_bytes))
        broken = self.breaks.pop(0) if self.breaks else length_bytes
        if isinstance(broken, Exception):
            raise broken
        end = offset_bytes + min(broken, length_bytes)
        for begin in range(offset_bytes, end, 7):
            write(CONTENT[begin : min(begin + 7, end)], begin)
        if broken < length_bytes:
            raise TruncatedError("the body ended before its time")

    def list_page(self, prefix: str, token: str) -> Page:
        return Page(())

    def look(self, key: str) -> None:
        return None

    def read(self, key: str, offset_bytes: int, length_bytes: int | None, stamp: str) -> bytes:
        raise AssertionError("it streams")

    def write(self, key: str, content: bytes | Path, *, if_absent: bool) -> None: ...

    def remove(self, key: str) -> None: ...

    def close(self) -> None: ...


def store_of(client: Client, attempts: int = 3) -> FsspecStore:
    credentials = Credentials({}, lambda _: ("", 0))
    policy = RetryPolicy(attempts=attempts, base_s=0.0, cap_s=0.0)
    location = parse_location("s3://bucket/m")
    return FsspecStore(location, lambda _at, _with: client, credentials, policy)


def streamed(store: FsspecStore) -> bytes:
    made = bytearray()

    def take(data: bytes, offset: int) -> None:
        assert offset == 10 + len(made)
        made.extend(data)

    assert store.stream("x", 10, 100, "stamp", take) == len(made)
    return bytes(made)


def test_what_was_cut_goes_on_where_it_was() -> None:
    client = Client(30, 50)
    assert streamed(store_of(client)) == CONTENT[10:110]
    assert client.asked == [(10, 100), (40, 70), (90, 20)]


def test_a_store_that_stays_away_is_an_error() -> None:
    with pytest.raises(UnavailableError, match="bucket/m/x"):
        streamed(store_of(Client(30, StatusError(503), StatusError(503))))


@pytest.mark.parametrize("status", [404, 412])
def test_another_file_in_its_place_is_noticed_also_between_attempts(status: int) -> None:
    with pytest.raises(FileChangedError):
        streamed(store_of(Client(30, StatusError(status))))


def test_a_full_disk_is_not_the_stores_fault() -> None:
    client = Client()

    def fail(_data: bytes, _offset: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with pytest.raises(OSError, match="No space") as caught:
        store_of(client).stream("x", 10, 100, "stamp", fail)
    assert caught.value.errno == errno.ENOSPC
    assert len(client.asked) == 1
