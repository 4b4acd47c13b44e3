# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Retries of models that could not be read at the start, for as long as they are wanted.

Polls do so by themselves. Without them nobody would: a store that is away for the minute in which a
controller is started again would cost its models for good. A config that is refused is read once.
"""

from dataclasses import dataclass
from typing import Final

from backends.api.errors import TritonError
from cluster.controller.boot import Boot

_FIRST_DELAY_S: Final = 5.0
_LONGEST_DELAY_S: Final = 60.0


@dataclass(slots=True, eq=False)
class UnreadModels:
    """The models that a start wants, and could not read."""

    boot: Boot
    # The models of all repositories; None until each was listed.
    _listed: frozenset[str] | None = None
    _delay_s: float = 0.0

    async def look(self) -> float:
        """Try again what is missing, and return when to do so next."""
        if not self._delay_s:
            await self.boot.ended.wait()
            if self.boot.error is None and self.boot.source.watch.is_complete:
                self._listed = frozenset(self.boot.lifecycle.records)
            self._delay_s = _FIRST_DELAY_S
            return self._delay_s
        missing = await self._missing()
        is_over = not missing and (self.boot.is_explicit or self._listed is not None)
        self._delay_s = _FIRST_DELAY_S if is_over else min(2 * self._delay_s, _LONGEST_DELAY_S)
        self.boot.lifecycle.begin_all(missing, self.boot.state.overrides)
        return self._delay_s

    async def _missing(self) -> list[str]:
        wanted = await self._wanted()
        records, ensembles_of = self.boot.lifecycle.records, self.boot.lifecycle.ensembles_of
        new = () if self.boot.is_explicit else wanted.difference(records)
        again = (
            name
            for name in self.boot.source.watch.unread
            if not (name in records and records[name].ready_versions)
            and not wanted.isdisjoint((name, *ensembles_of(name)))
        )
        return sorted({*new, *again})

    async def _wanted(self) -> frozenset[str]:
        if self.boot.is_explicit:
            return frozenset(self.boot.state.saved.wanted)
        if self._listed is not None:
            return self._listed
        try:
            names, duplicates = await self.boot.source.list_names()
        except TritonError:
            # What is away, and that it is back, the listing itself has told.
            return frozenset()
        found = frozenset(names).difference(duplicates)
        if self.boot.source.watch.is_complete:
            self._listed = found
        return found
