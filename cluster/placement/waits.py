# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""What an instance waits for in the controller, of which Ray knows nothing."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Waits:
    """No place is to be had now.

    Attributes:
        reason: Why, and what would change that.
        ends_with_node: Whether one more node like those there are would.
    """

    reason: str
    ends_with_node: bool = True
