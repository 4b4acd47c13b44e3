# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Looks at the model repositories: polls, and retries of what could not be read at the start."""

import asyncio
import logging
from dataclasses import dataclass
from typing import Final

from backends.api.errors import TritonError
from backends.api.model_identifier import shown
from cluster.controller.boot import Boot
from cluster.controller.repository_source import RepositorySource
from cluster.models.lifecycle import ModelLifecycle

_log = logging.getLogger(__name__)

# Part of the period that it is made shorter by, at most: who waits for a poll waits a period.
_JITTER: Final = 0.1
# How long what is gone waits for what is new, so that an ensemble is rid of a part before it goes.
_PATIENCE_S: Final = 10.0
_MOST_SHOWN: Final = 10
# Between attempts at what could not be read at the start.
_FIRST_DELAY_S: Final = 5.0
_LONGEST_DELAY_S: Final = 60.0


def next_poll_s(period_s: float, drawn: float) -> float:
    """Return when to poll next: clusters that started together shall not poll together.

    Args:
        period_s: ``--repository-poll-secs``.
        drawn: A random number in [0, 1).
    """
    return period_s * (1 - _JITTER * drawn)


async def poll_once(source: RepositorySource, lifecycle: ModelLifecycle) -> None:
    """Load what is new or changed in the repositories and unload what is gone.

    Models in stores are read only where the listing tells that they have changed. Those of a
    repository that cannot be listed stay as they are.

    What cannot be loaded or unloaded is logged and tried again by the next poll. A load that takes
    long goes on, and is none of the next poll's concern.

    Raises:
        TritonError: No repository can be listed.
    """
    names, duplicates = await source.list_names()
    watch, wanted = source.watch, set(names) - set(duplicates)
    records = lifecycle.records.items()
    # Before the loads: whoever asks for the index meanwhile has the repositories listed anew.
    gone = watch.gone(n for n, r in records if n not in wanted and r.versions)
    kept = source.unchanged(wanted) | watch.away(wanted)
    loads = lifecycle.begin_all(sorted(wanted - kept))
    if not (await asyncio.wait({loads}, timeout=_PATIENCE_S))[0]:
        names = sorted(lifecycle.loading_names)
        text = "%d models load for longer than %g s, and others are followed meanwhile: %s"
        _log.warning(text, len(names), _PATIENCE_S, ", ".join(map(shown, names[:_MOST_SHOWN])))
    watch.forget(duplicates)
    await lifecycle.unload_all(gone)


async def know_names(source: RepositorySource, lifecycle: ModelLifecycle) -> None:
    """Have models load with their first use that are new, and unload those that are gone.

    A model whose files came with its load stays: no repository tells of it.

    Raises:
        TritonError: No repository can be listed.
    """
    names, duplicates = await source.list_names()
    wanted, records = set(names) - set(duplicates), lifecycle.records
    lifecycle.dormancy.know(sorted(wanted - records.keys()))
    absent = [n for n, record in records.items() if n not in wanted and record.is_on_demand]
    gone = source.watch.gone(n for n in absent if not lifecycle.model_of(n).override.files)
    await lifecycle.unload_all(gone)


@dataclass(slots=True, eq=False)
class UnreadModels:
    """The models that a start wants, and could not read, for as long as they are wanted.

    Polls try them again by themselves. Without polls nobody would: a store that is away for the
    minute in which a controller is started again would cost its models for good. A config that is
    refused is read once.
    """

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
