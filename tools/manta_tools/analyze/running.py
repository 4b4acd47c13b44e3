# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Runs a search: asks it, has its trials measured, keeps the outcomes and tells it."""

from collections.abc import Callable

from manta_tools.analyze.checkpoints import Checkpoint
from manta_tools.analyze.measuring.dispatching import Pool
from manta_tools.analyze.records import Measured, Search


async def run_search(
    search: Search,
    pool: Pool,
    checkpoint: Checkpoint,
    *,
    is_stopping: Callable[[], bool],
    on_measured: Callable[[Measured, str], None],
) -> bool:
    """Run a search to its end, and return whether it came to that.

    What the checkpoint holds is told and not measured again.

    Args:
        search: Asks for trials.
        pool: Measures those that are asked for at once.
        checkpoint: Keeps what is measured, in the order in which it comes.
        is_stopping: Whether to begin no more trials.
        on_measured: Called with each new outcome, and the name of the place it is from.

    Raises:
        UnavailableError: Nothing can be measured any more.
    """
    known = {each.trial: each for each in checkpoint.measured}

    def take(measured: Measured, place: str) -> None:
        checkpoint.append(measured)
        known[measured.trial] = measured
        search.tell(measured)
        on_measured(measured, place)

    while trials := search.ask():
        for trial in trials:
            if trial in known:
                search.tell(known[trial])
        unknown = [trial for trial in trials if trial not in known]
        if not await pool.measure_all(unknown, is_stopping=is_stopping, on_measured=take):
            return False
    return True
