# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Sends copies of answered requests to another version, and compares its answers.

Theory of operation. A copy is made once the client has its answer: request and answer are taken by
reference, so that what it costs a client is an entry in a queue. Copies wait in one queue of
bounded length and size, some of them are under way at a time, and each has a time: a shadow that
is slow, broken or dead costs copies, which are counted, and nothing else. Copies are neither
retried nor woken for, and ask for the lowest priority there is. Many are sent together, so that
few requests find the loop, or the cores, busy with them.

Everything runs on the router's event loop; answers that are large are compared on a thread.
"""

import asyncio
import json
import logging
import time
from collections import deque
from collections.abc import Callable
from typing import Final

from backends.api.errors import TritonError
from backends.api.request import InferenceRequest, InferenceResponse, Tensor
from deployments.contracts.sinks import Inflight
from deployments.rollouts.comparing import Mismatch, Tolerance, compare
from deployments.routing.mismatch_file import MismatchFile
from deployments.routing.model_rollout import Shadow
from deployments.routing.served_model import ServedModel, Submit
from deployments.supervision.supervisor import Supervisor

_log = logging.getLogger(__name__)

MOST_BYTES: Final = 64 << 20
# So many are sent together.
MOST_UNDER_WAY: Final = 64
_PAUSE_S: Final = 0.05
TIMEOUT_S: Final = 10.0
# Answers that are larger together are compared elsewhere than on the loop.
_LARGE_BYTES: Final = 1 << 16

Find = Callable[[str, int], ServedModel | None]


class Mirror:
    """Copies requests.

    Args:
        send: Submits a checked request to a version.
        find: Finds a version that takes requests.
        mismatches: Where samples of differences go.
        pause_s: For how long a copy waits for others.
    """

    def __init__(
        self, send: Submit, find: Find, mismatches: MismatchFile, pause_s: float = _PAUSE_S
    ) -> None:
        self._pause_s = pause_s
        self._send = send
        self._find = find
        self._mismatches = mismatches
        self._waiting: deque[_Copy] = deque()
        self._bytes = 0
        self._under_way = 0
        self._timer: asyncio.TimerHandle | None = None
        self._tasks = Supervisor("mirrored requests")

    def offer(self, shadow: Shadow, request: InferenceRequest, response: InferenceResponse) -> None:
        """Take a request that was answered; the copy is sent later, or dropped and counted."""
        size_bytes = _bytes_of(request.inputs) + _bytes_of(response.outputs)
        pending = len(self._waiting) + self._under_way
        if pending >= shadow.spec.max_pending or self._bytes + size_bytes > MOST_BYTES:
            shadow.counts.dropped += 1
            return
        self._bytes += size_bytes
        self._waiting.append(_Copy(self, shadow, request, response, size_bytes))
        is_full = len(self._waiting) == MOST_UNDER_WAY or pending + 1 == shadow.spec.max_pending
        self._go_on_after(0.0 if is_full else self._pause_s)

    async def close(self) -> None:
        """Drop what waits."""
        self._waiting.clear()
        await self._tasks.close()

    def _go_on_after(self, pause_s: float) -> None:
        if self._timer is not None:
            if pause_s:
                return
            self._timer.cancel()
        self._timer = asyncio.get_running_loop().call_later(pause_s, self._go_on)

    def _go_on(self) -> None:
        self._timer = None
        while self._waiting and self._under_way < MOST_UNDER_WAY:
            self._under_way += 1
            self._waiting.popleft().start(self._find, self._send)

    def ended(self, copy: "_Copy", response: InferenceResponse | None) -> None:
        """Note the outcome of a copy, its answer or that there is none; called by the copy."""
        self._under_way -= 1
        self._bytes -= copy.size_bytes
        counts = copy.shadow.counts
        counts.mirrored += 1
        if response is None:
            counts.mirror_errors += 1
        elif copy.size_bytes > _LARGE_BYTES:
            self._tasks.spawn("comparison of answers", self._compare_elsewhere(copy, response))
        else:
            self._judge(copy, copy.difference(response))
        if self._waiting:
            are_many = 2 * self._under_way <= MOST_UNDER_WAY <= len(self._waiting)
            self._go_on_after(0.0 if are_many else self._pause_s)

    async def _compare_elsewhere(self, copy: "_Copy", response: InferenceResponse) -> None:
        self._judge(copy, await asyncio.to_thread(copy.difference, response))

    def _judge(self, copy: "_Copy", difference: Mismatch | None) -> None:
        if difference is not None:
            copy.shadow.counts.mismatches += 1
            self._mismatches.add(copy.described(difference), copy.shadow.spec.mismatches_per_minute)


class _Copy:
    """A copy of one request, and its sink."""

    __slots__ = (
        "_expected",
        "_has_ended",
        "_inflight",
        "_mirror",
        "_request",
        "_response",
        "_timer",
        "shadow",
        "size_bytes",
    )

    def __init__(
        self,
        mirror: Mirror,
        shadow: Shadow,
        request: InferenceRequest,
        response: InferenceResponse,
        size_bytes: int,
    ) -> None:
        self.shadow = shadow
        self.size_bytes = size_bytes
        self._mirror = mirror
        self._request = request
        self._expected = response
        self._response: InferenceResponse | None = None
        self._inflight: Inflight | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._has_ended = False

    def start(self, find: Find, send: Submit) -> None:
        """Send the copy; whatever comes of it, `Mirror.ended` hears of it once."""
        model = find(self.shadow.key, self.shadow.spec.version)
        if model is None or model.pool.is_dormant or model.pool.is_restarting:
            self._end(None)
            return
        loop = asyncio.get_running_loop()
        self._timer = loop.call_later(TIMEOUT_S, self._give_up)
        try:
            request = _copied(self._request, model)
            model.checker.check(request)
            inflight = send(model, request, self)
        except Exception as error:
            if not isinstance(error, TritonError):
                _log.exception("a request could not be mirrored")
            self._end(None)
            return
        if not self._has_ended:
            self._inflight = inflight

    def respond(self, response: InferenceResponse | None, *, final: bool) -> None:
        """Take a response of the shadow."""
        if response is not None:
            self._response = response
        if final:
            self._end(self._response)

    def fail(self, error: TritonError, *, final: bool = True) -> None:
        """Take an error of the shadow."""
        if final:
            self._end(None)

    def difference(self, response: InferenceResponse) -> Mismatch | None:
        """Compare the shadow's answer with the one that the client had; runs on any thread."""
        try:
            tolerance = Tolerance(self.shadow.spec.atol, self.shadow.spec.rtol)
            return compare(self._expected.outputs, response.outputs, tolerance)
        except Exception as error:
            return Mismatch("", f"cannot be compared: {type(error).__name__}: {error}")

    def described(self, difference: Mismatch) -> bytes:
        """Return the line of a difference, JSON; it has no element of a tensor but the first."""
        request, shadow = self._request, self.shadow
        line = {
            "time_ns": time.time_ns(),
            "model": shadow.key,
            "version": self._expected.model_version,
            "shadow_version": shadow.spec.version,
            "request_id": request.id,
            "inputs": [[each.name, each.datatype, [*each.shape]] for each in request.inputs],
            "output": difference.output,
            "reason": difference.reason,
            "elements": difference.count,
            "largest_difference": difference.largest,
        }
        # Infinity is no JSON.
        return json.dumps(line, default=str).replace("Infinity", '"inf"').encode()

    def _give_up(self) -> None:
        inflight, self._inflight = self._inflight, None
        self._end(None)
        if inflight is not None:
            inflight.cancel()

    def _end(self, response: InferenceResponse | None) -> None:
        if self._has_ended:
            return
        self._has_ended = True
        self._inflight = None
        if self._timer is not None:
            self._timer.cancel()
        self._mirror.ended(self, response)


def _bytes_of(tensors: list[Tensor]) -> int:
    return sum([len(each.data) for each in tensors])


def _copied(request: InferenceRequest, model: ServedModel) -> InferenceRequest:
    # Sending a request writes into it, and another router may have done so already.
    return InferenceRequest(
        request.model_name,
        model.version,
        request.id,
        [Tensor(each.name, each.datatype, each.shape, each.data) for each in request.inputs],
        list(request.outputs),
        dict(request.parameters),
        model.lowest_priority,
        pins=request.pins,
    )
