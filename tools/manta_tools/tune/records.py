# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""What is adjusted, within which bounds, and what a period has shown."""

from dataclasses import dataclass
from typing import Literal

Knob = Literal["delay_us", "batch"]


@dataclass(frozen=True, slots=True)
class Settings:
    """How a model is batched.

    Attributes:
        delay_us: How long a request may wait for others to batch with.
        batch: How many inferences a batch is to have, its preferred size; 0 for no preference.
    """

    delay_us: int
    batch: int = 0


@dataclass(frozen=True, slots=True)
class Bounds:
    """What may be adjusted, and how far.

    Attributes:
        delay_us: Least and largest delay; None: it stays as it is.
        batch: Least and largest preferred size; None: it stays as it is.
    """

    delay_us: tuple[int, int] | None = None
    batch: tuple[int, int] | None = None


@dataclass(frozen=True, slots=True)
class Observation:
    """One period of a served model; times in milliseconds.

    Attributes:
        requests: How many ended well.
        rate: Inferences a second.
        latency_ms: What the SLO is about: a mean, or a percentile.
        queue_ms: Mean wait before an execution.
        batch_size: Inferences of an execution, in the mean.
        busy: Part of the time in which instances executed; 1.0: all of them, always.
    """

    requests: int
    rate: float
    latency_ms: float
    queue_ms: float
    batch_size: float
    busy: float


@dataclass(frozen=True, slots=True)
class Decision:
    """What is to be done after a period.

    Attributes:
        settings: How the model is to be batched from now on.
        is_change: Whether that differs from how it is batched.
        is_revert: Whether it takes the last change back.
        reason: Why, on one line.
    """

    settings: Settings
    is_change: bool
    reason: str
    is_revert: bool = False
