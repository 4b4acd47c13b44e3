# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Good HTTP requests with something changed, some with credentials, pipelined.

Nineteen of twenty keep their framing, so that each has an answer; the twentieth is changed anywhere
and has a connection of its own.
"""

import itertools
import json
import random
import time
from collections.abc import Iterator
from typing import Final

from tests.attack.scene import Scene
from tests.attack.tally import Tally
from tests.attack.wire import (
    CLOSED,
    Connection,
    all_answers,
    batches,
    infer_document,
    last_words,
    request,
)
from tests.fuzz.targets import TARGETS
from tests.unit.test_fuzz import _EDGES, _TEXTS

# Fewer than the server reads ahead on a connection.
_BATCH: Final = 24
_RAW_EVERY: Final = 20
_CONNECTIONS: Final = 4

# Method, path, body. None of them changes what the server serves, with credentials either.
_SEEDS: Final[tuple[tuple[str, bytes, bytes], ...]] = (
    ("POST", b"/v2/models/add_sub/infer", json.dumps(infer_document()).encode()),
    ("POST", b"/v2/models/add_sub/versions/1/infer", json.dumps(infer_document()).encode()),
    ("POST", b"/v2/models/add_sub/generate", b'{"INPUT0": [1, 2], "INPUT1": "x"}'),
    ("POST", b"/v2/models/add_sub/generate_stream", b'{"INPUT0": 1}'),
    ("POST", b"/v2/repository/index", b'{"ready": true}'),
    ("POST", b"/v2/repository/models/no_such/load", b'{"parameters": {"config": "{}"}}'),
    ("POST", b"/v2/repository/models/no_such/unload", b'{"parameters": {"unload_dependents": 1}}'),
    ("POST", b"/v2/systemsharedmemory/region/r/register", b'{"key": "/none", "byte_size": 64}'),
    ("POST", b"/v2/cudasharedmemory/region/r/register", b'{"raw_handle": {"b64": "AA=="}}'),
    ("POST", b"/v2/systemsharedmemory/region/r/unregister", b""),
    ("GET", b"/v2/models/add_sub", b""),
    ("GET", b"/v2/models/add_sub/config", b""),
    ("GET", b"/v2/models/add_sub/stats", b""),
    ("GET", b"/v2/models/add_sub/ready", b""),
    ("GET", b"/v2/health/ready?x=1", b""),
    ("GET", b"/v2/systemsharedmemory/status", b""),
    ("GET", b"/v2/logging", b""),
    ("GET", b"/v2/trace/setting", b""),
)
_BINARY: Final = next(
    seed for seed in TARGETS["infer_body"].seeds if int.from_bytes(seed[:2], "big")
)
# Of a request line; anything else in it ends the connection.
_IN_PATHS: Final = frozenset(range(0x21, 0x7F))


def fuzz_http(scene: Scene, tally: Tally) -> None:
    """Send half of the requests that the options ask for."""
    count = scene.options.requests // 2
    end_s = time.monotonic() + scene.options.fuzz_s / 2
    connections = [Connection(scene.server.http) for _ in range(_CONNECTIONS)]
    requests = itertools.islice(_requests(scene), count - count // _RAW_EVERY)
    for at, batch in enumerate(batches(requests, _BATCH)):
        if time.monotonic() > end_s:
            break
        answers = connections[at % _CONNECTIONS].pipeline(batch)
        for sent, answer in zip(batch, answers, strict=True):
            if answer is CLOSED:
                # One before it was taken for malformed, which ends the connection.
                tally.note("closed")
            else:
                tally.check_answer(answer.status, answer.body, repr(sent[:300]))
        for _ in range(len(batch) // _RAW_EVERY + 1):
            _throw(scene, tally)
    for each in connections:
        each.close()


def _throw(scene: Scene, tally: Tally) -> None:
    method, path, body = scene.rng.choice(_SEEDS)
    sent = mutated(scene.rng, request(method, path, body, (b"Connection: close",)))
    received = last_words(scene.server.http, sent)
    for answer in all_answers(received):
        tally.check_answer(answer.status, answer.body, repr(sent[:300]))
    if not received:
        tally.note("closed")


def _requests(scene: Scene) -> Iterator[bytes]:
    rng = scene.rng
    while True:
        headers = [(), (scene.credential,), (b"x-attack-secret: wrong",)][rng.randrange(3)]
        if rng.random() < 0.2:
            body = mutated(rng, _BINARY)
            length = b"Inference-Header-Content-Length: %d" % int.from_bytes(body[:2], "big")
            path = b"/v2/models/add_sub/infer"
            yield request("POST", path, body[2:], (*headers, length))
            continue
        method, path, body = rng.choice(_SEEDS)
        if rng.random() < 0.2:
            path = b"/" + bytes(byte for byte in mutated(rng, path)[1:] if byte in _IN_PATHS)
        else:
            body = mutated(rng, body)
        yield request(method, path, body, headers)


def mutated(rng: random.Random, seed: bytes) -> bytes:
    """Return a seed with up to four pieces replaced."""
    data = bytearray(seed)
    for _ in range(rng.randrange(1, 5)):
        at = rng.randrange(len(data) + 1)
        size = rng.choice((0, 0, 1, 1, 2, 4, 8, 40))
        kind = rng.random()
        if kind < 0.3:
            piece = rng.randbytes(rng.randrange(12))
        elif kind < 0.6:
            piece = rng.choice(_EDGES)
        elif kind < 0.9:
            piece = rng.choice(_TEXTS) * rng.choice((1, 1, 1, 2, 100))
        else:
            piece = bytes(data[at : at + 40]) * 2
        data[at : at + size] = piece
    return bytes(data)
