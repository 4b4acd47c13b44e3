# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Until when a scheduler waits for its first requests."""

import re
from collections.abc import Mapping
from typing import NamedTuple

_DELAY = "TRITONSERVER_DELAY_SCHEDULER"
_BACKLOG = "TRITONSERVER_BACKLOG_DELAY_SCHEDULER"
_LEADING_NUMBER = re.compile(r"\s*\+?(\d+)")


class Holds(NamedTuple):
    """Until when a scheduler waits for its first requests."""

    delay_count: int = 0
    backlog_count: int = 0


NO_HOLDS = Holds()


def holds_of(environ: Mapping[str, str]) -> Holds:
    """Return what a process's environment asks for; what is not a number counts as 0."""
    return Holds(_number(environ.get(_DELAY, "")), _number(environ.get(_BACKLOG, "")))


def _number(text: str) -> int:
    match = _LEADING_NUMBER.match(text)
    return int(match.group(1)) if match is not None else 0
