# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Runs a search: asks it, has its trials measured, keeps the outcomes and tells it."""

from collections.abc import Callable

from cluster.tools.analyze.checkpoints import Checkpoint
from cluster.tools.analyze.records import Measured, Measurer, Search


async def run_search(
    search: Search,
    measurer: Measurer,
    checkpoint: Checkpoint,
    *,
    is_stopping: Callable[[], bool],
    on_measured: Callable[[Measured, bool], None],
) -> bool:
    """Run a search to its end, and return whether it came to that.

    What the checkpoint holds is told and not measured again.

    Args:
        search: Asks for trials.
        measurer: Measures them, one after the other.
        checkpoint: Keeps what is measured.
        is_stopping: Whether to stop before the next trial.
        on_measured: Called with each outcome, and whether it is from the checkpoint.
    """
    known = {each.trial: each for each in checkpoint.measured}
    while trials := search.ask():
        for trial in trials:
            measured = known.get(trial)
            is_known = measured is not None
            if measured is None:
                if is_stopping():
                    return False
                measured = await measurer.measure(trial)
                checkpoint.append(measured)
                known[trial] = measured
            search.tell(measured)
            on_measured(measured, is_known)
    return True
