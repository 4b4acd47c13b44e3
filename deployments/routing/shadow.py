# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""What a request is compared with."""

from dataclasses import dataclass

from deployments.contracts.arm_report import ArmReport
from deployments.rollouts.comparing import Tolerance


@dataclass(frozen=True, slots=True)
class Shadow:
    """What a request is compared with.

    Attributes:
        key: The model's key.
        version: The version that has the copy.
        tolerance: How far answers may be apart.
        most_pending: So many copies may wait or be under way.
        mismatches_per_minute: So many differences are written to the file.
        counts: Of that version.
    """

    key: str
    version: int
    tolerance: Tolerance
    most_pending: int
    mismatches_per_minute: int
    counts: ArmReport
