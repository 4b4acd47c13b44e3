# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""What becomes of the requests that were on a lane when it broke."""

from collections.abc import Callable, Iterable

from backends.api.errors import RequestCancelledError, UnavailableError
from backends.api.request import InferenceRequest
from deployments.lane.inflight import LaneInflight
from deployments.routing.pool import Link
from deployments.routing.routed_request import RoutedRequest, is_stateful


def end_or_resend(
    link: Link, orphans: Iterable[LaneInflight], resend: Callable[[RoutedRequest], None]
) -> None:
    """Send each request once more, to another instance, or end it with an error.

    Args:
        link: The way to the instance that is lost.
        orphans: The requests that had no terminal outcome.
        resend: Sends a request to another instance than the one that had it.
    """
    for routed in orphans:
        if not isinstance(routed, RoutedRequest):
            continue
        routed.forget_given_id()
        if routed.cancelled:
            routed.sink.fail(RequestCancelledError(""))
        elif routed.has_responded or routed.retried or is_stateful(routed.request):
            routed.sink.fail(
                UnavailableError(
                    f"instance '{link.endpoint.name}' of model "
                    f"'{routed.request.model_name}' ended while it served the request; "
                    f"{_what_to_do(routed.request)}"
                )
            )
        else:
            routed.retried = True
            routed.avoid = link.endpoint.incarnation
            # Its time at the instance was no wait: that would have it expire unexecuted.
            routed.enqueue_ns = routed.request.waited_ns = 0
            # Where there is no other, it waits for the one that takes the place of this.
            resend(routed)


def _what_to_do(request: InferenceRequest) -> str:
    if not request.correlation_id:
        return "send the request again"
    return f"sequence {request.correlation_id} ended with it, start the sequence again"
