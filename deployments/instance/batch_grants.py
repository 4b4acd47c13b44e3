# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""The rate limiter's grants of an adopted instance: one for each batch.

The holder may have the instance get its grant ahead of the batch. A grant that is there for that is
*offered*, until the batch comes or the holder declines. A batch that comes without one waits.
"""

from deployments.scheduling.limited_scheduler import Grant


class BatchGrants:
    """Gets a grant for each batch, where the rate limiter gives them. Guarded by the mutex.

    Args:
        grant: The right to execute; None where nothing limits the instance.

    Attributes:
        is_busy: Whether batches wait or one is executed; kept by the owner.
    """

    __slots__ = ("_grant", "_is_asked", "_is_offered", "is_busy")

    def __init__(self, grant: Grant | None) -> None:
        self._grant = grant
        self._is_asked = False
        self._is_offered = False
        self.is_busy = False

    def may_execute(self) -> bool:
        """Whether a batch may be executed now; if not, the executor is woken when it may."""
        grant = self._grant
        if grant is None:
            return True
        if grant.is_held:
            self._is_offered = False
            return True
        grant.ask()
        return False

    def executed(self, *, is_next: bool) -> None:
        """Give the grant back after an execution; with ``is_next`` another batch waits."""
        if self._grant is not None:
            self._grant.done(ask_again=self._is_asked or is_next)

    def ask(self) -> bool:
        """Get the grant for a batch that is to come, and return whether it is there."""
        grant = self._grant
        if grant is None or self._is_offered:
            return True
        if grant.is_held and not self.is_busy:
            self._is_offered = True
            return True
        self._is_asked = True
        grant.ask()
        return False

    def granted(self) -> bool:
        """Learn that the grant is there, and return whether the holder waits for it."""
        if self._grant is None or not self._grant.is_held or self.is_busy:
            return False
        if self._is_asked:
            self._is_asked = False
            self._is_offered = True
            return True
        self.give_back_unused()
        return False

    def decline(self) -> None:
        """Learn that no batch is to come."""
        self._is_asked = False
        if self._is_offered:
            self._is_offered = False
            self.give_back_unused()

    def give_back_unused(self) -> None:
        """Give back a grant that nobody waits for."""
        grant = self._grant
        is_needed = self._is_offered or self._is_asked or self.is_busy
        if grant is not None and grant.is_held and not is_needed:
            grant.decline()
