# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""What both ends of a lane of tickets have in common: small messages, no tensors, no slabs."""

from dataclasses import replace
from typing import Final

from deployments.lane.messages import LaneLimits, peer_timeout_s
from deployments.settings.lane_settings import LaneSettings
from deployments.slabs.pool import SlabPool

TICKET_LIMITS: Final = LaneLimits(
    max_message_bytes=4 << 20, max_tail_bytes=0, max_unsent_bytes=64 << 20
)

NO_SLABS: Final = SlabPool(0)
# Of a clock of nanoseconds, which is 63 bits long.
_MAX_EPOCH_DIGITS: Final = 19


def ticket_limits_of(settings: LaneSettings) -> LaneLimits:
    """Return the bounds of lanes of tickets that the server's options ask for."""
    return replace(TICKET_LIMITS, peer_timeout_s=peer_timeout_s(settings))


def holder_name(epoch: int) -> str:
    """Return what a holder calls itself in the set-up."""
    return f"holder-{epoch}"


def epoch_of(name: str) -> int:
    """Return the epoch of the holder with this name; 0 when it is no holder."""
    digits = name.removeprefix("holder-")
    is_epoch = digits != name and digits.isdecimal() and len(digits) <= _MAX_EPOCH_DIGITS
    return int(digits) if is_epoch else 0
