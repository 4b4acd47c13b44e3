# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""What the answers of some time say together. Pure."""


class Window:
    """Sums of the lowest priority level that was answered: higher ones pass by the queue.

    Args:
        began_ns: When it begins.
        due_ns: When it may end.
        idle_below_ns: A wait below says that the request found the model idle.

    Attributes:
        began_ns: The same.
        due_ns: The same.
        answered_count: Answers, all of them.
        refused_count: Refusals.
        count: Answers of the lowest level.
        took_ns: What these requests took, together.
        wait_ns: What of it was their wait, or beside their execution where nobody tells the wait.
        least_wait_ns: The least of one of them.
        execution_ns: What their executions took, together.
        idle_count: How many of them found the model idle.
    """

    __slots__ = (
        "_idle_below_ns",
        "_level",
        "answered_count",
        "began_ns",
        "count",
        "due_ns",
        "execution_ns",
        "idle_count",
        "least_wait_ns",
        "refused_count",
        "took_ns",
        "wait_ns",
    )

    def __init__(self, began_ns: int, due_ns: int, idle_below_ns: float) -> None:
        self.began_ns = began_ns
        self.due_ns = due_ns
        self._idle_below_ns = idle_below_ns
        self._level = 0
        self.answered_count = 0
        self.refused_count = 0
        self._begin_level(0)

    def _begin_level(self, level: int) -> None:
        self._level = level
        self.count = 0
        self.took_ns = 0
        self.wait_ns = 0
        self.least_wait_ns = 1 << 62
        self.execution_ns = 0
        self.idle_count = 0

    def take(self, took_ns: int, wait_ns: int, execution_ns: int, level: int) -> bool:
        """Add an answer; False for one of a level that passes by the queue."""
        if level != self._level:
            if level < self._level:
                return False
            self._begin_level(level)
        self.count += 1
        self.took_ns += took_ns
        self.wait_ns += wait_ns
        self.execution_ns += execution_ns
        self.least_wait_ns = min(self.least_wait_ns, wait_ns)
        if wait_ns < self._idle_below_ns:
            self.idle_count += 1
        return True
