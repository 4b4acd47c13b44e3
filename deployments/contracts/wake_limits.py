# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""How many requests may wait for model versions without an instance, and how long."""

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class WakeLimits:
    """What may wait in one router for versions that are being woken.

    Attributes:
        request_count: Requests of one model version.
        size_bytes: Tensors of all of them together.
        wait_s: How long a request may wait, to within a second.
    """

    request_count: int = 1000
    size_bytes: int = 64 << 20
    wait_s: float = 120.0


DEFAULT_WAKES: Final = WakeLimits()
