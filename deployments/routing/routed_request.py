# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""One request on its way from a router to an instance."""

from collections.abc import Callable
from typing import Final

from backends.api.errors import (
    InvalidArgumentError,
    Phase,
    RequestCancelledError,
    TritonError,
    UnavailableError,
)
from backends.api.request import SEQUENCE_START, InferenceRequest
from deployments.contracts.sinks import ResponseSink
from deployments.pool_queue.own_request import OwnRequest
from deployments.routing.pool import LinkPool

# An instance sends a request back once or twice while the holder of its node changes.
MOST_BOUNCES: Final = 32


class RoutedRequest(OwnRequest):
    """What a lane keeps of a request, and the handle its caller cancels.

    Args:
        resend: Sends this request to another instance; called when one that drains refused it.
        pool: The instances of the request's model.
        request: The request.
        sink: Takes everything that follows.

    Attributes:
        bounce_count: How often instances have sent it back, to go by way of their queue.
        crashed: Name of the instance that crashed while it executed this; empty for none.
        lost_at: Name of the instance that ended while it had this; empty for none.
        pool: The instances of the request's model.
        retried: Whether it is not to be sent again when the lane it is on is lost.
    """

    __slots__ = (
        "_resend",
        "_successor",
        "bounce_count",
        "crashed",
        "lost_at",
        "pool",
        "retried",
    )

    def __init__(
        self,
        resend: "Callable[[RoutedRequest], None]",
        pool: LinkPool,
        request: InferenceRequest,
        sink: ResponseSink,
    ) -> None:
        super().__init__(request, sink)
        self.bounce_count = 0
        self.pool = pool
        self.retried = False
        self.lost_at = self.crashed = ""
        self._resend = resend
        self._successor: RoutedRequest | None = None

    def moved(self) -> "RoutedRequest":
        """Return what goes on in this one's place, which lies in a queue yet and is not to run."""
        successor = RoutedRequest(self._resend, self.pool, self.request, self.sink)
        successor.local_only, successor.retried = self.local_only, self.retried
        successor.lost_at, successor.crashed = self.lost_at, self.crashed
        successor.avoid, successor.enqueue_ns = self.avoid, self.enqueue_ns
        successor.bounce_count = self.bounce_count
        self._successor = successor
        self.cancelled = True
        self.queue = None
        return successor

    def fail(self, error: TritonError) -> None:
        """Pass an error on, unless it only says that the instance is about to end."""
        lane = self.lane
        is_drain = lane is not None and lane.draining and isinstance(error, UnavailableError)
        is_settled = self.has_responded or self.cancelled
        is_begun = is_stateful(self.request) and not self.request.flags & SEQUENCE_START
        if is_drain and not (is_settled or is_begun):
            # It was refused, not executed; instances that drain are not chosen again.
            self._resend(self)
        elif is_refusal(error) and not is_settled and self.pool.sequences:
            self.pool.sequences.refused(self, error)
        else:
            self.sink.fail(error)

    def send_again(self) -> None:
        """Send it once more, to wherever it belongs now."""
        self._resend(self)

    def may_bounce(self) -> bool:
        """Count that an instance has sent it back; end it when that was too often.

        Returns:
            Whether it is to be sent again.
        """
        self.bounce_count += 1
        if self.bounce_count <= MOST_BOUNCES:
            return True
        request = self.request
        sequence = f" of sequence {request.correlation_id}" if request.correlation_id else ""
        self.sink.fail(
            UnavailableError(
                f"a request{sequence} of model '{request.model_name}' was sent back by its "
                f"instances {self.bounce_count} times: the queue that they are served from was not "
                f"found; the request was not executed, try again"
            )
        )
        return False

    def credit(self) -> None:
        """Ask for one response more of a request with a window."""
        if self._successor is not None:
            self._successor.credit()
        else:
            super().credit()

    def cancel(self) -> None:
        """Cancel on the lane, or at once while no lane has the request."""
        queue = self.queue
        if self._successor is not None:
            self._successor.cancel()
        elif queue is not None:
            if not self.cancelled:
                self.cancelled = True
                queue.cancelled(self)
        elif self.pool.waiting.pop(self, None) is not None:
            self.cancelled = True
            self.sink.fail(RequestCancelledError(""))
        else:
            super().cancel()


def is_refusal(error: TritonError) -> bool:
    """Whether a request was not queued, as it is with one whose sequence has not started."""
    return isinstance(error, InvalidArgumentError) and error.phase is Phase.ENQUEUE


def is_stateful(request: InferenceRequest) -> bool:
    """Whether the request belongs to a sequence, so that only one instance can serve it."""
    return bool(request.correlation_id) or request.flags != 0
