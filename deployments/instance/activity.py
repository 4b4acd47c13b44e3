# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""What an instance does at an instant, as its own observers see it."""

from typing import NamedTuple


class Activity(NamedTuple):
    """What an executor does at an instant.

    Attributes:
        pending_count: Requests that wait.
        executing_for_ns: How long the present execution has lasted; 0 while there is none.
        quiet_for_ns: How long the model has shown nothing of what it works on: since the execution
            began, for a decoupled model since the last execution began or the last response was
            sent; 0 while it has nothing to do, or waits until a caller takes a response.
        decision_count: How often the execution thread has asked the scheduler.
        execution_count: Executions that have begun.
    """

    pending_count: int
    executing_for_ns: int
    quiet_for_ns: int
    decision_count: int
    execution_count: int
