# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Until when a scheduler waits for its first requests."""

from typing import NamedTuple


class Holds(NamedTuple):
    """Until when a scheduler waits for its first requests."""

    delay_count: int = 0
    backlog_count: int = 0
