# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""What an application on Serve waits for before it is running."""

from enum import StrEnum


class WaitForModels(StrEnum):
    """Every start-up model's being ready, its having been tried, or nothing."""

    ALL = "all"
    ATTEMPTED = "attempted"
    NONE = "none"
