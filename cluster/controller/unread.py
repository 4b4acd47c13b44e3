# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Retries of models that could not be read at the start, for as long as they are wanted.

Polls do so by themselves. Without them nobody would: a store that is away for the minute in which a
controller is started again would cost its models for good. A config that is refused is read once.
"""

from typing import Final

from backends.api.errors import TritonError
from cluster.controller.boot import Boot
from cluster.models.lifecycle import ModelLifecycle

_FIRST_DELAY_S: Final = 5.0
_LONGEST_DELAY_S: Final = 60.0


class UnreadModels:
    """The models that a start wants, and could not read.

    Args:
        boot: The start.
        lifecycle: Loads them.
    """

    def __init__(self, boot: Boot, lifecycle: ModelLifecycle) -> None:
        self._boot = boot
        self._source = boot.source
        self._lifecycle = lifecycle
        # Whether clients say what is wanted, and not the repositories.
        self._is_explicit = boot.is_explicit
        # The models of all repositories; None until each was listed.
        self._listed: frozenset[str] | None = None
        self._delay_s = 0.0

    async def look(self) -> float:
        """Try again what is missing, and return when to do so next."""
        if not self._delay_s:
            await self._boot.ended.wait()
            if self._boot.error is None and self._source.watch.is_complete:
                self._listed = frozenset(self._lifecycle.records)
            self._delay_s = _FIRST_DELAY_S
            return self._delay_s
        missing = await self._missing()
        is_over = not missing and (self._is_explicit or self._listed is not None)
        self._delay_s = _FIRST_DELAY_S if is_over else min(2 * self._delay_s, _LONGEST_DELAY_S)
        self._lifecycle.begin_all(missing, self._boot.state.overrides)
        return self._delay_s

    async def _missing(self) -> list[str]:
        wanted = await self._wanted()
        records, ensembles_of = self._lifecycle.records, self._lifecycle.ensembles_of
        new = () if self._is_explicit else wanted.difference(records)
        again = (
            name
            for name in self._source.watch.unread
            if not (name in records and records[name].ready_versions)
            and not wanted.isdisjoint((name, *ensembles_of(name)))
        )
        return sorted({*new, *again})

    async def _wanted(self) -> frozenset[str]:
        if self._is_explicit:
            return frozenset(self._boot.state.saved.wanted)
        if self._listed is not None:
            return self._listed
        try:
            names, duplicates = await self._source.list_names()
        except TritonError:
            # What is away, and that it is back, the listing itself has told.
            return frozenset()
        found = frozenset(names).difference(duplicates)
        if self._source.watch.is_complete:
            self._listed = found
        return found
