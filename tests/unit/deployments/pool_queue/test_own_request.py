# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Where a router's own request may go on."""

import pytest

from backends.api.request import SEQUENCE_END, SEQUENCE_START, InferenceRequest
from deployments.pool_queue.own_request import OwnRequest


def start(flags: int = SEQUENCE_START, correlation_id: int = 7) -> OwnRequest:
    return OwnRequest(InferenceRequest("m", correlation_id=correlation_id, flags=flags), None)


def test_a_start_of_a_sequence_may_be_on_another_node():
    assert start().may_start_elsewhere
    assert not start(SEQUENCE_END).may_start_elsewhere
    assert not start(correlation_id=0).may_start_elsewhere


@pytest.mark.parametrize("field", ["has_given_id", "local_only", "cancelled"])
def test_a_start_that_is_bound_or_over_stays(field):
    request = start()
    setattr(request, field, True)
    assert not request.may_start_elsewhere
