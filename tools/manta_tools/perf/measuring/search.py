# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Which levels of load are measured, one after the other.

Triton: perf_analyzer/src/inference_profiler.h Profile @263c5f6
"""

from collections.abc import Generator

Levels = Generator[float, bool, None]


def linear(start: float, end: float, step: float) -> Levels:
    """Yield levels up to the end, or with 0 for the end, while they meet the limits.

    What is sent back is whether the level met them.
    """
    level = start
    while True:
        meets = yield level
        level += step
        if not meets or (end and level > end) or step <= 0:
            return


def binary(start: float, end: float, step: float, *, is_whole: bool) -> Levels:
    """Yield both ends, then halve the range until it is no longer than the step.

    What is sent back is whether the level met the limits. A start that does not meet them, or an
    end that does, leaves nothing to look for.
    """
    if not (yield start) or (yield end):
        return
    while end - start > step:
        middle = (start + end) // 2 if is_whole else (start + end) / 2
        if (yield middle):
            start = middle
        else:
            end = middle
