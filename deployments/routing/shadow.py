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
        counts: Of that version.
    """

    key: str
    version: int
    tolerance: Tolerance
    counts: ArmReport
