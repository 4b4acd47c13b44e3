# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""What a router and the holder of a node's queues tell each other.

A request stays where it came in. What waits in the queue for it is its *ticket*. When the queue has
chosen the request for a batch, the router gets a *grant* and sends the request, as its part of that
batch, straight to the instance, which answers it straight to the router. So the holder's end loses
nothing: tickets are sent again to the next holder, and what has begun goes on.

========= ============== ========= ====================================================
frame     from, to       message   meaning
========= ============== ========= ====================================================
TICKET    router, holder `Ticket`  a request waits here; the frame's id is its number
WITHDRAW  router, holder none      forget the ticket; echoed unless it has been granted meanwhile;
                                   with FLAG_FINAL its request was cancelled, else it goes elsewhere
WITHDRAW  router, holder `Missing` my part of a granted batch will not come; with the number of a
                                   ticket, and of no batch: a sequence is to begin elsewhere; forget
                                   that ticket and echo this, unless it has begun or more of it is
                                   there
GRANT     holder, router `Grant`   send these requests as a part of this batch
ERROR     holder, router an error  the request is not executed: it was refused, expired...; without
                                   FLAG_FINAL the holder has no such queue yet: try again
LOAD      holder, router `Load`    how much waits for a model here
LOAD      router, holder `Question` tell me this
LEASE     holder, router `Lease`   you have asked: start one request of your own on this instance
LEASE_END router, holder `LeaseEnd` I have not used it
SEQUENCE  router, holder `SequenceQuestion` does this sequence go on in a queue there?
SEQUENCE  holder, router bool, none whether it does; none when there is no such queue. The frame's
                                   id is the question's
========= ============== ========= ====================================================
"""

from collections.abc import Sequence
from typing import Final

import msgspec

# Executions of more requests than this, in the mean, are shared.
_SHARED: Final = 1.25
# A signature is a list of (name, shape, bytes).
_MAX_DEPTH: Final = 4


class Ticket(msgspec.Struct, array_like=True):
    """The message of TICKET.

    Attributes:
        model_name: Model.
        version: Version number.
        batch_size: Leading dimension of its inputs; 1 when the model does not batch.
        queued_ns: Since when it waits, on the node's monotonic clock; 0 from another node.
        signature: What must be equal among requests that share a batch, as plain data.
        timeout_us: Queue timeout the client asked for; 0 means none.
        priority: Level the client asked for; 0 means the model's default.
        correlation_id: Sequence id; 0 or "" means none.
        flags: SEQUENCE_START | SEQUENCE_END.
        request_id: The client's id, for messages.
        avoid: Incarnation of an instance that is not to get it; empty for none.
        waited_ns: How long it has waited, from another node.
        tenant: Whom the request counts for; empty for nobody in particular.
        weight: The tenant's share beside other tenants' in the queue.
    """

    model_name: str
    version: int
    batch_size: int = 1
    queued_ns: int = 0
    signature: object = None
    timeout_us: int = 0
    priority: int = 0
    correlation_id: int | str = 0
    flags: int = 0
    request_id: str = ""
    avoid: str = ""
    waited_ns: int = 0
    tenant: str = ""
    weight: float = 1.0


class Place(msgspec.Struct, array_like=True):
    """Where an instance listens; see `deployments.contracts.routing_table.InstanceEndpoint`."""

    name: str
    node_id: str
    uds: str
    host: str
    port: int


class Grant(msgspec.Struct, array_like=True):
    """The message of GRANT.

    Attributes:
        epoch: Of the holder.
        number: The batch.
        instance: Incarnation of the instance that executes it.
        tickets: Numbers of the requests.
        slots: Of sequences, the slot of each request.
        correlation_ids: Of each request, where the queue gives one to those that have none, and
            the START flag with it; empty where it gives none.
        party: What the router is called in the batch.
        place: Where the instance is, for a router that could not reach it the last time.
    """

    epoch: int
    number: int
    instance: str
    tickets: Sequence[int]
    slots: Sequence[int] = ()
    correlation_ids: Sequence[int | str] = ()
    party: int = 0
    place: Place | None = None


class Missing(msgspec.Struct, array_like=True):
    """The message of WITHDRAW when a part was granted and cannot be sent: no lane is open.

    Attributes:
        model_name: Model.
        version: Version number.
        epoch: Of the holder.
        number: The batch.
        instance: Incarnation of the instance that waits for the part.
    """

    model_name: str
    version: int
    epoch: int
    number: int
    instance: str


class Load(msgspec.Struct, array_like=True):
    """The message of LOAD: what a router goes by when it chooses a node.

    Attributes:
        model_name: Model.
        version: Version number.
        waiting_count: Requests that wait.
        free_count: Instances that execute nothing.
        instance_count: Instances of the node.
        execution_ns: How long an execution takes; 0.0 when that is not known.
        batch_size: Requests of an execution, in the mean.
        free_slot_count: Of sequences, slots that are free.
    """

    model_name: str
    version: int
    waiting_count: int = 0
    free_count: int = 0
    instance_count: int = 0
    execution_ns: float = 0.0
    batch_size: float = 1.0
    free_slot_count: int = 0

    @property
    def is_free(self) -> bool:
        """Whether one more request would be executed at once."""
        return self.free_count > self.waiting_count

    @property
    def is_shared(self) -> bool:
        """Whether several requests share an execution, so that questions get no leases."""
        return self.batch_size > _SHARED


class Question(msgspec.Struct, array_like=True):
    """The message of LOAD to a holder.

    Attributes:
        model_name: Model.
        version: Version number.
        when_free: Whether to answer when an instance is free, by a lease or by the load; otherwise
            the load is told at once.
        is_over: Whether an earlier question needs no answer any more; this one needs none.
    """

    model_name: str
    version: int
    when_free: bool = False
    is_over: bool = False


class Lease(msgspec.Struct, array_like=True):
    """The message of LEASE: an empty batch that lies at an instance for the router to fill."""

    model_name: str
    version: int
    epoch: int
    number: int
    instance: str


class LeaseEnd(msgspec.Struct, array_like=True):
    """The message of LEASE_END."""

    model_name: str
    version: int
    number: int


class SequenceQuestion(msgspec.Struct, array_like=True):
    """The message of SEQUENCE to a holder."""

    model_name: str
    version: int
    correlation_id: int | str


decode_ticket: Final = msgspec.msgpack.Decoder(Ticket).decode
decode_grant: Final = msgspec.msgpack.Decoder(Grant).decode
decode_missing: Final = msgspec.msgpack.Decoder(Missing).decode
decode_load: Final = msgspec.msgpack.Decoder(Load).decode
decode_question: Final = msgspec.msgpack.Decoder(Question).decode
decode_lease: Final = msgspec.msgpack.Decoder(Lease).decode
decode_lease_end: Final = msgspec.msgpack.Decoder(LeaseEnd).decode
decode_sequence_question: Final = msgspec.msgpack.Decoder(SequenceQuestion).decode
decode_known: Final = msgspec.msgpack.Decoder(bool | None).decode


def canonical_signature(signature: object, depth: int = 0) -> object:
    """Return a signature in the one form in which equal ones compare equal, here and from afar.

    Args:
        signature: Of a request of this process, or as a `Ticket` has brought it.
        depth: How deep in a signature it lies.

    Raises:
        ValueError: It is no signature.
    """
    if isinstance(signature, list | tuple):
        if depth == _MAX_DEPTH:
            raise ValueError(f"a signature nested more than {_MAX_DEPTH} levels deep")
        return tuple([canonical_signature(each, depth + 1) for each in signature])
    if signature is None or isinstance(signature, int | str | bytes):
        return signature
    raise ValueError(f"a {type(signature).__name__} in a signature")
