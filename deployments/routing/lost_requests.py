# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""What becomes of the requests that were on a lane when it broke.

Each is sent once more, unless that may repeat what it did, or its instance had begun its sequence.
What ends it is UNAVAILABLE, which says that it may be sent again: nobody knows that it was to
blame. Only where two processes crashed by a signal of their own making while they executed the same
request is it that request's own error, and INTERNAL, so that neither a client nor a proxy has it
crash others. Processes that were killed, told to end or not reached any more, and requests that
waited meanwhile, do not count.
"""

from collections.abc import Sequence

from backends.api.errors import (
    InternalError,
    RequestCancelledError,
    TritonError,
    UnavailableError,
)
from backends.api.request import SEQUENCE_START
from deployments.lane.crash_report import Crash
from deployments.lane.inflight import LaneInflight
from deployments.routing.pool import Link
from deployments.routing.routed_request import RoutedRequest, is_stateful


def end_or_resend(
    link: Link, lost: Crash | None, orphans: Sequence[LaneInflight], *, was_draining: bool
) -> None:
    """Send each request of a lane that is lost once more, to another instance, or end it.

    Args:
        link: The way that the lane was.
        lost: How a crash has ended the instance; None where that is not known.
        orphans: The requests, the oldest first.
        was_draining: Whether the instance had asked for no more requests.
    """
    name = link.endpoint.name
    # One that drains ends when all that it has taken is done: it had not begun these.
    unbegun = {each.request.correlation_id for each in orphans if was_draining and _begins(each)}
    for routed in orphans:
        if not isinstance(routed, RoutedRequest):
            continue
        crash = lost if lost is not None and routed.id in lost.executing else None
        routed.forget_given_id()
        if routed.cancelled:
            routed.sink.fail(RequestCancelledError(""))
        elif crash is not None and routed.crashed:
            routed.sink.fail(_own_error(name, routed, crash))
        elif (
            routed.has_responded
            or routed.retried
            or (is_stateful(routed.request) and routed.request.correlation_id not in unbegun)
        ):
            routed.sink.fail(_unavailable(name, routed, crash))
        else:
            routed.retried = True
            routed.lost_at = name
            routed.crashed = "" if crash is None else name
            routed.avoid = link.endpoint.incarnation
            # Its time at the instance was no wait: that would have it expire unexecuted.
            routed.enqueue_ns = routed.request.waited_ns = 0
            # Where there is no other, it waits for the one that takes the place of this.
            routed.send_again()


def _begins(inflight: LaneInflight) -> bool:
    """Whether a request is the first of a sequence, and has no response yet."""
    request = inflight.request
    is_first = bool(request.correlation_id) and request.flags & SEQUENCE_START != 0
    return is_first and not inflight.has_responded


def _own_error(name: str, routed: RoutedRequest, crash: Crash) -> TritonError:
    return InternalError(
        f"{_ended(name, routed, crash)}, as was instance '{routed.crashed}' before: the request is "
        f"not sent again; fix the model or change the request, the instance's log has the stack"
    )


def _unavailable(name: str, routed: RoutedRequest, crash: Crash | None) -> TritonError:
    before = ""
    if routed.lost_at:
        before = f", as did instance '{routed.lost_at}' before, perhaps for other reasons"
    return UnavailableError(f"{_ended(name, routed, crash)}{before}; {_what_to_do(routed)}")


def _ended(name: str, routed: RoutedRequest, crash: Crash | None) -> str:
    instance = f"instance '{name}' of model '{routed.request.model_name}'"
    if crash is None:
        return f"{instance} ended while it served the request"
    place = f" in {crash.place}" if crash.place else ""
    return f"{instance} was ended by {crash.signal}{place} while it executed the request"


def _what_to_do(routed: RoutedRequest) -> str:
    correlation_id = routed.request.correlation_id
    if correlation_id:
        return f"sequence {correlation_id} ended with it, start the sequence again"
    return "send the request again"
