# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Looks at the model repositories, in the modes poll and ondemand."""

import asyncio
import logging
from typing import Final

from backends.api.model_identifier import shown
from cluster.controller.repository_source import RepositorySource
from cluster.models.lifecycle import ModelLifecycle

_log = logging.getLogger(__name__)

# Part of the period that it is made shorter by, at most: who waits for a poll waits a period.
_JITTER: Final = 0.1
# How long what is gone waits for what is new, so that an ensemble is rid of a part before it goes.
_PATIENCE_S: Final = 10.0
_MOST_SHOWN: Final = 10


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
