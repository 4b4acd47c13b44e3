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
from typing import Final, Generic, TypeVar

from deployments.pool_queue.messages import Load

P = TypeVar("P", bound=Hashable)

# Executions of more requests than this, in the mean, are shared.
_SHARED: Final = 1.25


class Askers(Generic[P]):
    """The routers that have asked the queue of one pool for a free instance."""

    __slots__ = ("_parties",)

    def __init__(self) -> None:
        # The first that has asked is the first that hears.
        self._parties: dict[P, None] = {}

    def __bool__(self) -> bool:
        return bool(self._parties)

    def asked(self, party: P) -> None:
        """Note a question; one of a router that has asked already is the same question."""
        self._parties[party] = None

    def told(self, party: P, load: Load) -> None:
        """Note what a router has heard by another way; a free instance answers its question."""
        if is_free(load):
            self._parties.pop(party, None)

    def forget(self, party: P) -> None:
        """Forget a router that is gone, or has nothing waiting any more."""
        self._parties.pop(party, None)

    def answered(self, load: Load) -> list[P]:
        """Return the routers that are to hear of free instances now; their questions are over.

        Args:
            load: The pool's load.
        """
        parties: list[P] = []
        count = min(load.free_count - load.waiting_count, len(self._parties))
        while len(parties) < count:
            party = next(iter(self._parties))
            del self._parties[party]
            parties.append(party)
        return parties


def is_free(load: Load) -> bool:
    """Whether one more request would be executed at once."""
    return load.free_count > load.waiting_count


def is_shared(load: Load) -> bool:
    """Whether several requests share an execution, so that questions are not answered by leases."""
    return load.batch_size > _SHARED
