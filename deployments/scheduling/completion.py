# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Releases outcomes in the order requests were accepted, for ``preserve_ordering``.

A request that finishes early waits behind those accepted before it, and its outcomes wait with it.

Triton: core/src/dynamic_batch_scheduler.cc FinalizeResponses @73aad7c
"""

from collections import deque
from typing import Generic, TypeVar

from backends.api.model_config import ModelConfig

Ticket = TypeVar("Ticket")
Outcome = TypeVar("Outcome")


def keeps_order(config: ModelConfig) -> bool:
    """Return whether outcomes are released in the order requests were accepted.

    Not of sequences, whatever their config says: an instance executes and answers them in the order
    they were batched, which is the order Triton keeps, and a request that waits for a slot must not
    hold back the answers to those whose end frees it.
    """
    batching = config.dynamic_batching
    return batching is not None and batching.preserve_ordering


class CompletionQueue(Generic[Ticket, Outcome]):
    """Tickets in order of acceptance, with the outcomes they hold back."""

    __slots__ = ("_held", "_order")

    def __init__(self) -> None:
        self._order: deque[Ticket] = deque()
        self._held: dict[Ticket, list[tuple[Ticket, Outcome, bool]]] = {}

    def __len__(self) -> int:
        return len(self._order)

    def accept(self, ticket: Ticket) -> None:
        """Give a ticket its place; tickets are hashable and unique."""
        self._order.append(ticket)

    def add(
        self, ticket: Ticket, outcome: Outcome, *, final: bool
    ) -> list[tuple[Ticket, Outcome, bool]]:
        """Take an outcome and return, in order, what may be released now.

        Args:
            ticket: An accepted ticket that had no final outcome yet.
            outcome: One of its outcomes.
            final: Whether it is the last.
        """
        if ticket != self._order[0]:
            self._held.setdefault(ticket, []).append((ticket, outcome, final))
            return []
        released = [(ticket, outcome, final)]
        while released[-1][2]:
            self._order.popleft()
            if not self._order:
                break
            held = self._held.pop(self._order[0], None)
            if held is None:
                break
            released.extend(held)
        return released
