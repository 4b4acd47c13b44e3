# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
import gzip
import zlib

import pytest

from backends.api.errors import InvalidArgumentError, TritonError, UnsupportedError
from deployments.http.codec.content_coding import choose, compress, decompress

PLAIN = b"some text " * 50


@pytest.mark.parametrize(
    ("encoding", "body"),
    [
        (b"", PLAIN),
        (b"identity", PLAIN),
        (b"gzip", gzip.compress(PLAIN, mtime=0)),
        (b"deflate", zlib.compress(PLAIN)),
        (b"gzip", zlib.compress(PLAIN)),
        (b"deflate", gzip.compress(PLAIN, mtime=0)),
    ],
)
def test_encoded_body_is_restored(encoding: bytes, body: bytes) -> None:
    assert bytes(decompress(encoding, memoryview(body), 1000)) == PLAIN


@pytest.mark.parametrize(
    ("encoding", "body", "error", "text"),
    [
        (b"br", PLAIN, UnsupportedError, "Unsupported compression type"),
        (b"gzip, deflate", PLAIN, UnsupportedError, "Unsupported compression type"),
        (b"gzip", b"", InvalidArgumentError, "nothing to be decompressed"),
        (b"gzip", PLAIN, InvalidArgumentError, "inconsistent stream state"),
        (
            b"gzip",
            gzip.compress(PLAIN, mtime=0)[:-12],
            InvalidArgumentError,
            "inconsistent stream state",
        ),
        (b"deflate", zlib.compress(PLAIN)[2:-4], InvalidArgumentError, "inconsistent stream state"),
        (
            b"gzip",
            gzip.compress(bytes(100000), mtime=0),
            InvalidArgumentError,
            "exceeds the maximum allowed",
        ),
    ],
)
def test_bad_body_is_refused(
    encoding: bytes, body: bytes, error: type[TritonError], text: str
) -> None:
    with pytest.raises(error, match=text):
        decompress(encoding, memoryview(body), 1000)


@pytest.mark.parametrize(
    ("accepted", "chosen"),
    [
        (b"gzip", b"gzip"),
        (b"deflate", b"deflate"),
        (b"gzip, deflate", b"gzip"),
        (b"gzip;", b""),
        (b"gzip;level=1", b""),
        (b"gzip ;q=1", b""),
        (b"gzip;q=0.5 ", b"gzip"),
        (b"gzip;q=", b""),
        (b"deflate, gzip", b"deflate"),
        (b"gzip;q=0.5, deflate;q=0.8", b"deflate"),
        (b"identity;q=0, gzip", b"gzip"),
        (b"br;q=1, gzip;q=0.1", b"gzip"),
        (b"deflate;q=0.5, *;q=0.1", b"deflate"),
        (b"identity", b""),
        (b"identity, gzip", b""),
        (b"gzip;q=0", b""),
        (b"gzip;q=x", b""),
        (b"GZIP", b""),
        (b"br", b""),
        (b"*", b""),
        (b"", b""),
    ],
)
def test_highest_quality_wins(accepted: bytes, chosen: bytes) -> None:
    assert choose(accepted) == chosen


@pytest.mark.parametrize(
    ("encoding", "restore"), [(b"gzip", gzip.decompress), (b"deflate", zlib.decompress)]
)
def test_parts_become_one_stream(encoding: bytes, restore: object) -> None:
    joined = b"".join(compress(encoding, [b"head", memoryview(PLAIN)]))
    assert restore(joined) == b"head" + PLAIN  # type: ignore[operator]
