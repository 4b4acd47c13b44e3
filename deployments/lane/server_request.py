# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""A request at the instance's end of a lane, and how fast its caller takes its responses."""

import logging
import threading
from typing import TYPE_CHECKING, Final

from mypy_extensions import mypyc_attr

from backends.api.errors import TritonError
from backends.api.request import InferenceRequest, InferenceResponse
from deployments.tracing.call import calls_of
from deployments.tracing.record import Activity, TraceReport

if TYPE_CHECKING:
    from deployments.lane.server_lane import ServerLane

logger = logging.getLogger(__name__)

# Triton's, after which a model that is held up goes on all the same.
_CREDIT_TIMEOUT_S: Final = 300.0


class Window:
    """How many responses a decoupled model may send before its caller asks for more.

    Triton: core/src/ensemble_scheduler/ensemble_scheduler.cc @73aad7c, where the thread that brings
    a response waits in place of the model's.

    Args:
        model_name: For messages.
        size: Responses that may go out unasked.
    """

    __slots__ = ("_changed", "_credits", "_is_open", "_model_name")

    def __init__(self, model_name: str, size: int) -> None:
        self._model_name = model_name
        self._changed = threading.Condition()
        self._credits = size
        self._is_open = False

    def take(self) -> None:
        """Wait until one more response may go out; on the thread that sends it."""
        with self._changed:
            if not self._changed.wait_for(self._may_go, _CREDIT_TIMEOUT_S):
                logger.error(
                    "[Internal Error] model '%s' has waited %.0f seconds for the ensemble to take "
                    "a response. Proceeding to avoid deadlock.",
                    self._model_name,
                    _CREDIT_TIMEOUT_S,
                )
            else:
                self._credits -= 1

    def _may_go(self) -> bool:
        return self._is_open or self._credits > 0

    def credit(self) -> None:
        """Let one more go out."""
        with self._changed:
            self._credits += 1
            self._changed.notify()

    def open(self) -> None:
        """Let all go out: nobody waits for them."""
        with self._changed:
            self._is_open = True
            self._changed.notify_all()


@mypyc_attr(allow_interpreted_subclasses=True)
class ServerRequest:
    """A request that a router has sent; exactly one terminal answer is owed for it.

    All methods are for the thread that turns the reactor. When the router is gone, answers do
    nothing.

    Attributes:
        request: The request.
        is_cancelled: Whether nobody waits for the answer any more. Readable on any thread.
        is_finished: Whether the terminal answer was given, or the router is gone.
        mark: What it is called on the page of `deployments.lane.crash_report`.
    """

    __slots__ = (
        "_id",
        "_lane",
        "_report",
        "_window",
        "is_cancelled",
        "is_finished",
        "mark",
        "request",
    )

    def __init__(
        self, lane: "ServerLane | None", request_id: int, request: InferenceRequest, mark: int = 0
    ) -> None:
        self.mark = mark
        self._lane = lane
        self._id = request_id
        self.request = request
        self.is_cancelled = False
        self.is_finished = False
        self._report: TraceReport | None = None
        self._window = Window(request.model_name, request.window) if request.window > 0 else None

    def await_credit(self) -> None:
        """Wait until the caller takes one response more, or none at all; on a model's thread."""
        if self._window is not None:
            self._window.take()

    def credit(self) -> None:
        """Let the model send one response more."""
        if self._window is not None:
            self._window.credit()

    def cancel(self) -> None:
        """Note that nobody waits for the answer any more."""
        self.is_cancelled = True
        if self._window is not None:
            self._window.open()

    def traced(self, activities: list[Activity]) -> None:
        """Note when a traced request was queued and executed, from any thread; the end sends it."""
        self._report = TraceReport(activities, calls_of(self.request.trace))

    def respond(self, response: InferenceResponse | None, *, final: bool) -> None:
        """Answer; a response that cannot be encoded becomes an INTERNAL error.

        Args:
            response: The response; None, only with ``final``, ends a stream without another one.
                Its buffers must not change until they are written, some ticks later when large.
            final: Whether this is the terminal answer.

        Raises:
            RuntimeError: The terminal answer was given before.
        """
        lane = self._lane
        if lane is None or (self.is_cancelled and not final):
            # Nobody takes it; a stream that was cancelled has only its end left.
            return
        if self.is_finished:
            raise RuntimeError("a request was answered after its terminal answer")
        if response is not None and self.request.regions:
            error = lane.place_outputs(response, self.request.regions)
            if error is not None:
                self.fail(error)
                return
        if final and self._report is not None:
            lane.send_report(self._id, self._report)
        lane.respond(self, self._id, response, final=final)

    def fail(self, error: TritonError, *, final: bool = True) -> None:
        """Answer with an error, which is the terminal answer unless ``final`` is False.

        Raises:
            RuntimeError: The terminal answer was given before.
        """
        lane = self._lane
        if lane is None or (self.is_cancelled and not final):
            return
        if self.is_finished:
            raise RuntimeError("a request was failed after its terminal answer")
        if final and self._report is not None:
            lane.send_report(self._id, self._report)
        lane.fail(self, self._id, error, final=final)

    def bounce(self, waited_ns: int = 0) -> None:
        """Have the router send the request once more, by way of the pool's queue.

        Args:
            waited_ns: How long it has waited here.
        """
        if self._lane is not None and not self.is_finished:
            self._lane.bounce(self, self._id, waited_ns)

    def abandon(self) -> None:
        """Cut the request off from its lane, which is lost."""
        self._lane = None
        self.is_finished = True
        self.cancel()
