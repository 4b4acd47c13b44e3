# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""The message by which a request of this process becomes a ticket at another one's queue."""

from backends.api.errors import InvalidArgumentError
from deployments.lane.messages import encode
from deployments.pool_queue.messages import Ticket
from deployments.pool_queue.own_request import OwnRequest


def ticket_of(
    request: OwnRequest, model: tuple[str, int], max_message_bytes: int, *, now_ns: int
) -> bytes:
    """Return the message of TICKET.

    Args:
        request: The request.
        model: Name and version number of its model.
        max_message_bytes: Longest message.
        now_ns: Now, for a holder on another node, whose clock is another one; 0 for one here.

    Raises:
        InvalidArgumentError: The request cannot be encoded.
    """
    model_name, version = model
    ticket = Ticket(
        model_name,
        version,
        request.batch_size,
        0 if now_ns else request.enqueue_ns,
        request.signature,
        request.timeout_us,
        request.priority,
        request.correlation_id,
        request.flags,
        request.request_id,
        request.avoid,
        now_ns - request.enqueue_ns if now_ns else 0,
        request.tenant,
        request.weight,
    )
    try:
        message: bytes = encode(ticket)
        if len(message) <= max_message_bytes:
            return message
        reason = f"{len(message)} bytes of id and shape tensors, expected at most"
        reason += f" {max_message_bytes}"
    except Exception as error:  # whatever a strange id provokes
        reason = str(error)
    text = f"request for model '{model_name}' cannot be queued: {reason}"
    raise InvalidArgumentError(text)
