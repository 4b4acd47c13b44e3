# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Counts what the interpreter executes: work that no other program on the machine changes.

What runs in C, as copying a dictionary does, counts as one. What is compiled counts as nothing.
"""

import sys
from collections.abc import Callable
from types import FrameType
from typing import Any, NoReturn


def instructions(work: Callable[[], object]) -> int:
    """Return how many instructions a call takes, in this thread."""
    count = 0

    def trace(frame: FrameType, event: str, _: Any) -> Any:
        nonlocal count
        if event == "call":
            frame.f_trace_opcodes = True
            frame.f_trace_lines = False
        elif event == "opcode":
            count += 1
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        work()
    finally:
        sys.settrace(before)
    return count


class NotWalked(dict[Any, Any]):
    """Things each of which can be found, and none of which is visited."""

    def _walk(self) -> NoReturn:
        raise AssertionError("all are walked")

    __iter__ = _walk
    items = _walk
    keys = _walk
    values = _walk
