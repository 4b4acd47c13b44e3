# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""What a router says and hears over a lane to an instance of a pool: batches, and who forms them.

Triton has no counterpart: its instances share the memory of one queue.
"""

import asyncio
import logging
from collections.abc import Sequence
from typing import Final

from mypy_extensions import mypyc_attr

from backends.api.errors import InvalidArgumentError, TritonError, UnavailableError
from backends.api.request import InferenceRequest
from deployments.contracts.routing_table import InstanceEndpoint
from deployments.lane.batches import (
    BatchPart,
    Forget,
    Holder,
    PoolEvents,
    decode_adopted,
    decode_bounce,
    decode_done,
    decode_holder,
    without,
)
from deployments.lane.calls import PendingCalls
from deployments.lane.connection import LaneConnection
from deployments.lane.frames import (
    ADOPT,
    ADOPTED,
    ASK,
    BATCH,
    BOUNCE,
    CANCEL,
    CREDIT,
    DECLINE,
    DONE,
    FORGET,
    GRANTED,
    HOLDER,
    INFER,
    Frame,
)
from deployments.lane.inflight import LaneInflight
from deployments.lane.messages import UnsendableError, encode
from deployments.slabs.extents import Detached

logger = logging.getLogger(__name__)

_MAX_ID: Final = 0xFFFFFFFF


@mypyc_attr(allow_interpreted_subclasses=True)
class PoolClient:
    """The router's end of a lane, as far as it is about pools; `LaneClient` is the whole.

    Args:
        loop: The loop of the lane.
        connection: Carries the frames.
        endpoint: The instance.
        max_message_bytes: Longest message of a call.

    Attributes:
        endpoint: The instance.
        outstanding: Requests without a terminal outcome.
        request_count: Requests sent until now and not sent back.
        draining: Whether the instance has asked for no more requests.
        events: What is told of the pool; None while nobody wants to know.
        holder: The newest that the instance has said of who holds its pool's queue; None while it
            is on its own.
    """

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        connection: LaneConnection,
        endpoint: InstanceEndpoint,
        max_message_bytes: int,
    ) -> None:
        self._loop = loop
        self._connection = connection
        self._last_id = 0
        self._pending: dict[int, LaneInflight] = {}
        self._calls = PendingCalls(connection, endpoint.name, max_message_bytes)
        self.endpoint = endpoint
        self.outstanding = 0
        self.request_count = 0
        self.draining = False
        self.events: PoolEvents | None = None
        self.holder: Holder | None = None
        connection.control |= {
            ADOPTED: self._on_adopted,
            DONE: self._on_done,
            GRANTED: self._on_granted,
            BOUNCE: self._on_bounce,
            HOLDER: self._on_holder,
        }

    def start_batch(self, part: BatchPart, requests: Sequence[LaneInflight]) -> None:
        """Send requests as a part of a batch; never raises. See `LaneClient.start`.

        The part leaves at once, in one write. What is said of a request that cannot be encoded is
        taken out of the part; the instance hears that this request does not come.

        Args:
            part: What is said of the part; its sequences have one item for each request, or none.
            requests: Its requests, in the order of those items.
        """
        connection = self._connection
        if connection.is_lost:
            for inflight in requests:
                self._begin(inflight)
                self._refuse_later(inflight, self._closed_error())
            return
        prepared: list[tuple[LaneInflight, tuple[bytes, Detached | None]]] = []
        unsent: set[int] = set()
        for place, inflight in enumerate(requests):
            self._begin(inflight)
            request = inflight.request
            try:
                prepared.append((inflight, connection.prepare(request, request.inputs)))
            except UnsendableError as error:
                unsent.add(place)
                self._refuse_later(inflight, unsendable_error(request, error))
        if unsent:
            part = without(part, unsent)
        connection.send(BATCH, 0, encode(part))
        for inflight, each in prepared:
            inflight.id = request_id = self._next_id()
            self._pending[request_id] = inflight
            connection.send_prepared(INFER, request_id, each)
        self.outstanding += len(prepared)
        self.request_count += len(prepared)
        connection.flush()

    def adopt(self, message: Holder) -> None:
        """Tell the instance who holds its pool's queue; `PoolEvents.adopted` is its answer."""
        self._say(ADOPT, encode(message))

    def forget(self, message: Forget) -> None:
        """Tell the instance that requests of a batch will not come."""
        self._say(FORGET, encode(message))

    def ask(self) -> None:
        """Have the instance get its grant; `PoolEvents.granted` says that it has it."""
        self._say(ASK)

    def decline(self) -> None:
        """Have the instance give its grant back, or not ask for it any more."""
        self._say(DECLINE)

    def _say(self, kind: int, message: bytes = b"") -> None:
        if not self._connection.is_lost:
            self._connection.send(kind, 0, message)

    def _begin(self, inflight: LaneInflight) -> None:
        inflight.lane = self
        inflight.has_responded = False

    def _refuse_later(self, inflight: LaneInflight, error: TritonError) -> None:
        self._loop.call_soon(self._fail, inflight, error)

    def _closed_error(self) -> UnavailableError:
        return UnavailableError(f"the lane to instance '{self.endpoint.name}' is closed")

    def _next_id(self) -> int:
        request_id, calls = self._last_id, self._calls.answers
        while True:
            request_id = request_id % _MAX_ID + 1
            if request_id not in self._pending and request_id not in calls:
                self._last_id = request_id
                return request_id

    def _fail(self, inflight: LaneInflight, error: TritonError, *, final: bool = True) -> None:
        try:
            if final:
                inflight.fail(error)
            else:
                inflight.has_responded = True
                inflight.sink.fail(error, final=False)
        except Exception:
            logger.exception("%s: a sink raised", self.describe())

    def describe(self) -> str:
        """Return what the lane is called in the log."""
        return f"lane to instance '{self.endpoint.name}'"

    def send_cancel(self, inflight: LaneInflight) -> None:
        """Tell the instance of a cancel, unless the request has ended; `LaneInflight` calls it."""
        if self._pending.get(inflight.id) is inflight:
            self._connection.send(CANCEL, inflight.id)

    def send_credit(self, inflight: LaneInflight) -> None:
        """Let the instance send one response more; `LaneInflight` calls it."""
        if self._pending.get(inflight.id) is inflight:
            self._connection.send(CREDIT, inflight.id)

    # Reading

    def _on_adopted(self, frame: Frame) -> None:
        message = decode_adopted(frame.message)
        if self.events is not None:
            self.events.adopted(message)

    def _on_done(self, frame: Frame) -> None:
        message = decode_done(frame.message)
        if self.events is not None:
            self.events.done(message)

    def _on_granted(self, _: Frame) -> None:
        if self.events is not None:
            self.events.granted()

    def _on_holder(self, frame: Frame) -> None:
        self.holder = message = decode_holder(frame.message)
        if self.events is not None:
            self.events.holder(message)

    def _on_bounce(self, frame: Frame) -> None:
        inflight = self._pending.pop(frame.request_id, None)
        if inflight is None:
            return
        self.outstanding -= 1
        self.request_count -= 1
        if self.events is not None:
            waited_ns = decode_bounce(frame.message).waited_ns if frame.message else 0
            self.events.bounced(inflight, waited_ns)
            return
        name = self.endpoint.name
        self._fail(
            inflight,
            UnavailableError(
                f"instance '{name}' takes requests by way of its pool's queue only; "
                f"send the request again"
            ),
        )


def unsendable_error(request: InferenceRequest, error: UnsendableError) -> InvalidArgumentError:
    """Return the error of a request that a lane cannot carry."""
    return InvalidArgumentError(f"request for model '{request.model_name}' cannot be sent: {error}")
