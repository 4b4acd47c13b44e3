# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Which routers hear of a free instance: those that have asked, each once. Pure.

A router whose requests wait asks other nodes to tell when they have a free instance. As many are
told as there are free instances, so that not all routers send a request to the same one. Where an
execution is of one request the answer is a lease: the request goes straight to the instance, which
waits for one message and not for three. Where requests share executions the answer is the load, as
a lease would fill an execution with one request.
"""

from collections.abc import Hashable
from typing import Final, TypeVar

from deployments.pool_queue.messages import Load

P = TypeVar("P", bound=Hashable)

# Executions of more requests than this, in the mean, are shared.
_SHARED: Final = 1.25


def answered(askers: dict[P, None], load: Load) -> list[P]:
    """Return the routers that are to hear of free instances now; their questions are over.

    The first that has asked is the first that hears.
    """
    parties: list[P] = []
    count = min(load.free_count - load.waiting_count, len(askers))
    while len(parties) < count:
        party = next(iter(askers))
        del askers[party]
        parties.append(party)
    return parties


def is_free(load: Load) -> bool:
    """Whether one more request would be executed at once."""
    return load.free_count > load.waiting_count


def is_shared(load: Load) -> bool:
    """Whether several requests share an execution, so that questions are not answered by leases."""
    return load.batch_size > _SHARED
