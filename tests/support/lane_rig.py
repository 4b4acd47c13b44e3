# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Lanes over real sockets: a scripted handler, sinks that can be awaited, and a raw peer."""

import asyncio
import contextlib
import itertools
import os
import ssl
from collections.abc import Awaitable, Callable
from concurrent.futures import Future
from typing import Any, cast

from backends.api.errors import TritonError
from backends.api.request import Extent, InferenceRequest, InferenceResponse, Tensor
from deployments.contracts.routing_table import InstanceEndpoint
from deployments.lane.client import LaneClient, LaneInflight
from deployments.lane.frames import FLAG_EXTENTS, INFER, PREFIX, SETUP, Frame, FrameReader
from deployments.lane.handshake import ClientHandshake, ServerHandshake
from deployments.lane.messages import DEFAULT_LIMITS, LaneLimits, Setup, decode_setup, encode
from deployments.lane.server import LaneServer, ServerRequest
from deployments.lane.server_lane import LaneHandler
from deployments.reactor.reactor import Reactor
from deployments.slabs.pool import SlabPool

SECRET = b"a secret of the cluster"
NO_SLABS_OFFERED = Setup()
_names = itertools.count()
Serve = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[object]]


def request_of(*sizes: int, fill: bytes = b"x", **fields: Any) -> InferenceRequest:
    inputs = [
        Tensor(f"INPUT{n}", "UINT8", (size,), memoryview(fill * size))
        for n, size in enumerate(sizes)
    ]
    return InferenceRequest("model", 1, inputs=inputs, **fields)


def response_of(*sizes: int) -> InferenceResponse:
    outputs = [
        Tensor(f"OUTPUT{n}", "UINT8", (size,), memoryview(b"y" * size))
        for n, size in enumerate(sizes)
    ]
    return InferenceResponse("model", "1", outputs=outputs)


async def until(condition: Callable[[], object]) -> None:
    """Run the loop until a condition holds; the test's own time limit bounds it."""
    while not condition():  # noqa: ASYNC110 - the conditions are many and have no events
        await asyncio.sleep(0)


class Handler:
    """Keeps what it receives; answer, when given, is applied to each request at once."""

    def __init__(self, answer: Callable[[ServerRequest], None] | None = None) -> None:
        self.answer = answer
        self.batches: list[int] = []
        self.requests: list[ServerRequest] = []
        self.cancels: list[ServerRequest] = []
        # Method, and how many requests had come before it.
        self.calls: list[tuple[str, int]] = []

    def received(self, requests: list[ServerRequest]) -> None:
        self.batches.append(len(requests))
        if self.answer is None:
            self.requests.extend(requests)
        else:
            for request in requests:
                self.answer(request)

    def cancelled(self, request: ServerRequest) -> None:
        self.cancels.append(request)

    def call(self, method: str, payload: bytes) -> bytes | Future[bytes]:
        self.calls.append((method, len(self.requests)))
        if method == "echo":
            return payload
        if method == "later":
            self.later: Future[bytes] = Future()
            return self.later
        raise KeyError(method)


def echo(request: ServerRequest) -> None:
    inputs = request.request.inputs
    request.respond(InferenceResponse("model", "1", request.request.id, inputs), final=True)


class Sink:
    """Notes every outcome; a terminal one beyond the first is an error of the lane."""

    def __init__(self) -> None:
        self.responses: list[InferenceResponse | None] = []
        self.error: TritonError | None = None
        self.ended = asyncio.get_running_loop().create_future()

    def respond(self, response: InferenceResponse | None, *, final: bool) -> None:
        assert not self.ended.done()
        self.responses.append(response)
        if final:
            self.ended.set_result(None)

    def fail(self, error: TritonError, *, final: bool = True) -> None:
        assert not self.ended.done()
        self.error = error
        if final:
            self.ended.set_result(None)


class Turning:
    """Turns a reactor between the ticks of the test's loop, so that all is on one thread."""

    def __init__(self, reactor: Reactor) -> None:
        self.reactor = reactor
        self.is_paused = False

    async def __aenter__(self) -> None:
        self._task = asyncio.create_task(self._turn())

    async def __aexit__(self, *_: object) -> None:
        if self._task.done():
            return
        self._task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await self._task
        self.reactor.turn(0)
        self.reactor.close()

    async def _turn(self) -> None:
        while True:
            if not self.is_paused:
                self.reactor.turn(0)
            await asyncio.sleep(0)


def inflight_count(server: LaneServer) -> int:
    """Return how many requests of all lanes are not answered."""
    return sum(len(lane._unanswered) for lane in lanes_of(server))


def lanes_of(server: LaneServer) -> list[Any]:
    return [connection._role for connection in list(server._state.holding.connections)]


class Rig:
    """A server and its clients in one loop, each side with slabs of its own."""

    def __init__(
        self,
        handler: Handler,
        *,
        limits: LaneLimits = DEFAULT_LIMITS,
        client_limits: LaneLimits | None = None,
        same_node: bool = True,
        pool_bytes: int = 64 << 20,
        incarnation: str = "",
        tls: ssl.SSLContext | None = None,
    ) -> None:
        self.tls = tls
        self.handler = handler
        self.limits = limits
        self.client_limits = client_limits or limits
        self.same_node = same_node
        self.uds = f"\0manta-test-{os.getpid()}-{next(_names)}"
        self.server_slabs = SlabPool(pool_bytes)
        self.client_slabs = SlabPool(pool_bytes)
        self.turning = Turning(Reactor())
        self.server = LaneServer(
            cast("LaneHandler", handler),
            reactor=self.turning.reactor,
            secret=SECRET,
            slabs=self.server_slabs,
            limits=limits,
            incarnation=incarnation,
        )
        self.losses: list[tuple[LaneClient, list[LaneInflight]]] = []

    async def __aenter__(self) -> "Rig":
        tcp = self.server.start(self.uds, "127.0.0.1", tls=self.tls)
        await self.turning.__aenter__()
        self.endpoint = InstanceEndpoint("model/1#0", "", "node", self.uds, tcp)
        return self

    async def __aexit__(self, *_: object) -> None:
        self.server.close()
        await self.turning.__aexit__()
        self.server_slabs.close()
        self.client_slabs.close()

    async def connect(self, **changes: Any) -> LaneClient:
        arguments: dict[str, Any] = {
            "same_node": self.same_node,
            "secret": SECRET,
            "slabs": self.client_slabs,
            "on_lost": lambda lane, orphans: self.losses.append((lane, orphans)),
            "limits": self.client_limits,
        } | changes
        tls = arguments.pop("tls", None)
        endpoint = arguments.pop("endpoint", self.endpoint)
        return await LaneClient(endpoint, **arguments).open(tls)

    @property
    def lanes(self) -> Any:
        return lanes_of(self.server)

    async def all_gone(self) -> None:
        """Wait until the server has no lane and neither side holds a slab."""
        await until(lambda: not self.lanes)
        assert inflight_count(self.server) == 0
        await until(lambda: not self.server_slabs.used_blocks)
        await until(lambda: not self.client_slabs.used_blocks)


def frame(
    kind: int, frame_id: int = 0, message: bytes = b"", tail: bytes = b"", flags: int = 0
) -> bytes:
    return PREFIX.pack(kind, flags, frame_id, len(message), len(tail)) + message + tail


SMALL = encode(request_of(64))
LARGE = 300_000
REQUEST = frame(INFER, 1, SMALL)
TAIL_REQUEST = frame(
    INFER,
    1,
    encode(
        InferenceRequest(
            "m", inputs=[Tensor("A", "UINT8", (9,), extent=Extent("tail", 0, LARGE, -1))]
        )
    ),
    bytes(LARGE),
    FLAG_EXTENTS,
)


class RawPeer:
    """One end of a lane by hand, to say the wrong thing or to die at any moment."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer
        self._frames = FrameReader()
        self._waiting: list[Frame] = []
        self.handshake: ClientHandshake

    @classmethod
    async def to(cls, rig: Rig, secret: bytes = SECRET) -> "RawPeer":
        peer = cls(*await asyncio.open_connection(*rig.endpoint.tcp))
        peer.handshake = ClientHandshake(secret, os.urandom(32))
        return peer

    def write(self, data: bytes) -> None:
        self.writer.write(data)

    async def prove(self) -> None:
        """As a client: shake hands."""
        self.write(self.handshake.open())
        self.write(self.handshake.feed(await self.reader.readexactly(72)))

    async def set_up(self) -> Setup:
        """As a client: shake hands and set up."""
        await self.prove()
        self.write(frame(SETUP, message=encode(NO_SLABS_OFFERED)))
        answer = decode_setup((await self.next_frame()).message)
        self.write(frame(SETUP, message=encode(Setup(maps_yours=True))))
        return answer

    async def accept(self) -> None:
        """As a server: shake hands."""
        handshake = ServerHandshake(SECRET, os.urandom(32))
        self.write(handshake.feed(await self.reader.readexactly(40)))
        handshake.feed(await self.reader.readexactly(32))

    async def accept_set_up(self) -> Setup:
        """As a server: shake hands and set up."""
        await self.accept()
        theirs = decode_setup((await self.next_frame()).message)
        self.write(frame(SETUP, message=encode(NO_SLABS_OFFERED)))
        await self.next_frame()
        return theirs

    async def next_frame(self) -> Frame:
        while not self._waiting:
            data = await self.reader.read(65536)
            if not data:
                raise EOFError
            self._waiting = self._frames.feed(data)
        return self._waiting.pop(0)

    async def closed_by_peer(self) -> None:
        try:
            while await self.reader.read(65536):
                pass
        except ConnectionError:
            pass

    def die(self) -> None:
        self.writer.transport.abort()


class RawServer:
    """A TCP server of raw peers, and a way to connect a client to it."""

    def __init__(self, serve: Serve) -> None:
        self._serve = serve
        self.slabs = SlabPool()

    async def __aenter__(self) -> Callable[..., Awaitable[LaneClient]]:
        self._done = asyncio.Event()

        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            try:
                await self._serve(reader, writer)
            finally:
                writer.close()
                self._done.set()

        self._server = await asyncio.start_server(serve, "127.0.0.1", 0)
        port = self._server.sockets[0].getsockname()[1]
        endpoint = InstanceEndpoint("model/1#0", "", "node", "", ("127.0.0.1", port))

        async def connect(**changes: Any) -> LaneClient:
            arguments: dict[str, Any] = {"same_node": False, "secret": SECRET, "slabs": self.slabs}
            return await LaneClient(endpoint, **(arguments | changes)).open()

        return connect

    async def __aexit__(self, *_: object) -> None:
        self._server.close()
        await self._done.wait()
        assert self.slabs.used_blocks == 0
        self.slabs.close()
