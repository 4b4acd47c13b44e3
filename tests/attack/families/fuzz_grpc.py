# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Good gRPC messages with something changed, a hundred calls on a connection at a time."""

import itertools
import time
from collections.abc import Iterator
from typing import Final

import hpack
from tritonclient.grpc import service_pb2

from deployments.http2 import frames
from tests.attack.families.fuzz_http import mutated
from tests.attack.grpc_wire import ended_calls
from tests.attack.scene import Scene
from tests.attack.tally import ALLOWED_CODES, BROKEN, Tally
from tests.attack.wire import batches
from tests.fuzz.targets import TARGETS
from tests.support import abuse
from tests.support.grpc_messages import add_sub_request, framed

_BATCH: Final = 100
_SERVICE: Final = b"/inference.GRPCInferenceService/"
_MOST_BYTES: Final = 16_000

# Method and message. None of them changes what the server serves, with credentials either.
_SEEDS: Final[tuple[tuple[bytes, bytes], ...]] = (
    *((b"ModelInfer", seed) for seed in TARGETS["grpc_request"].seeds),
    (b"ModelInfer", add_sub_request().SerializeToString()),
    (b"ModelStreamInfer", add_sub_request().SerializeToString()),
    (b"ModelMetadata", service_pb2.ModelMetadataRequest(name="add_sub").SerializeToString()),
    (b"ModelConfig", service_pb2.ModelConfigRequest(name="add_sub").SerializeToString()),
    (b"ModelStatistics", service_pb2.ModelStatisticsRequest(name="add_sub").SerializeToString()),
    (b"ModelReady", service_pb2.ModelReadyRequest(name="add_sub").SerializeToString()),
    (b"RepositoryIndex", service_pb2.RepositoryIndexRequest(ready=True).SerializeToString()),
    (
        b"RepositoryModelLoad",
        service_pb2.RepositoryModelLoadRequest(model_name="no_such").SerializeToString(),
    ),
    (
        b"SystemSharedMemoryRegister",
        service_pb2.SystemSharedMemoryRegisterRequest(
            name="r", key="/none", byte_size=64
        ).SerializeToString(),
    ),
    (b"SystemSharedMemoryStatus", b""),
    (b"TraceSetting", b""),
    (b"NoSuchMethod", b"x"),
)


def fuzz_grpc(scene: Scene, tally: Tally) -> None:
    """Send half of the requests that the options ask for."""
    count = scene.options.requests // 2
    end_s = time.monotonic() + scene.options.fuzz_s / 2
    for batch in batches(itertools.islice(_calls(scene), count), _BATCH):
        if time.monotonic() > end_s:
            break
        sent = abuse.START_WIDE + b"".join(_on_stream(call, at) for at, call in enumerate(batch))
        received = abuse.throw(scene.server.grpc, sent, until=_Ended(len(batch)))
        calls = ended_calls(received)
        tally.expect(len(calls) >= len(batch), f"{len(calls)} of {len(batch)} calls have ended")
        for call in calls.values():
            tally.note("reset" if call.code < 0 else f"code {call.code}")
            tally.expect(call.code in ALLOWED_CODES | {-1}, f"code {call.code}: {call.text}")
            tally.expect(
                not any(text.decode() in call.text for text in BROKEN), f"broken: {call.text}"
            )


class _Ended:
    """Whether a number of calls has ended; looks at the bytes only once there are more of them."""

    def __init__(self, count: int) -> None:
        self._count = count
        self._looked_bytes = 0

    def __call__(self, received: bytes) -> bool:
        if len(received) == self._looked_bytes:
            return False
        self._looked_bytes = len(received)
        return len(ended_calls(received)) >= self._count


def _calls(scene: Scene) -> Iterator[bytes]:
    """Yield calls as frames of stream 1."""
    rng = scene.rng
    wrong = (scene.metadata[0], b"wrong")
    blocks = {
        (method, who): _block(method, *who)
        for method, _ in _SEEDS
        for who in ((), (scene.metadata,), (wrong,))
    }
    choices = list(blocks)
    seeds: dict[bytes, list[bytes]] = {}
    for method, seed in _SEEDS:
        seeds.setdefault(method, []).append(seed)
    while True:
        method, who = rng.choice(choices)
        message = mutated(rng, rng.choice(seeds[method]))[:_MOST_BYTES]
        body = framed(message)
        if rng.random() < 0.05:
            body = mutated(rng, body[:5])[:9] + body[5:]
        end = abuse.data(1, body[:_MOST_BYTES], frames.END_STREAM)
        yield abuse.head(1, blocks[method, who]) + end


def _block(method: bytes, *extra: tuple[bytes, bytes]) -> bytes:
    headers = dict(abuse.GRPC_HEADERS) | {b":path": _SERVICE + method} | dict(extra)
    # Never into the table, so that blocks mean the same in any order.
    encoded = hpack.Encoder().encode([(*each, True) for each in headers.items()], huffman=False)
    return bytes(encoded)


def _on_stream(call: bytes, at: int) -> bytes:
    """Return the two frames of a call with another stream's number."""
    stream_id = (2 * at + 1).to_bytes(4, "big")
    size = int.from_bytes(call[:3], "big") + frames.HEADER_BYTES
    first, second = call[:size], call[size:]
    return first[:5] + stream_id + first[9:] + second[:5] + stream_id + second[9:]
