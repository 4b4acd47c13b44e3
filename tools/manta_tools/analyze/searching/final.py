# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""The best candidates measured again, longer and one right after the other.

Among many noisy measurements the highest is a lucky one, and what was measured minutes apart was
not measured on the same machine. Manta's own.
"""

from dataclasses import replace
from typing import Final

from manta_tools.analyze.searching.steps import Steps, side_by_side
from manta_tools.analyze.searching.task import Outcomes, Task, measured_in

FINALISTS: Final = 5
# So many full measurements each.
_BUDGET: Final = 2.0


def final(task: Task, outcomes: Outcomes) -> Steps[None]:
    """Measure the best again, each under the load at which it is best."""
    trials = outcomes.top_trials(FINALISTS)
    if len(trials) > 1:
        longer = [replace(each, budget=_BUDGET) for each in trials]
        yield from side_by_side((measured_in(outcomes, [each]) for each in longer), task.width)
