# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""A ticket carries its request's tenant, and one of an older release has none."""

import msgspec

from backends.api.model_config import ModelConfig
from backends.api.request import InferenceRequest
from deployments.lane.messages import encode
from deployments.pool_queue.messages import decode_ticket
from deployments.pool_queue.own_request import OwnRequest, TicketMaker, ticket_of
from deployments.pool_queue.ticket_server import ForeignTicket, PartyLane


class Party(PartyLane):
    """Another router; there is no connection."""

    def __init__(self):
        pass


def test_tenant_and_weight_travel_with_the_ticket():
    own = OwnRequest(InferenceRequest("m", tenant="t", weight=3.0), None)
    TicketMaker(ModelConfig("m")).make(own, None)
    message = encode(ticket_of(own, "m", 1, now_ns=0))
    foreign = ForeignTicket(Party(), 1, decode_ticket(message), 1)
    assert (foreign.tenant, foreign.weight) == (own.tenant, own.weight) == ("t", 3.0)


def test_a_ticket_of_an_older_release_is_nobodys():
    foreign = ForeignTicket(Party(), 1, decode_ticket(msgspec.msgpack.encode(["m", 1])), 1)
    assert (foreign.tenant, foreign.weight) == ("", 1.0)
